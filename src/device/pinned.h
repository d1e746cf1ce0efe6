/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory that a device may read and write by itself.
 *
 * Payload segments are as large as the whole budget and mostly not real, so they are not pinned as wholes: their pieces
 * (a payload chunk each) are, the first time a copy wants to go straight from or to one, and stay so. A piece is pinned
 * once per process. What is pinned must not be given back to the system while a process has it pinned: in a run with
 * devices payload memory stays real once it is (engine/payload.h, keeps_real), and files are not added here. Memory
 * that this process may only read needs a device that can register such memory; else, and when the system refuses to
 * pin more, `pinned_reaches` says no and the caller stages.
 */
#ifndef SRC_DEVICE_PINNED_H
#define SRC_DEVICE_PINNED_H

#include "device/device.h"

#define PINNED_PIECE_BYTES (UINT64_C(2) << 20)

struct pinned;

/* At most `limit_bytes` are ever pinned. */
int pinned_open(struct device *device, uint64_t limit_bytes, struct pinned **ret_pinned);
/* Unpins everything; NULL is fine. */
void pinned_close(struct pinned *pinned);

/* Memory of which pieces may be pinned: `base` is page-aligned and stays mapped. */
int pinned_add(struct pinned *pinned, void *base, uint64_t bytes, bool read_only);

/* 1: all of it is pinned now; 0: it is not and will not be; negative: the device failed. `write`: the device writes
 * there. */
int pinned_reaches(struct pinned *pinned, const void *memory, uint64_t bytes, bool write);
/* Bytes from `memory` to the end of its piece: one copy must not go beyond. */
uint64_t pinned_in_piece(const struct pinned *pinned, const void *memory);
uint64_t pinned_bytes(const struct pinned *pinned);

#endif
