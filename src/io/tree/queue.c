/* SPDX-License-Identifier: Apache-2.0 */
#include "io/tree/tree.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int64_t tree_now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void free_root(struct tree_root *root)
{
    if (root == NULL)
        return;
    for (uint32_t i = 0; i < root->file_count && root->files != NULL; i++)
        free(root->files[i].path);
    free(root->files);
    free(root->path);
    free(root->manifest_line);
    free(root->error_lines);
    free(root->stale);
    free(root);
}

static int parse_status(const char *status, struct tree_root *root)
{
    static const char *const names[] = {"ok", "partial", "filtered", "failed"};

    root->skipped = strcmp(status, "skipped") == 0;
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(status, names[i]) == 0) {
            root->state = (enum journal_state)i;
            return 0;
        }
    return root->skipped ? 0 : -EINVAL;
}

static int check_commit(const struct sheaf_tree_commit *commit, struct sheaf_error *error)
{
    if (commit->identity.path == NULL || commit->status == NULL || commit->manifest_line == NULL)
        return tree_fail(error, SHEAF_E_USAGE,
                         "output tree: a commit needs a source path, a status and a manifest line");
    if (strchr(commit->manifest_line, '\n') != NULL || commit->manifest_line[0] == '\0')
        return tree_fail(error, SHEAF_E_USAGE, "%s: its manifest line is empty or has a line end",
                         commit->identity.path);
    for (uint32_t i = 0; i < commit->file_count; i++) {
        const char *problem = tree_path_problem(commit->files[i].path);

        if (problem != NULL)
            return tree_fail(error, SHEAF_E_USAGE, "%.300s: output file %.300s %s; choose another name pattern",
                             commit->identity.path, commit->files[i].path, problem);
    }
    return 0;
}

/* A copy of everything but the data. */
static struct tree_root *copy_commit(const struct sheaf_tree_commit *commit)
{
    struct tree_root *root = calloc(1, sizeof *root);

    if (root == NULL)
        return NULL;
    root->files = calloc(commit->file_count + 1, sizeof *root->files);
    root->path = strdup(commit->identity.path);
    root->manifest_line = strdup(commit->manifest_line);
    root->error_lines = commit->error_lines == NULL ? NULL : strdup(commit->error_lines);
    if (root->files == NULL || root->path == NULL || root->manifest_line == NULL ||
        (commit->error_lines != NULL && root->error_lines == NULL)) {
        free_root(root);
        return NULL;
    }
    for (; root->file_count < commit->file_count; root->file_count++) {
        const struct sheaf_tree_file *file = &commit->files[root->file_count];
        char *path = strdup(file->path);

        if (path == NULL) {
            free_root(root);
            return NULL;
        }
        root->files[root->file_count] =
            (struct tree_file){.path = path, .data = file->data, .length_bytes = file->length_bytes, .fd = -1};
    }
    root->key = journal_key(root->path);
    root->size_bytes = commit->identity.size_bytes;
    root->mtime_ns = commit->identity.mtime_ns;
    root->tag = commit->tag;
    return root;
}

int sheaf_tree_submit(struct sheaf_tree *tree, const struct sheaf_tree_commit *commit, struct sheaf_error *error)
{
    int rc = check_commit(commit, error);

    if (rc < 0)
        return rc;
    pthread_mutex_lock(&tree->lock);
    bool full = tree->outstanding == TREE_OUTSTANDING_MAX;
    pthread_mutex_unlock(&tree->lock);
    if (full)
        return -EAGAIN; /* only this thread adds, so there is room below once there is here */
    struct tree_root *root = copy_commit(commit);
    if (root == NULL)
        return tree_fail(error, -ENOMEM, "%s: out of memory for its commit", commit->identity.path);
    if (parse_status(commit->status, root) < 0 || (root->skipped && root->file_count > 0)) {
        free_root(root);
        return tree_fail(error, SHEAF_E_USAGE, "%s: status %s is not known, or has files though it is skipped",
                         commit->identity.path, commit->status);
    }
    root->queued_us = tree_now_us();
    pthread_mutex_lock(&tree->lock);
    tree->queue[(tree->queue_first + tree->queue_count) % TREE_OUTSTANDING_MAX] = root;
    tree->queue_count++;
    tree->outstanding++;
    if (tree->queue_count == 1 || tree->queue_count >= TREE_GROUP_MAX)
        pthread_cond_signal(&tree->changed);
    pthread_mutex_unlock(&tree->lock);
    return 0;
}

int sheaf_tree_descriptor(const struct sheaf_tree *tree)
{
    return tree->event_fd;
}

int sheaf_tree_poll(struct sheaf_tree *tree, uint64_t *ret_tag, int *ret_status)
{
    uint64_t count;
    int found = 0;

    pthread_mutex_lock(&tree->lock);
    if (tree->done_count > 0) {
        *ret_tag = tree->done[tree->done_first].tag;
        *ret_status = tree->done[tree->done_first].result;
        tree->done_first = (tree->done_first + 1) % TREE_OUTSTANDING_MAX;
        tree->done_count--;
        tree->outstanding--;
        found = 1;
    }
    if (tree->done_count == 0 && read(tree->event_fd, &count, sizeof count) < 0)
        assert(errno == EAGAIN || errno == EINTR); /* it was not readable */
    pthread_mutex_unlock(&tree->lock);
    return found;
}

void sheaf_tree_flush(struct sheaf_tree *tree)
{
    pthread_mutex_lock(&tree->lock);
    if (tree->queue_count > 0) {
        tree->flushing = true;
        pthread_cond_signal(&tree->changed);
    }
    pthread_mutex_unlock(&tree->lock);
}

/* Waits until a group is due and takes it; 0: closing and nothing left. The lock is held. */
static uint32_t take_group(struct sheaf_tree *tree, struct tree_root **ret_roots)
{
    uint32_t count = 0;

    while (tree->queue_count == 0 && !tree->closing)
        pthread_cond_wait(&tree->changed, &tree->lock);
    if (tree->queue_count == 0)
        return 0;
    int64_t due_us = tree->queue[tree->queue_first]->queued_us + TREE_GROUP_WAIT_US;
    struct timespec due = {.tv_sec = due_us / 1000000, .tv_nsec = due_us % 1000000 * 1000};
    while (tree->queue_count < TREE_GROUP_MAX && !tree->flushing && !tree->closing && tree_now_us() < due_us)
        pthread_cond_timedwait(&tree->changed, &tree->lock, &due);
    while (count < TREE_GROUP_MAX && tree->queue_count > 0) {
        ret_roots[count++] = tree->queue[tree->queue_first];
        tree->queue_first = (tree->queue_first + 1) % TREE_OUTSTANDING_MAX;
        tree->queue_count--;
    }
    if (tree->queue_count == 0)
        tree->flushing = false;
    return count;
}

static void report_group(struct sheaf_tree *tree, struct tree_root **roots, uint32_t count)
{
    uint64_t one = 1;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = (tree->done_first + tree->done_count) % TREE_OUTSTANDING_MAX;

        assert(tree->done_count < TREE_OUTSTANDING_MAX);
        tree->done[at] = (struct tree_done){roots[i]->tag, roots[i]->result};
        tree->done_count++;
        free_root(roots[i]);
    }
    while (write(tree->event_fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

static void *run_writer(void *argument)
{
    struct sheaf_tree *tree = argument;
    struct tree_root *roots[TREE_GROUP_MAX];
    uint32_t count;

    pthread_mutex_lock(&tree->lock);
    while ((count = take_group(tree, roots)) > 0) {
        pthread_mutex_unlock(&tree->lock);
        tree_commit_group(tree, roots, count);
        pthread_mutex_lock(&tree->lock);
        report_group(tree, roots, count);
    }
    pthread_mutex_unlock(&tree->lock);
    return NULL;
}

int tree_start_writer(struct sheaf_tree *tree)
{
    sigset_t all, before;

    /* The host's signals are for the host's threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&tree->writer, NULL, run_writer, tree);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    tree->writer_started = rc == 0;
    return -rc;
}

void tree_stop_writer(struct sheaf_tree *tree)
{
    if (!tree->writer_started)
        return;
    pthread_mutex_lock(&tree->lock);
    tree->closing = true;
    pthread_cond_signal(&tree->changed);
    pthread_mutex_unlock(&tree->lock);
    pthread_join(tree->writer, NULL);
    tree->writer_started = false;
}
