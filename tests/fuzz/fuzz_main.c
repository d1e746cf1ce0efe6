/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target without libFuzzer: fuzz_X [-mutations N] [-seed S] FILE|FOLDER... gives it every file as it is,
 * and N mutations of each (bytes changed, removed, repeated, spliced from another file), from a seed that is printed.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUTS_MAX = 4096, BYTES_MAX = 1 << 20 };

struct input {
    uint8_t *bytes;
    size_t size;
};

static struct input inputs[INPUTS_MAX];
static size_t input_count;

static void read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file || input_count == INPUTS_MAX) {
        fprintf(stderr, "%s: %s\n", path, file ? "too many inputs" : strerror(errno));
        exit(1);
    }
    uint8_t *bytes = malloc(BYTES_MAX);
    size_t size = bytes ? fread(bytes, 1, BYTES_MAX, file) : 0;
    fclose(file);
    inputs[input_count++] = (struct input){bytes, size};
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static void read_path(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
        read_file(path);
        return;
    }
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, is_visible, alphasort);
    for (int i = 0; i < count; i++) {
        char name[4096];
        snprintf(name, sizeof(name), "%s/%s", path, entries[i]->d_name);
        read_path(name);
        free(entries[i]);
    }
    free(entries);
}

static uint64_t random_state;

static size_t random_below(size_t limit)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return limit ? (size_t)(random_state % limit) : 0;
}

/* Puts `count` bytes in place of `removed` ones at `at`, as far as there is room. */
static size_t splice(uint8_t *bytes, size_t size, size_t at, size_t removed, const uint8_t *from, size_t count)
{
    if (at + removed > size || size - removed + count > BYTES_MAX)
        return size;
    memmove(bytes + at + count, bytes + at + removed, size - at - removed);
    memcpy(bytes + at, from, count);
    return size - removed + count;
}

static size_t mutate(uint8_t *bytes, size_t size)
{
    static const char *const words[] = {
        ": ", "- ", "{", "}", "[", "]", "\"", "&a ", "*a", "\n", "~", "-1", "99999999999999999999"};
    const struct input *other = &inputs[random_below(input_count)];
    size_t at = random_below(size + 1), start = random_below(other->size), length = random_below(40);
    uint8_t byte = (uint8_t)random_below(256);
    uint8_t piece[64];
    switch (random_below(5)) {
    case 0:
        return splice(bytes, size, at, at < size, &byte, 1);
    case 1:
        return splice(bytes, size, at, length, &byte, 0);
    case 2:
        length = length < other->size - start ? length : other->size - start;
        return splice(bytes, size, at, 0, other->bytes + start, length);
    case 3:
        if (at + length > size)
            return size;
        memcpy(piece, bytes + at, length);
        return splice(bytes, size, at, 0, piece, length);
    default: {
        const char *word = words[random_below(sizeof(words) / sizeof(words[0]))];
        return splice(bytes, size, at, 0, (const uint8_t *)word, strlen(word));
    }
    }
}

static void run_mutations(unsigned long count)
{
    uint8_t *bytes = malloc(BYTES_MAX);
    if (!bytes)
        exit(1);
    for (size_t i = 0; i < input_count; i++)
        for (unsigned long j = 0; j < count; j++) {
            size_t size = inputs[i].size;
            memcpy(bytes, inputs[i].bytes, size);
            for (size_t k = random_below(4) + 1; k > 0; k--)
                size = mutate(bytes, size);
            uint8_t *exact = malloc(size + 1); /* so that a sanitizer sees a read past the end */
            if (!exact)
                exit(1);
            memcpy(exact, bytes, size);
            LLVMFuzzerTestOneInput(exact, size);
            free(exact);
        }
    free(bytes);
}

int main(int argc, char **argv)
{
    unsigned long mutations = 0;
    random_state = 88172645463325252u;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-mutations") == 0 && i + 1 < argc)
            mutations = strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "-seed") == 0 && i + 1 < argc)
            random_state = strtoull(argv[++i], NULL, 10) | 1;
        else
            read_path(argv[i]);
    }
    printf("%zu inputs, %lu mutations of each, seed %llu\n", input_count, mutations, (unsigned long long)random_state);
    fflush(stdout);
    for (size_t i = 0; i < input_count; i++)
        LLVMFuzzerTestOneInput(inputs[i].bytes, inputs[i].size);
    run_mutations(mutations);
    for (size_t i = 0; i < input_count; i++)
        free(inputs[i].bytes);
    return input_count > 0 ? 0 : 1;
}
