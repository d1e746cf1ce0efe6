/* SPDX-License-Identifier: Apache-2.0 */
/* libsheaf as a whole has no code of its own: it is the modules beside this file, behind the headers in include/. */
#include <sheaf/sheaf.h>
