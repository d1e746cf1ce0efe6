/* SPDX-License-Identifier: Apache-2.0 */
/* The operators of the plug-in `documents`, each in a file of its own. */
#ifndef SHEAF_OPS_OPERATORS_H
#define SHEAF_OPS_OPERATORS_H

#include <sheaf/operator.h>

extern const struct sheaf_operator operator_pdf_open;
extern const struct sheaf_operator operator_pdf_text;
extern const struct sheaf_operator operator_pdf_render;
extern const struct sheaf_operator operator_image_measure;
extern const struct sheaf_operator operator_image_ocr;
extern const struct sheaf_operator operator_image_encode;
extern const struct sheaf_operator operator_doc_assemble;

/* The plug-in's one exported function (operator.h). */
SHEAF_API const struct sheaf_plugin *sheaf_plugin(uint32_t host_abi);

#endif
