/* SPDX-License-Identifier: Apache-2.0 */
/* All of the Sheaf API: programs, the engine, output trees, and the operator ABI. */
#ifndef SHEAF_SHEAF_H
#define SHEAF_SHEAF_H

#include <sheaf/engine.h>
#include <sheaf/operator.h>
#include <sheaf/output.h>
#include <sheaf/program.h>
#include <sheaf/status.h>
#include <sheaf/value.h>

#endif
