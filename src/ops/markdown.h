/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of text to Markdown (CommonMark; also means the same to pandoc and GitHub).
 *
 * Text is escaped so that it reads as itself. A paragraph is one line. It is held back until it is known whether the
 * next block goes on with its sentence, over a column or a page; footnotes and captions that come between follow after
 * it. Page breaks leave no trace. Code and tables become fenced blocks.
 */
#ifndef SHEAF_OPS_MARKDOWN_H
#define SHEAF_OPS_MARKDOWN_H

#include "ops/assemble_buffer.h"
#include "ops/layout.h"

struct markdown {
    struct buffer *out;
    struct buffer pending; /* text of the paragraph or list item held back */
    struct buffer after;   /* Markdown that follows it */
    enum layout_kind pending_kind, last_kind;
    float pending_size;
    bool has_pending, has_output;
};

/* In place; writes to `out`. */
void markdown_init(struct markdown *markdown, struct buffer *out);
/* Writes what is held back. The buffers of `markdown` are freed; `out` is not. */
void markdown_finish(struct markdown *markdown);

/* Would a paragraph with this text go on with the one held back? */
int markdown_continues(const struct markdown *markdown, float size, const char *text, size_t bytes);
/* One block. `continues`: it goes on with the paragraph held back. */
void markdown_block(struct markdown *markdown, const struct layout_block *block, int continues, const char *text,
                    size_t bytes);
/* A note to the reader, as a block quote: "Page 3 could not be read: ...". Plain text. */
void markdown_note(struct markdown *markdown, const char *text, size_t bytes);

/* Appends `text` escaped; `at_start`: it stands at the start of a line. Line breaks become spaces. */
void markdown_escape(struct buffer *buffer, const char *text, size_t bytes, bool at_start);

#endif
