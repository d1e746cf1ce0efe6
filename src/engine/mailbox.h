/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between threads of the engine: control traffic, a few per root, never per row. A mailbox has any number of
 * senders and one reader; who sends also wakes the reader, in the reader's own way (event count, eventfd).
 */
#ifndef SRC_ENGINE_MAILBOX_H
#define SRC_ENGINE_MAILBOX_H

#include <pthread.h>
#include <stdbool.h>

#include "engine/classes.h"

/* The first member of every message struct. */
struct message {
    struct message *next;
    int kind;
};

struct mailbox {
    pthread_mutex_t lock;
    struct message *first;
    struct message **last;
    struct memory_count *count; /* of what is in it; NULL: not counted */
};

void mailbox_init(struct mailbox *mailbox, struct memory_count *count);
void mailbox_fini(struct mailbox *mailbox); /* frees what is left */

/* Takes the message over, or a chain of them, oldest first. True: the mailbox was empty, and the reader may sleep. */
bool mailbox_post(struct mailbox *mailbox, struct message *message);
bool mailbox_post_all(struct mailbox *mailbox, struct message *first);

/* Everything that is there, oldest first, or NULL. The caller frees each. */
struct message *mailbox_take(struct mailbox *mailbox);
bool mailbox_is_empty(struct mailbox *mailbox);

#endif
