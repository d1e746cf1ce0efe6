/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records a worker sends to a shard, over an SPSC byte ring in the worker's own memory.
 *
 * Every claim ends with exactly one of ANSWER, FAIL, RAISED, RELEASED or DAMAGED for its (grain, number), also a
 * cancelled or recalled one; before it any number of CHILD records of that claim may come. A whole batch is committed
 * at once, if the ring has room. Children of one row that are there together share a record, and so do the answers of
 * rows that ran as one batch: what a record costs on both sides is most of what a short answer costs. The reader copies
 * a record out before it checks it (a checksum against stray writes, lengths, kinds, counts against the length, text
 * termination is not needed) and calls nothing in it true: grain, number, segments and offsets are for the shard to
 * check against what it knows.
 */
#ifndef SHM_COMPLETION_RING_H
#define SHM_COMPLETION_RING_H

#include "shm/dispatch.h"
#include "shm/spsc_ring.h"
#include "shm/value_ref.h"

enum completion_kind {
    COMPLETION_ANSWER = 1, /* the outputs of one or more rows; for group outputs that were streamed kind 0 */
    COMPLETION_FAIL,       /* a declared failure, or a broken contract the worker saw */
    COMPLETION_RAISED,     /* the dispatch this row was in raised */
    COMPLETION_RELEASED,   /* given back without having been run */
    COMPLETION_CHILD,      /* one or more children: a value each per group output, kind 0: none for that output */
    COMPLETION_EVICTED,    /* state kept under `key` is gone, its inputs are not read any more */
    COMPLETION_CHUNK,      /* chunk `key` of its segment is given back; CONTROL_NO_CHUNK: those were all */
    COMPLETION_LOG,        /* a line of text about a row, or about none (grain COMPLETION_NO_GRAIN) */
    COMPLETION_DAMAGED,    /* an input is not what its producer answered: the row ends, and nothing it did counts */
    COMPLETION_KINDS,
};

#define COMPLETION_NO_GRAIN UINT32_MAX
/* Waking a shard for each child of a burst costs more than the children. So a worker tells of a child only if it told
 * of none for this long, and a shard that took a child looks once more, this long after, before it sleeps without end:
 * what was committed and not told of in between is found then. A child is known to its shard this long after it was
 * emitted at the latest, whatever the operator does next; or when the shard looks by itself, if it has said that it
 * will and that plenty of them wait (board_promise). */
#define COMPLETION_CHILD_NS UINT64_C(2000000)
#define COMPLETION_VALUES_MAX 1024u
#define COMPLETION_TEXT_BYTES_MAX 4096u /* longer texts are cut by the writer at a UTF-8 boundary */
/* Values of several rows, or children, in one record: not more than any ring takes (completion_ring_bytes_min). */
#define COMPLETION_TOGETHER_MAX 64u

/*
 * One record, to write or as read. Which fields count:
 *   ANSWER    grain, number, child_count (children this claim sent), run_ns, closed (then rows_run), values; row_count
 *   FAIL      grain, number, child_count, run_ns, closed (then rows_run), scope, class_id, text
 *   RAISED    grain, number, run_ns, rows_run, closed, class_id, text
 *   RELEASED  grain, number
 *   DAMAGED   grain, number
 *   CHILD     grain, number, ordinal, child_count (children in this record, 1 and up), values
 *   EVICTED   key
 *   CHUNK     key
 *   LOG       grain, number, level, text
 * An ANSWER of several rows (row_count above 1) has the names of all but the first in `others`; `values` are those of
 * one row after the other, equally many; child_count is 0, and what it tells of the batch counts once. The children of
 * a CHILD have Ordinals from `ordinal` on, and `values` are those of one child after the other, equally many.
 *
 * When read, values, others and text lie in the reader's own memory, to be changed at will, and are good until the next
 * read. `text` is NUL-terminated there and may have NULs inside; all fields that do not count are 0.
 */
struct completion {
    enum completion_kind kind;
    uint32_t grain;
    uint64_t number; /* of the dispatch */
    uint64_t ordinal;
    uint64_t child_count;
    uint64_t run_ns; /* from start to end of the row; the same for all rows that ran as one batch */
    uint64_t key;
    uint32_t scope;     /* enum sheaf_scope: 0..2 */
    uint32_t class_id;  /* enum sheaf_class, below 256 */
    uint32_t level;     /* 0 debug, 1 info, 2 warning */
    uint32_t rows_run;  /* rows that ran as one batch, this one included */
    uint32_t closed;    /* enum batch_close, in one record of each batch: why it had no more rows; else 0 */
    uint32_t row_count; /* of an ANSWER as read; 1 of others. Several are written by completion_write_rows */
    uint32_t value_count;
    uint32_t text_length_bytes;
    const uint64_t *others; /* names (dispatch_name) of the rows after the first */
    const struct value_ref *values;
    const char *text;
};

/* Rows of an answer, each as an answer of its own: the first, and row `at` from the one before it. */
static inline struct completion completion_first_row(const struct completion *record)
{
    struct completion row = *record;
    row.row_count = 1;
    row.value_count = record->value_count / record->row_count;
    return row;
}

static inline void completion_next_row(const struct completion *record, struct completion *row, uint32_t at)
{
    row->grain = dispatch_name_grain(record->others[at - 1]);
    row->number = dispatch_name_number(record->others[at - 1]);
    row->closed = row->rows_run = 0;
    row->values += row->value_count;
}

/* The smallest ring that takes a record with that many values and the longest text. */
uint32_t completion_ring_bytes_min(uint32_t values_max);

/* --- the worker: SPSC writer --- */

/* Reserve and fill one record, of one row; spsc_commit makes it visible. -EAGAIN, -EMSGSIZE, -EBADMSG as spsc_reserve,
 * -EMSGSIZE also for more than records take. */
int completion_write(struct spsc_writer *writer, const struct completion *record);

/* What is each row's own in an answer of several. */
struct completion_part {
    uint64_t name;
    const struct value_ref *values;
};

/* The same for an ANSWER of `count` rows, COMPLETION_TOGETHER_MAX at most: what they share stands in `record`, whose
 * value_count is of each; count times value_count are COMPLETION_TOGETHER_MAX at most if there are several. */
int completion_write_rows(struct spsc_writer *writer, const struct completion *record,
                          const struct completion_part *parts, uint32_t count);

/* --- the shard --- */

struct completion_reader {
    struct spsc_reader ring;
    void *copy; /* of the record at hand; the shard's own memory */
    uint32_t copy_bytes;
    uint32_t last_bytes; /* of the record at hand */
    bool broken;
};

int completion_reader_open(struct completion_reader *reader, const struct spsc_ring *ring); /* 0, -EINVAL, -ENOMEM */
void completion_reader_close(struct completion_reader *reader);

/*
 * The next record. 0; -EAGAIN: none now; -EBADMSG: the worker wrote something that is no record: kill it, its death
 * sorts out the rest (the ring gives nothing more). After a batch call spsc_release(&reader->ring), and bump the
 * worker's event count when it may be waiting for room.
 */
int completion_read(struct completion_reader *reader, struct completion *ret_record);

/* The grain of the record that comes `records` after the next, or COMPLETION_NO_GRAIN. A guess (it takes those in
 * between to be as long as the last one read) from memory that the worker writes: good for nothing but fetching what
 * the record will need. */
uint32_t completion_ahead(const struct completion_reader *reader, uint32_t records);

#endif
