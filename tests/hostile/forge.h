/* SPDX-License-Identifier: Apache-2.0 */
/* An operator that knows the protocol, writes what suits it into its worker's lane, and stays for ever. */
#ifndef TESTS_HOSTILE_FORGE_H
#define TESTS_HOSTILE_FORGE_H

#include <stdint.h>

enum forgery {
    FORGE_FREE,    /* its claim page names nothing, and it says that it is idle */
    FORGE_CLAIMED, /* its row was never started */
    FORGE_BLOCKED, /* its row waits for memory */
    FORGE_FUTURE,  /* its row has not yet begun */
    FORGE_ANSWER,  /* its row is answered, and the worker idle */
    FORGE_CROWD,   /* rows that do not exist run beside it, and it crashes: a batch larger than it was */
    FORGE_COUNT,
};

void forge_prepare(void); /* while the worker may still read its own maps */
void forge(enum forgery how, int64_t answer);

#endif
