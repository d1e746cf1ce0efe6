/* SPDX-License-Identifier: Apache-2.0 */
/* Options of one test operator in a worker, and what all of them need: the host, and rows' first inputs. */
#ifndef TESTS_CONFORMANCE_SETTINGS_H
#define TESTS_CONFORMANCE_SETTINGS_H

#include <stdbool.h>

#include <sheaf/operator.h>

struct numbers {
    int64_t *numbers;
    uint32_t count;
};

/* Every option any of them has. Those an operator does not declare are 0 or "". */
struct settings {
    const struct sheaf_host *host;
    struct numbers at, group_at, item_at, skew_at;
    int64_t cap, k, emit, ms;
    bool stream;
    char *tag, *how, *sep;
    struct sheaf_option_value value; /* its text is a copy */
};

/* `op` declares the options that `open` gives. */
int settings_open(const struct sheaf_open *open, const struct sheaf_operator *op, void **ret_state);
void settings_close(void *state);

bool numbers_have(const struct numbers *numbers, int64_t number);

#endif
