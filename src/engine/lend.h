/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that workers ask for on their sockets: of sources, and of copies of what they hold in memory. */
#ifndef SRC_ENGINE_LEND_H
#define SRC_ENGINE_LEND_H

#include "engine/run.h"
#include "worker/attach.h"

/* For a request of either kind: 0 and a descriptor, the caller's; else a negative errno. */
int lend_descriptor(const struct sheaf_run *run, uint32_t worker, const struct attach_reply *request, int *ret_fd);

#endif
