/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names in an output tree. sheaf_tree_name keeps every component as it is but for these, which get the mark "%sheaf-":
 *
 *   empty, "." and ".."                     %sheaf-e, %sheaf-d, %sheaf-p
 *   those that contain the mark             %sheaf-= and the component
 *   a first one that collides with ours     %sheaf-= and the component
 *   over 200 bytes, or would be so marked   what stands before any mark, at most 150 bytes, %sheaf-h, 32 digits of
 * XXH3-128
 *
 * No unmarked component contains the mark, "=" follows it only at the start, and before "h" there is one mark only. So
 * two paths share a name only if they are the same, or two long components have the same 128-bit hash and the same
 * start.
 */
#include "io/tree/tree.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#define MARK "%sheaf-"
#define COMPONENT_BYTES_MAX 200u
#define CUT_BYTES_MAX 150u

static const char *const own_files[] = {"manifest.jsonl", "errors.jsonl", "run.json"};

static bool is(const char *component, size_t length, const char *name)
{
    return length == strlen(name) && memcmp(component, name, length) == 0;
}

/* A pattern may add an extension to a name ("{name}.json"), so the stems of our files are ours too. */
static bool collides(const char *component, size_t length)
{
    static const char *const stems[] = {TREE_STATE, "manifest", "errors", "run"};

    for (size_t i = 0; i < sizeof own_files / sizeof *own_files; i++)
        if (is(component, length, own_files[i]))
            return true;
    for (size_t i = 0; i < sizeof stems / sizeof *stems; i++)
        if (is(component, length, stems[i]))
            return true;
    return false;
}

/* Cuts at a character where the bytes are UTF-8. */
static size_t cut_length(const char *component, size_t length)
{
    const char *mark = memmem(component, length, MARK, strlen(MARK));
    size_t cut = mark != NULL ? (size_t)(mark - component) : length;

    if (cut <= CUT_BYTES_MAX)
        return cut;
    cut = CUT_BYTES_MAX;
    for (size_t back = 0; back < 3 && ((unsigned char)component[cut] & 0xc0) == 0x80; back++)
        cut--;
    return cut;
}

/* Writes the name of one component; ret_name holds NAME_MAX + 1 bytes. */
static void name_component(const char *component, size_t length, bool first, char *ret_name)
{
    bool marked = memmem(component, length, MARK, strlen(MARK)) != NULL || (first && collides(component, length));

    if (length == 0 || is(component, length, ".") || is(component, length, "..")) {
        snprintf(ret_name, NAME_MAX + 1, "%s%c", MARK, length == 0 ? 'e' : length == 1 ? 'd' : 'p');
    } else if (length + (marked ? sizeof MARK : 0) > COMPONENT_BYTES_MAX) {
        XXH128_hash_t hash = XXH3_128bits(component, length);

        snprintf(ret_name, NAME_MAX + 1, "%.*s%sh%016llx%016llx", (int)cut_length(component, length), component, MARK,
                 (unsigned long long)hash.high64, (unsigned long long)hash.low64);
    } else {
        snprintf(ret_name, NAME_MAX + 1, "%s%.*s", marked ? MARK "=" : "", (int)length, component);
    }
}

int sheaf_tree_name(const char *source_path, char *ret_name, size_t name_bytes)
{
    char whole[PATH_MAX], component[NAME_MAX + 1];
    size_t used = 0;

    for (const char *from = source_path;; from++) {
        size_t length = strcspn(from, "/");

        name_component(from, length, from == source_path, component);
        used += (size_t)snprintf(whole + used, sizeof whole - used, "%s%s", used > 0 ? "/" : "", component);
        if (used >= sizeof whole)
            return -ENAMETOOLONG;
        from += length;
        if (*from == '\0')
            break;
    }
    if (used >= name_bytes)
        return -ENAMETOOLONG;
    memcpy(ret_name, whole, used + 1);
    return 0;
}

const char *tree_path_problem(const char *path)
{
    if (strlen(path) >= PATH_MAX)
        return "is too long";
    if (path[0] == '/')
        return "is absolute";
    for (size_t i = 0; i < sizeof own_files / sizeof *own_files; i++)
        if (strcmp(path, own_files[i]) == 0)
            return "is one of the tree's own files";
    if (is(path, strcspn(path, "/"), TREE_STATE))
        return "lies in the tree's own folder";
    for (const char *from = path;; from++) {
        size_t length = strcspn(from, "/");

        if (length == 0 || is(from, length, ".") || is(from, length, ".."))
            return "has an empty, \".\" or \"..\" component";
        if (length > NAME_MAX)
            return "has a component over 255 bytes";
        from += length;
        if (*from == '\0')
            return NULL;
    }
}
