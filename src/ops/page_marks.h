/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a page of a PDF shows beside its text layer: images, drawings, and how fine its images are. `pdf.text` decides
 * by it whether a page must be read as an image, `pdf.render` at which resolution that is worth doing.
 *
 * Looks at a bounded number of objects, into forms a few levels deep. Called by the operators that have a page loaded.
 */
#ifndef SHEAF_OPS_PAGE_MARKS_H
#define SHEAF_OPS_PAGE_MARKS_H

#include <stdint.h>

#include "ops/pdfium.h"

struct page_marks {
    double image_area; /* sum over images, square points */
    double image_dpi;  /* of the finest image that is not tiny; 0: there is none */
    uint32_t images, paths, texts;
    uint32_t objects_left; /* 0: there are more objects than were looked at */
};

struct page_marks page_marks_count(const struct pdfium *pdfium, FPDF_PAGE page);

/* The resolution that shows all there is to see: `most_dpi`, or for a page that is a scanned image its own and half as
 * much again, but not below `least_dpi`. */
double page_marks_dpi(const struct page_marks *marks, double page_area, double least_dpi, double most_dpi);

#endif
