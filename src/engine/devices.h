/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which devices a run uses. The engine's own process never touches a driver: a worker program is started, looks, says
 * what there is and ends. So a driver that crashes or hangs costs a line, and a host that forks stays sound.
 */
#ifndef SRC_ENGINE_DEVICES_H
#define SRC_ENGINE_DEVICES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <sheaf/status.h>

#define DEVICES_MAX 64u

struct device_found {
    uint32_t ordinal; /* as the driver counts those it shows */
    uint64_t memory_bytes;
    char bus_id[16];
    char name[64];
};

struct devices {
    uint32_t count; /* 0: the Calls for devices run on the host, for `why` */
    struct device_found found[DEVICES_MAX];
    bool may_use_host; /* when all of them have failed */
    /* Per device, by the supervisor as the run goes: */
    _Atomic uint32_t failures[DEVICES_MAX];
    _Atomic bool retired[DEVICES_MAX];
    char why[256];
};

/* Whether the word is auto, host, cuda, or cuda:N,N,... */
bool devices_word_is_good(const char *word);

/* Looks for what `word` (NULL: auto) asks for; `imageless`: an operator of the run that no device can run, as its
 * kernels were built for none, or NULL. SHEAF_E_USAGE; SHEAF_E_ENVIRONMENT: it is not there, and the word does not
 * allow the host. The thread that calls it must not end before it returns. */
int devices_find(const char *word, const char *worker_path, const char *imageless, struct devices *ret_devices,
                 struct sheaf_error *error);

/* What CUDA_VISIBLE_DEVICES must be for a process that is to see device `ordinal` alone. Free with free(). */
char *devices_visible(uint32_t ordinal);

#endif
