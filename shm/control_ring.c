/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/control_ring.h"

#include <errno.h>
#include <string.h>

struct control_wire {
    uint64_t value;
    uint32_t segment;
    uint32_t reserved;
};
static_assert(sizeof(struct control_wire) == 16, "part of the shared layout");

int control_write(struct spsc_writer *writer, const struct control *order)
{
    assert(order->kind > 0 && order->kind < CONTROL_KINDS);
    void *payload;
    int status = spsc_reserve(writer, order->kind, sizeof(struct control_wire), &payload);
    if (status)
        return status;
    struct control_wire wire = {order->value, order->segment, 0};
    memcpy(payload, &wire, sizeof(wire));
    spsc_commit(writer);
    return 0;
}

int control_read(struct spsc_reader *reader, struct control *ret_order)
{
    struct spsc_header header;
    const void *payload;
    int status = spsc_next(reader, &header, &payload);
    if (status)
        return status;
    if (header.kind >= CONTROL_KINDS || header.length_bytes != sizeof(struct control_wire)) {
        reader->broken = true;
        return -EBADMSG;
    }
    struct control_wire wire;
    memcpy(&wire, payload, sizeof(wire));
    spsc_release(reader);
    *ret_order = (struct control){(enum control_kind)header.kind, wire.segment, wire.value};
    return 0;
}
