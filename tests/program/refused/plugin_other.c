/* SPDX-License-Identifier: Apache-2.0 */
/* Shared objects that are no plug-ins for this host: one serves no ABI it knows, one exports nothing. */
#include <sheaf/operator.h>

#ifdef PLUGIN_OF_ANOTHER_ABI
SHEAF_API const struct sheaf_plugin *sheaf_plugin(uint32_t host_abi);
const struct sheaf_plugin *sheaf_plugin(uint32_t host_abi)
{
    return NULL;
}
#else
SHEAF_API int no_plugin(void);
int no_plugin(void)
{
    return 0;
}
#endif
