/* SPDX-License-Identifier: Apache-2.0 */
#include "device/pinned.h"

#include <errno.h>
#include <stdlib.h>

enum piece { PIECE_LOOSE = 0, PIECE_PINNED, PIECE_REFUSED };

struct range {
    unsigned char *base;
    uint64_t bytes;
    bool read_only;
    bool refused; /* the device cannot pin such memory */
    uint8_t *pieces;
};

struct pinned {
    struct device *device;
    uint64_t limit_bytes, bytes;
    struct range *ranges;
    uint32_t range_count;
};

int pinned_open(struct device *device, uint64_t limit_bytes, struct pinned **ret_pinned)
{
    struct pinned *pinned = calloc(1, sizeof *pinned);
    if (pinned == NULL)
        return -ENOMEM;
    pinned->device = device;
    pinned->limit_bytes = limit_bytes;
    *ret_pinned = pinned;
    return 0;
}

static uint64_t piece_count(const struct range *range)
{
    return (range->bytes + PINNED_PIECE_BYTES - 1) / PINNED_PIECE_BYTES;
}

static uint64_t piece_bytes(const struct range *range, uint64_t piece)
{
    uint64_t rest = range->bytes - piece * PINNED_PIECE_BYTES;
    return rest < PINNED_PIECE_BYTES ? rest : PINNED_PIECE_BYTES;
}

void pinned_close(struct pinned *pinned)
{
    if (pinned == NULL)
        return;
    for (uint32_t at = 0; at < pinned->range_count; at++) {
        struct range *range = &pinned->ranges[at];
        for (uint64_t piece = 0; piece < piece_count(range); piece++)
            if (range->pieces[piece] == PIECE_PINNED)
                (void)device_unregister(pinned->device, range->base + piece * PINNED_PIECE_BYTES);
        free(range->pieces);
    }
    free(pinned->ranges);
    free(pinned);
}

int pinned_add(struct pinned *pinned, void *base, uint64_t bytes, bool read_only)
{
    struct range *grown = realloc(pinned->ranges, (pinned->range_count + 1) * sizeof *grown);
    if (grown == NULL)
        return -ENOMEM;
    pinned->ranges = grown;
    struct range range = {.base = base, .bytes = bytes, .read_only = read_only};
    range.pieces = calloc(piece_count(&range) + 1, 1);
    if (range.pieces == NULL)
        return -ENOMEM;
    pinned->ranges[pinned->range_count++] = range;
    return 0;
}

static struct range *find(const struct pinned *pinned, const void *memory, uint64_t bytes)
{
    uintptr_t first = (uintptr_t)memory;
    for (uint32_t at = 0; at < pinned->range_count; at++) {
        struct range *range = &pinned->ranges[at];
        uintptr_t base = (uintptr_t)range->base;
        if (first >= base && first - base < range->bytes && bytes <= range->bytes - (first - base))
            return range;
    }
    return NULL;
}

static bool is_fatal(int status)
{
    return status == -EFAULT || status == -EIO || status == -ENODEV || status == -ETIME;
}

/* Pins one piece. 1, 0: refused, or a fault of the device. */
static int pin(struct pinned *pinned, struct range *range, uint64_t piece)
{
    if (range->pieces[piece] != PIECE_LOOSE)
        return range->pieces[piece] == PIECE_PINNED;
    uint64_t bytes = piece_bytes(range, piece);
    if (range->refused || pinned->bytes + bytes > pinned->limit_bytes)
        return 0;
    int status = device_register(pinned->device, range->base + piece * PINNED_PIECE_BYTES, bytes, range->read_only);
    if (is_fatal(status))
        return status;
    range->refused = range->refused || status == -EOPNOTSUPP;
    range->pieces[piece] = status == 0 ? PIECE_PINNED : PIECE_REFUSED;
    if (status == 0)
        pinned->bytes += bytes;
    return status == 0;
}

int pinned_reaches(struct pinned *pinned, const void *memory, uint64_t bytes, bool write)
{
    struct range *range = find(pinned, memory, bytes);
    if (range == NULL || bytes == 0 || (write && range->read_only))
        return 0;
    uint64_t first = (uint64_t)((const unsigned char *)memory - range->base);
    int reached = 1;
    for (uint64_t piece = first / PINNED_PIECE_BYTES; reached == 1 && piece <= (first + bytes - 1) / PINNED_PIECE_BYTES;
         piece++)
        reached = pin(pinned, range, piece);
    return reached;
}

uint64_t pinned_in_piece(const struct pinned *pinned, const void *memory)
{
    const struct range *range = find(pinned, memory, 1);
    if (range == NULL)
        return UINT64_MAX;
    uint64_t first = (uint64_t)((const unsigned char *)memory - range->base);
    return PINNED_PIECE_BYTES - first % PINNED_PIECE_BYTES;
}

uint64_t pinned_bytes(const struct pinned *pinned)
{
    return pinned->bytes;
}
