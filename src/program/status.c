/* SPDX-License-Identifier: Apache-2.0 */
#include <sheaf/status.h>

#include <string.h>

static const char *const class_names[SHEAF_CLASS_COUNT] = {
    [SHEAF_CLASS_NONE] = "none",
    [SHEAF_CLASS_UNREADABLE] = "unreadable",
    [SHEAF_CLASS_ENCRYPTED] = "encrypted",
    [SHEAF_CLASS_MALFORMED] = "malformed",
    [SHEAF_CLASS_UNSUPPORTED] = "unsupported",
    [SHEAF_CLASS_EMPTY] = "empty",
    [SHEAF_CLASS_TOO_LARGE] = "too_large",
    [SHEAF_CLASS_RESOURCE_EXHAUSTED] = "resource_exhausted",
    [SHEAF_CLASS_TIMEOUT] = "timeout",
    [SHEAF_CLASS_CRASHED] = "crashed",
    [SHEAF_CLASS_OOM] = "oom",
    [SHEAF_CLASS_CONTRACT] = "contract",
    [SHEAF_CLASS_OPERATOR] = "operator",
    [SHEAF_CLASS_GPU] = "gpu",
    [SHEAF_CLASS_IO] = "io",
    [SHEAF_CLASS_CANCELLED] = "cancelled",
};

const char *sheaf_class_name(enum sheaf_class class_id)
{
    if ((unsigned)class_id >= SHEAF_CLASS_COUNT)
        return "unknown";
    return class_names[class_id];
}

const char *sheaf_status_text(int status)
{
    switch (status) {
    case SHEAF_OK:
        return "success";
    case SHEAF_E_REFUSED:
        return "the program is refused";
    case SHEAF_E_USAGE:
        return "wrong usage";
    case SHEAF_E_ENVIRONMENT:
        return "this machine or installation lacks something";
    case SHEAF_E_ABI:
        return "another version of the interface";
    case SHEAF_E_CLOSED:
        return "closed";
    case SHEAF_E_INPUT:
        return "the input is refused";
    case SHEAF_E_CORRUPT:
        return "damaged data";
    default:
        break;
    }
    const char *text = status < 0 && status > -4096 ? strerrordesc_np(-status) : NULL;
    return text ? text : "unknown status";
}

const char *sheaf_version(void)
{
    return SHEAF_VERSION_TEXT;
}
