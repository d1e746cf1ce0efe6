/* SPDX-License-Identifier: Apache-2.0 */
#include "io/tree/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define HASH_BUFFER_BYTES ((size_t)1 << 18)

int tree_find(struct sheaf_tree *tree, const char *path, enum journal_state *ret_state, char **ret_text)
{
    uint64_t key = journal_key(path), value;
    struct journal_frame frame;
    char *text;

    pthread_mutex_lock(&tree->lock);
    bool found = index_get(&tree->records, key, &value);
    pthread_mutex_unlock(&tree->lock);
    if (!found)
        return -ENOENT;
    int rc = journal_read(tree->journal_fd, value >> 3, &frame, &text);
    if (rc < 0)
        return rc;
    if (frame.key != key) {
        free(text);
        return -EBADMSG;
    }
    *ret_state = (enum journal_state)(value & 7);
    *ret_text = text;
    return 0;
}

static bool hash_matches(int fd, uint64_t hash)
{
    XXH3_state_t *state = XXH3_createState();
    char *buffer = malloc(HASH_BUFFER_BYTES);
    ssize_t count = -1;

    if (state != NULL && buffer != NULL) {
        XXH3_64bits_reset(state);
        while ((count = read(fd, buffer, HASH_BUFFER_BYTES)) > 0 || (count < 0 && errno == EINTR))
            if (count > 0)
                XXH3_64bits_update(state, buffer, (size_t)count);
    }
    bool matches = count == 0 && XXH3_64bits_digest(state) == hash;
    free(buffer);
    XXH3_freeState(state);
    return matches;
}

/* A committed file is as journalled. Its hash is only worth reading it where size and time do not vouch for it. */
static bool file_is_whole(const struct sheaf_tree *tree, const struct record_file *file)
{
    struct stat status;
    int fd = openat(tree->root_fd, file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    bool whole = false;

    if (fd < 0)
        return false;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && (uint64_t)status.st_size == file->length_bytes) {
        int64_t mtime_ns = (int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;

        whole = (mtime_ns == file->mtime_ns && !tree->verify_always) || hash_matches(fd, file->hash);
    }
    close(fd);
    return whole;
}

static enum sheaf_resume judge(const struct sheaf_tree *tree, const struct sheaf_source_identity *identity,
                               enum journal_state state, const struct record *record)
{
    if (record->size_bytes != identity->size_bytes || record->mtime_ns != identity->mtime_ns)
        return SHEAF_RESUME_CHANGED;
    if (state == JOURNAL_FAILED)
        return SHEAF_RESUME_FAILED;
    for (size_t i = 0; i < record->file_count; i++)
        if (!file_is_whole(tree, &record->files[i]))
            return SHEAF_RESUME_CHANGED;
    return SHEAF_RESUME_DONE;
}

enum sheaf_resume sheaf_tree_lookup(struct sheaf_tree *tree, const struct sheaf_source_identity *identity,
                                    const char **ret_line)
{
    enum sheaf_resume resume = SHEAF_RESUME_NEW;
    enum journal_state state;
    struct record record;
    char *text;

    free(tree->line);
    tree->line = NULL;
    if (ret_line != NULL)
        *ret_line = NULL;
    if (tree_find(tree, identity->path, &state, &text) < 0)
        return resume;
    if (state != JOURNAL_RETRACTED && record_parse(text, &record) == 0) {
        if (strcmp(record.path, identity->path) == 0) { /* else another source with the same hash */
            resume = judge(tree, identity, state, &record);
            tree->line = strndup(record.manifest_line, record.manifest_length);
        }
        record_clear(&record);
    }
    free(text);
    if (ret_line != NULL)
        *ret_line = tree->line;
    return resume;
}
