/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/mailbox.h"

#include <malloc.h>
#include <stdlib.h>

void mailbox_init(struct mailbox *mailbox, struct memory_count *count)
{
    mailbox->count = count;
    pthread_mutex_init(&mailbox->lock, NULL);
    mailbox->first = NULL;
    mailbox->last = &mailbox->first;
}

void mailbox_fini(struct mailbox *mailbox)
{
    struct message *message = mailbox_take(mailbox);
    while (message) {
        struct message *next = message->next;
        free(message);
        message = next;
    }
    pthread_mutex_destroy(&mailbox->lock);
}

bool mailbox_post(struct mailbox *mailbox, struct message *message)
{
    message->next = NULL;
    return mailbox_post_all(mailbox, message);
}

bool mailbox_post_all(struct mailbox *mailbox, struct message *first)
{
    struct message **last = &first->next;
    for (struct message *message = first; message; message = message->next) {
        if (mailbox->count)
            memory_add(mailbox->count, malloc_usable_size(message));
        last = &message->next;
    }
    pthread_mutex_lock(&mailbox->lock);
    bool was_empty = mailbox->first == NULL;
    *mailbox->last = first;
    mailbox->last = last;
    pthread_mutex_unlock(&mailbox->lock);
    return was_empty;
}

struct message *mailbox_take(struct mailbox *mailbox)
{
    pthread_mutex_lock(&mailbox->lock);
    struct message *first = mailbox->first;
    mailbox->first = NULL;
    mailbox->last = &mailbox->first;
    pthread_mutex_unlock(&mailbox->lock);
    for (struct message *message = first; mailbox->count && message; message = message->next)
        memory_sub(mailbox->count, malloc_usable_size(message));
    return first;
}

bool mailbox_is_empty(struct mailbox *mailbox)
{
    pthread_mutex_lock(&mailbox->lock);
    bool empty = mailbox->first == NULL;
    pthread_mutex_unlock(&mailbox->lock);
    return empty;
}
