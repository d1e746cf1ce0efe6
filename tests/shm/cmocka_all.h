/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka and the standard headers it wants before it. */
#ifndef TESTS_SHM_CMOCKA_ALL_H
#define TESTS_SHM_CMOCKA_ALL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
