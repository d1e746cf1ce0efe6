/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fonts for documents that do not bring their own.
 *
 * pdfium asks for a font by name, weight and charset. Left alone it would scan the system's folders and open files when
 * it needs them; in a worker nothing can be opened any more by then. So `fonts_install` maps every font file under the
 * folders while the operator opens, reads the names, and answers pdfium's questions from that index: the very font if
 * it is there, else a Noto font for the script, else none, which makes pdfium take one of its own Latin fonts.
 *
 * What was asked for and what was given is kept in the `font_log` that was set last, so that it can be said per
 * document. A script without a font would leave its text blank; that is logged with `file` "" and must be reported.
 *
 * One index per process, as pdfium is one per process.
 */
#ifndef SHEAF_OPS_FONTS_H
#define SHEAF_OPS_FONTS_H

#include <stddef.h>
#include <stdint.h>

#include "ops/pdfium.h"

enum { FONT_LOG_ENTRIES = 32, FONT_FILES_MAX = 4096 };

struct font_substitution {
    char asked[64]; /* the name in the document */
    char file[96];  /* name of the font file used, without its folder; "": there is none for this script */
    int charset;
};

struct font_log {
    uint32_t count; /* may exceed FONT_LOG_ENTRIES: then the rest is not kept */
    uint32_t missing;
    struct font_substitution entries[FONT_LOG_ENTRIES];
};

/* Builds the index from colon-separated folders (NULL or "": SHEAF_FONTS, else the system's) and gives it to pdfium.
 * Once per process; later calls do nothing. A machine without fonts is no error. Returns the number of faces. */
uint32_t fonts_install(const struct pdfium *pdfium, const char *folders);

/* Where substitutions are noted from now on; NULL: nowhere. */
void fonts_log_to(struct font_log *log);

/* 1 if some font for this charset is in the index. */
int fonts_have_charset(int charset);

/* "Japanese" for FXFONT_SHIFTJIS_CHARSET. Static. */
const char *font_charset_name(int charset);

#endif
