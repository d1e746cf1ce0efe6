/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The canonical text of a Plan: one line per source, live step and output, in Plan order, with everything that can
 * change an output (operators and their versions, options, recovery, file patterns) and nothing that cannot (batch
 * sizes, replicas, Pools, dead Calls). The fingerprint is a hash of it; comparing two texts shows what changed.
 */
#ifndef SRC_PROGRAM_CANONICAL_H
#define SRC_PROGRAM_CANONICAL_H

#include "program/plan.h"

/* 0 and a string to free(), or -ENOMEM. */
int plan_canonical_text(const struct sheaf_plan *plan, char **ret_text);
/* Computes plan->fingerprint. 0 or -ENOMEM. */
int plan_fingerprint(struct sheaf_plan *plan);

#endif
