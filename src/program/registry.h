/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry: which operators are known, and from which plug-in each came.
 *
 * A registry is filled before any Program is compiled and only read afterwards. Every descriptor is checked once, here,
 * so the compiler and the engine may trust sizes, counts, names, kinds, defaults and choices of an operator they find
 * in it. The public half is in <sheaf/program.h>; this header adds what the engine and the tests need.
 */
#ifndef SRC_PROGRAM_REGISTRY_H
#define SRC_PROGRAM_REGISTRY_H

#include <sheaf/operator.h>
#include <sheaf/program.h>

/* The path of the shared object an operator came from, absolute: what a worker must load. NULL for an operator of a
 * table that was added with registry_add_plugin and no path. The string is the registry's. */
const char *registry_plugin_path(const struct sheaf_registry *registry, const struct sheaf_operator *op);

/* The kernels of the plug-in an operator came from, or NULL. */
const struct sheaf_kernels *registry_kernels(const struct sheaf_registry *registry, const struct sheaf_operator *op);

/* Adds the operators of a plug-in that is linked in rather than loaded, after the same checks. `path` may be NULL. The
 * plug-in must outlive the registry. */
int registry_add_plugin(struct sheaf_registry *registry, const struct sheaf_plugin *plugin, const char *path,
                        struct sheaf_error *error);

#endif
