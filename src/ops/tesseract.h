/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of Tesseract's C API that Sheaf uses, and how it is loaded: like pdfium.h, at run time and once per process,
 * so that the plug-in can be read where there is no Tesseract. Functions are listed once, in TESSERACT_FUNCTIONS.
 */
#ifndef SHEAF_OPS_TESSERACT_H
#define SHEAF_OPS_TESSERACT_H

#include <stddef.h>

typedef struct tesseract_engine TessBaseAPI;
typedef struct tesseract_results TessResultIterator;
typedef struct tesseract_layout TessPageIterator;

enum { OEM_LSTM_ONLY = 1, OEM_DEFAULT = 3 };
enum { PSM_AUTO = 3 };
enum { RIL_BLOCK, RIL_PARA, RIL_TEXTLINE, RIL_WORD, RIL_SYMBOL };

/* X(return type, name, arguments) */
#define TESSERACT_FUNCTIONS(X)                                                                                         \
    X(const char *, TessVersion, (void))                                                                               \
    X(TessBaseAPI *, TessBaseAPICreate, (void))                                                                        \
    X(void, TessBaseAPIDelete, (TessBaseAPI * engine))                                                                 \
    X(int, TessBaseAPIInit2, (TessBaseAPI * engine, const char *data_path, const char *language, int mode))            \
    X(int, TessBaseAPIInit5,                                                                                           \
      (TessBaseAPI * engine, const char *data, int data_size, const char *language, int mode, char **configs,          \
       int config_count, char **variables, char **values, size_t variable_count, int only_non_debug))                  \
    X(int, TessBaseAPISetVariable, (TessBaseAPI * engine, const char *name, const char *value))                        \
    X(void, TessBaseAPISetPageSegMode, (TessBaseAPI * engine, int mode))                                               \
    X(void, TessBaseAPISetImage,                                                                                       \
      (TessBaseAPI * engine, const unsigned char *pixels, int width, int height, int bytes_per_pixel,                  \
       int bytes_per_line))                                                                                            \
    X(void, TessBaseAPISetSourceResolution, (TessBaseAPI * engine, int dpi))                                           \
    X(int, TessBaseAPIRecognize, (TessBaseAPI * engine, void *monitor))                                                \
    X(void, TessBaseAPIClear, (TessBaseAPI * engine))                                                                  \
    X(void, TessBaseAPIClearAdaptiveClassifier, (TessBaseAPI * engine))                                                \
    X(TessResultIterator *, TessBaseAPIGetIterator, (TessBaseAPI * engine))                                            \
    X(void, TessResultIteratorDelete, (TessResultIterator * results))                                                  \
    X(const TessPageIterator *, TessResultIteratorGetPageIteratorConst, (const TessResultIterator *results))           \
    X(int, TessResultIteratorNext, (TessResultIterator * results, int level))                                          \
    X(char *, TessResultIteratorGetUTF8Text, (const TessResultIterator *results, int level))                           \
    X(float, TessResultIteratorConfidence, (const TessResultIterator *results, int level))                             \
    X(const char *, TessResultIteratorWordFontAttributes,                                                              \
      (const TessResultIterator *results, int *bold, int *italic, int *underlined, int *monospace, int *serif,         \
       int *small_capitals, int *point_size, int *font_id))                                                            \
    X(int, TessPageIteratorIsAtBeginningOf, (const TessPageIterator *layout, int level))                               \
    X(int, TessPageIteratorBoundingBox,                                                                                \
      (const TessPageIterator *layout, int level, int *left, int *top, int *right, int *bottom))                       \
    X(int, TessPageIteratorBaseline, (const TessPageIterator *layout, int level, int *x1, int *y1, int *x2, int *y2))  \
    X(void, TessPageIteratorOrientation,                                                                               \
      (const TessPageIterator *layout, int *orientation, int *writing_direction, int *line_order, float *deskew))      \
    X(void, TessDeleteText, (const char *text))

struct tesseract {
#define TESSERACT_MEMBER(result, name, arguments) result(*name) arguments;
    TESSERACT_FUNCTIONS(TESSERACT_MEMBER)
#undef TESSERACT_MEMBER
};

/* Loads libtesseract, once. Sets OMP_THREAD_LIMIT to 1 before, if it is not set: cores are shared out by the engine.
 * Makes Leptonica, which it works with, keep its remarks to itself. */
int tesseract_load(char *error, size_t error_bytes, const struct tesseract **ret_tesseract);

/*
 * Where the data of one language is: `<folder>/<language>.traineddata`. Looked for in `data_path`, or, when that is
 * NULL or
 * "", in TESSDATA_PREFIX and the usual places. 0 and the folder; or -ENOENT and one line that names what was looked
 * for, where, and the Debian package to install.
 */
int tesseract_find_language(const char *data_path, const char *language, size_t language_bytes, char *folder,
                            size_t folder_bytes, char *error, size_t error_bytes);

#endif
