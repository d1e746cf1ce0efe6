/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From references in shared memory to the views operators read, with every bound checked on the way: a reference or a
 * list block may have been written by a process that parses hostile files, and may be written again at any moment. So
 * what is checked is copied first, and the copy is what the view shows: lengths, shapes, media types and paths. Only
 * the data of a value stays where it is, which has no bounds in it.
 */
#ifndef SRC_WORKER_VIEW_H
#define SRC_WORKER_VIEW_H

#include <sheaf/operator.h>

#include "worker/payload_map.h"

/* The private copy of one value's prefix. Zeroed memory is an empty one; it must stay where it is until view_room_done.
 */
struct view_room {
    char *bytes;
    uint32_t capacity, used;
    struct view_room *next, **link; /* among those of the map */
};

void view_room_done(struct view_room *room);

/* A list by cursor. Elements that are lists use `inner`, one level down, so an element is good until the next call. */
struct sheaf_list {
    struct payload_map *map;
    const struct value_ref *refs; /* in shared memory: copied one by one before use */
    const struct list_error_ref *errors;
    uint32_t segment;
    uint32_t count, error_count;
    uint32_t next, error_next;
    sheaf_kind element_kind;
    struct view_room room;    /* of the element */
    struct sheaf_list *inner; /* owned; made when first needed */
    char *message;            /* of the last error told; owned */
};

/* The view of one value. `list` is used when it is a list, `room` when it has a prefix; both must be zeroed memory or
 * have been used before. The view is good as long as the value may be read and neither is used again. -EBADMSG: the
 * reference does not check out; -ENOMEM. */
int value_view(struct payload_map *map, const struct value_ref *ref, struct sheaf_list *list, struct view_room *room,
               struct sheaf_value *ret_value);

/* The file_prefix of a file from a view that value_view made, wherever it came from; false: it is no such view. */
bool view_file_prefix(const struct payload_map *map, const struct sheaf_value *file, struct file_prefix *ret_prefix);

void list_done(struct sheaf_list *list);

/* The host's list functions (sheaf_host). A damaged element ends the list with -EBADMSG. */
int list_next(struct sheaf_list *list, struct sheaf_value *ret_value);
void list_rewind(struct sheaf_list *list);
int list_error_next(struct sheaf_list *list, struct sheaf_list_error *ret_error);

#endif
