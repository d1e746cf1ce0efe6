/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/page_marks.h"

#include <math.h>

enum { OBJECTS_MAX = 4096, FORMS_DEEP_MAX = 4 };

struct walk {
    const struct pdfium *pdfium;
    double tiny_area; /* images below it do not count for the resolution */
    struct page_marks marks;
};

/* The factor by which an object's matrix changes areas. */
static double matrix_area(const struct pdfium *pdfium, FPDF_PAGEOBJECT object)
{
    struct pdfium_matrix m = {1, 0, 0, 1, 0, 0};
    pdfium->FPDFPageObj_GetMatrix(object, &m);
    double area = fabs((double)m.a * m.d - (double)m.b * m.c);
    return isfinite(area) ? area : 0;
}

/* An image is the unit square under its matrix. */
static void image_count(struct walk *walk, FPDF_PAGEOBJECT object, double scale)
{
    unsigned int width = 0, height = 0;
    double area = matrix_area(walk->pdfium, object) * scale;
    walk->marks.images++;
    walk->marks.image_area += area;
    if (area <= walk->tiny_area || !walk->pdfium->FPDFImageObj_GetImagePixelSize(object, &width, &height))
        return;
    walk->marks.image_dpi = fmax(walk->marks.image_dpi, sqrt((double)width * height / area) * 72);
}

static void object_count(struct walk *walk, FPDF_PAGEOBJECT object, double scale, int depth)
{
    const struct pdfium *pdfium = walk->pdfium;
    switch (pdfium->FPDFPageObj_GetType(object)) {
    case FPDF_PAGEOBJ_IMAGE:
        image_count(walk, object, scale);
        break;
    case FPDF_PAGEOBJ_TEXT:
        walk->marks.texts++;
        break;
    case FPDF_PAGEOBJ_PATH:
    case FPDF_PAGEOBJ_SHADING:
        walk->marks.paths++;
        break;
    case FPDF_PAGEOBJ_FORM:
        if (depth == FORMS_DEEP_MAX)
            break;
        scale *= matrix_area(pdfium, object);
        int count = pdfium->FPDFFormObj_CountObjects(object);
        for (int i = 0; i < count && walk->marks.objects_left > 0; i++, walk->marks.objects_left--)
            object_count(walk, pdfium->FPDFFormObj_GetObject(object, (unsigned long)i), scale, depth + 1);
        break;
    }
}

struct page_marks page_marks_count(const struct pdfium *pdfium, FPDF_PAGE page)
{
    double page_area = (double)pdfium->FPDF_GetPageWidthF(page) * pdfium->FPDF_GetPageHeightF(page);
    struct walk walk = {pdfium, page_area * 0.01, {.objects_left = OBJECTS_MAX}};
    int count = pdfium->FPDFPage_CountObjects(page);
    for (int i = 0; i < count && walk.marks.objects_left > 0; i++, walk.marks.objects_left--)
        object_count(&walk, pdfium->FPDFPage_GetObject(page, i), 1, 0);
    return walk.marks;
}

/* Text and lines over a scan are stamps and rulings as long as they are few. */
double page_marks_dpi(const struct page_marks *marks, double page_area, double least_dpi, double most_dpi)
{
    enum { STAMP_TEXTS = 16, RULING_PATHS = 40 };
    if (marks->image_dpi <= 0 || marks->image_area < page_area * 0.5 || marks->texts > STAMP_TEXTS ||
        marks->paths > RULING_PATHS || marks->objects_left == 0)
        return most_dpi;
    return fmin(most_dpi, fmax(least_dpi, marks->image_dpi * 1.5));
}
