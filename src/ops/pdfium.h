/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of pdfium's C API that Sheaf uses, declared once, and how it is loaded.
 *
 * pdfium is not linked: `pdfium_load` opens the shared object when an operator opens, so that a plug-in can be read for
 * its signatures on a machine without pdfium, and so that SHEAF_PDFIUM can name another build. The functions stand in
 * one list, PDFIUM_FUNCTIONS, from which the table of pointers and its filling are made; to use one more, add a line.
 *
 * pdfium is not thread-safe and has one set of globals per process: all operators of a worker process share one
 * `struct pdfium`, and all calls come from the worker's one thread. It is initialised once and never destroyed (a
 * worker ends by exiting). Lengths in points unless said otherwise; pdfium's page space has its origin at the bottom
 * left.
 */
#ifndef SHEAF_OPS_PDFIUM_H
#define SHEAF_OPS_PDFIUM_H

#include <stddef.h>
#include <stdint.h>

/* Handles. */
typedef struct pdfium_document *FPDF_DOCUMENT;
typedef struct pdfium_page *FPDF_PAGE;
typedef struct pdfium_bitmap *FPDF_BITMAP;
typedef struct pdfium_text_page *FPDF_TEXTPAGE;
typedef struct pdfium_page_object *FPDF_PAGEOBJECT;
typedef struct pdfium_font *FPDF_FONT;
typedef int FPDF_BOOL;

/* FPDF_GetLastError */
enum {
    FPDF_ERR_SUCCESS = 0,
    FPDF_ERR_UNKNOWN = 1,
    FPDF_ERR_FILE = 2,
    FPDF_ERR_FORMAT = 3,
    FPDF_ERR_PASSWORD = 4,
    FPDF_ERR_SECURITY = 5,
    FPDF_ERR_PAGE = 6,
};

/* Flags of FPDF_RenderPageBitmap */
enum {
    FPDF_ANNOT = 0x01,
    FPDF_LCD_TEXT = 0x02,
    FPDF_GRAYSCALE = 0x08,
    FPDF_REVERSE_BYTE_ORDER = 0x10,
};

/* Formats of FPDFBitmap_CreateEx */
enum {
    FPDFBitmap_Unknown = 0,
    FPDFBitmap_Gray = 1, /* 1 byte a pixel */
    FPDFBitmap_BGR = 2,  /* 3 bytes a pixel; with FPDF_REVERSE_BYTE_ORDER: RGB */
    FPDFBitmap_BGRx = 3, /* 4 bytes a pixel */
    FPDFBitmap_BGRA = 4,
};

/* FPDFPageObj_GetType */
enum {
    FPDF_PAGEOBJ_UNKNOWN = 0,
    FPDF_PAGEOBJ_TEXT = 1,
    FPDF_PAGEOBJ_PATH = 2,
    FPDF_PAGEOBJ_IMAGE = 3,
    FPDF_PAGEOBJ_SHADING = 4,
    FPDF_PAGEOBJ_FORM = 5,
};

/* FPDFTextObj_GetTextRenderMode */
enum {
    FPDF_TEXTRENDERMODE_UNKNOWN = -1,
    FPDF_TEXTRENDERMODE_FILL = 0,
    FPDF_TEXTRENDERMODE_STROKE = 1,
    FPDF_TEXTRENDERMODE_FILL_STROKE = 2,
    FPDF_TEXTRENDERMODE_INVISIBLE = 3,
    FPDF_TEXTRENDERMODE_CLIP = 7,
};

/* Charsets and pitch flags of the font callbacks */
enum {
    FXFONT_ANSI_CHARSET = 0,
    FXFONT_DEFAULT_CHARSET = 1,
    FXFONT_SYMBOL_CHARSET = 2,
    FXFONT_SHIFTJIS_CHARSET = 128,
    FXFONT_HANGEUL_CHARSET = 129,
    FXFONT_GB2312_CHARSET = 134,
    FXFONT_CHINESEBIG5_CHARSET = 136,
    FXFONT_GREEK_CHARSET = 161,
    FXFONT_VIETNAMESE_CHARSET = 163,
    FXFONT_HEBREW_CHARSET = 177,
    FXFONT_ARABIC_CHARSET = 178,
    FXFONT_CYRILLIC_CHARSET = 204,
    FXFONT_THAI_CHARSET = 222,
    FXFONT_EASTERNEUROPEAN_CHARSET = 238,
    FXFONT_FF_FIXEDPITCH = 1 << 0,
    FXFONT_FF_ROMAN = 1 << 4,
};

struct pdfium_size {
    float width, height;
};

/* Page space: top > bottom. */
struct pdfium_rect {
    float left, top, right, bottom;
};

struct pdfium_matrix {
    float a, b, c, d, e, f;
};

struct pdfium_library_config {
    int version; /* 2 */
    const char **user_font_paths;
    void *isolate;
    unsigned int v8_embedder_slot;
    void *platform;   /* from version 3 */
    int renderer;     /* from version 4 */
    int font_backend; /* from version 5 */
};

/* A byte source. `read` returns 0 on failure, anything else on success. */
struct pdfium_file_access {
    unsigned long length_bytes;
    int (*read)(void *cookie, unsigned long position, unsigned char *buffer, unsigned long size);
    void *cookie;
};

/* Font callbacks, version 1. The struct must live as long as the library. */
struct pdfium_font_info {
    int version;
    void (*release)(struct pdfium_font_info *self);
    void (*enum_fonts)(struct pdfium_font_info *self, void *mapper);
    void *(*map_font)(struct pdfium_font_info *self, int weight, FPDF_BOOL italic, int charset, int pitch_family,
                      const char *face, FPDF_BOOL *exact);
    void *(*get_font)(struct pdfium_font_info *self, const char *face);
    /* table 0: the whole font file; else an OpenType tag. Returns the size; copies when the buffer is large enough. */
    unsigned long (*get_font_data)(struct pdfium_font_info *self, void *font, unsigned int table, unsigned char *buffer,
                                   unsigned long size);
    unsigned long (*get_face_name)(struct pdfium_font_info *self, void *font, char *buffer, unsigned long size);
    int (*get_font_charset)(struct pdfium_font_info *self, void *font);
    void (*delete_font)(struct pdfium_font_info *self, void *font);
};

/* X(return type, name, arguments) */
#define PDFIUM_FUNCTIONS(X)                                                                                            \
    X(void, FPDF_InitLibraryWithConfig, (const struct pdfium_library_config *config))                                  \
    X(void, FPDF_SetSystemFontInfo, (struct pdfium_font_info * info))                                                  \
    X(void, FPDF_AddInstalledFont, (void *mapper, const char *face, int charset))                                      \
    /* documents; a memory document reads its bytes until it is closed */                                              \
    X(FPDF_DOCUMENT, FPDF_LoadMemDocument64, (const void *data, size_t size, const char *password))                    \
    X(FPDF_DOCUMENT, FPDF_LoadCustomDocument, (struct pdfium_file_access * access, const char *password))              \
    X(void, FPDF_CloseDocument, (FPDF_DOCUMENT document))                                                              \
    X(unsigned long, FPDF_GetLastError, (void))                                                                        \
    X(int, FPDF_GetPageCount, (FPDF_DOCUMENT document))                                                                \
    X(FPDF_BOOL, FPDF_GetFileVersion, (FPDF_DOCUMENT document, int *version))                                          \
    X(int, FPDF_GetSecurityHandlerRevision, (FPDF_DOCUMENT document))                                                  \
    /* UTF-16LE with its NUL; returns bytes, copies when they fit */                                                   \
    X(unsigned long, FPDF_GetMetaText, (FPDF_DOCUMENT document, const char *tag, void *buffer, unsigned long size))    \
    /* pages; width and height are those of the page as shown, rotation applied */                                     \
    X(FPDF_PAGE, FPDF_LoadPage, (FPDF_DOCUMENT document, int page_index))                                              \
    X(void, FPDF_ClosePage, (FPDF_PAGE page))                                                                          \
    X(FPDF_BOOL, FPDF_GetPageSizeByIndexF, (FPDF_DOCUMENT document, int page_index, struct pdfium_size *size))         \
    X(float, FPDF_GetPageWidthF, (FPDF_PAGE page))                                                                     \
    X(float, FPDF_GetPageHeightF, (FPDF_PAGE page))                                                                    \
    X(FPDF_BOOL, FPDF_GetPageBoundingBox, (FPDF_PAGE page, struct pdfium_rect * rect))                                 \
    X(int, FPDFPage_GetRotation, (FPDF_PAGE page)) /* 0..3, quarter turns clockwise */                                 \
    X(FPDF_BOOL, FPDFPage_GetMediaBox, (FPDF_PAGE page, float *left, float *bottom, float *right, float *top))         \
    X(FPDF_BOOL, FPDFPage_GetCropBox, (FPDF_PAGE page, float *left, float *bottom, float *right, float *top))          \
    X(FPDF_BOOL, FPDF_PageToDevice,                                                                                    \
      (FPDF_PAGE page, int start_x, int start_y, int size_x, int size_y, int rotate, double page_x, double page_y,     \
       int *device_x, int *device_y))                                                                                  \
    X(int, FPDFPage_GetAnnotCount, (FPDF_PAGE page))                                                                   \
    /* rendering; `buffer` NULL: pdfium allocates */                                                                   \
    X(FPDF_BITMAP, FPDFBitmap_CreateEx, (int width, int height, int format, void *buffer, int stride))                 \
    X(void, FPDFBitmap_Destroy, (FPDF_BITMAP bitmap))                                                                  \
    X(FPDF_BOOL, FPDFBitmap_FillRect, (FPDF_BITMAP bitmap, int left, int top, int width, int height, uint32_t argb))   \
    X(void *, FPDFBitmap_GetBuffer, (FPDF_BITMAP bitmap))                                                              \
    X(int, FPDFBitmap_GetStride, (FPDF_BITMAP bitmap))                                                                 \
    X(void, FPDF_RenderPageBitmap,                                                                                     \
      (FPDF_BITMAP bitmap, FPDF_PAGE page, int start_x, int start_y, int size_x, int size_y, int rotate, int flags))   \
    /* text; characters by index, boxes in page space */                                                               \
    X(FPDF_TEXTPAGE, FPDFText_LoadPage, (FPDF_PAGE page))                                                              \
    X(void, FPDFText_ClosePage, (FPDF_TEXTPAGE text))                                                                  \
    X(int, FPDFText_CountChars, (FPDF_TEXTPAGE text))                                                                  \
    X(unsigned int, FPDFText_GetUnicode, (FPDF_TEXTPAGE text, int index))                                              \
    X(int, FPDFText_IsGenerated, (FPDF_TEXTPAGE text, int index))                                                      \
    X(int, FPDFText_IsHyphen, (FPDF_TEXTPAGE text, int index))                                                         \
    X(int, FPDFText_HasUnicodeMapError, (FPDF_TEXTPAGE text, int index))                                               \
    X(double, FPDFText_GetFontSize, (FPDF_TEXTPAGE text, int index))                                                   \
    X(unsigned long, FPDFText_GetFontInfo,                                                                             \
      (FPDF_TEXTPAGE text, int index, void *buffer, unsigned long size, int *flags))                                   \
    X(int, FPDFText_GetFontWeight, (FPDF_TEXTPAGE text, int index))                                                    \
    X(FPDF_BOOL, FPDFText_GetFillColor,                                                                                \
      (FPDF_TEXTPAGE text, int index, unsigned int *red, unsigned int *green, unsigned int *blue,                      \
       unsigned int *alpha))                                                                                           \
    X(float, FPDFText_GetCharAngle, (FPDF_TEXTPAGE text, int index)) /* radians */                                     \
    X(FPDF_BOOL, FPDFText_GetCharBox,                                                                                  \
      (FPDF_TEXTPAGE text, int index, double *left, double *right, double *bottom, double *top))                       \
    X(FPDF_BOOL, FPDFText_GetLooseCharBox, (FPDF_TEXTPAGE text, int index, struct pdfium_rect *rect))                  \
    X(FPDF_BOOL, FPDFText_GetMatrix, (FPDF_TEXTPAGE text, int index, struct pdfium_matrix *matrix))                    \
    X(FPDF_BOOL, FPDFText_GetCharOrigin, (FPDF_TEXTPAGE text, int index, double *x, double *y))                        \
    X(int, FPDFText_GetText, (FPDF_TEXTPAGE text, int start, int count, unsigned short *buffer))                       \
    X(FPDF_PAGEOBJECT, FPDFText_GetTextObject, (FPDF_TEXTPAGE text, int index))                                        \
    X(int, FPDFTextObj_GetTextRenderMode, (FPDF_PAGEOBJECT object))                                                    \
    X(FPDF_FONT, FPDFTextObj_GetFont, (FPDF_PAGEOBJECT object))                                                        \
    X(size_t, FPDFFont_GetBaseFontName, (FPDF_FONT font, char *buffer, size_t size))                                   \
    X(size_t, FPDFFont_GetFamilyName, (FPDF_FONT font, char *buffer, size_t size))                                     \
    X(int, FPDFFont_GetIsEmbedded, (FPDF_FONT font)) /* 1, 0, or -1 */                                                 \
    X(FPDF_BOOL, FPDFFont_GetAscent, (FPDF_FONT font, float font_size, float *ascent))                                 \
    X(FPDF_BOOL, FPDFFont_GetDescent, (FPDF_FONT font, float font_size, float *descent))                               \
    /* page objects */                                                                                                 \
    X(int, FPDFPage_CountObjects, (FPDF_PAGE page))                                                                    \
    X(FPDF_PAGEOBJECT, FPDFPage_GetObject, (FPDF_PAGE page, int index))                                                \
    X(int, FPDFPageObj_GetType, (FPDF_PAGEOBJECT object))                                                              \
    X(FPDF_BOOL, FPDFPageObj_GetBounds,                                                                                \
      (FPDF_PAGEOBJECT object, float *left, float *bottom, float *right, float *top))                                  \
    X(FPDF_BOOL, FPDFPageObj_GetMatrix, (FPDF_PAGEOBJECT object, struct pdfium_matrix * matrix))                       \
    X(int, FPDFFormObj_CountObjects, (FPDF_PAGEOBJECT form))                                                           \
    X(FPDF_PAGEOBJECT, FPDFFormObj_GetObject, (FPDF_PAGEOBJECT form, unsigned long index))                             \
    X(FPDF_BOOL, FPDFImageObj_GetImagePixelSize, (FPDF_PAGEOBJECT image, unsigned int *width, unsigned int *height))

struct pdfium {
#define PDFIUM_MEMBER(result, name, arguments) result(*name) arguments;
    PDFIUM_FUNCTIONS(PDFIUM_MEMBER)
#undef PDFIUM_MEMBER
    char path[4096]; /* the file it was loaded from */
};

/*
 * Loads and initialises pdfium for this process, once: later calls return the same table whatever their `path`.
 * `path` NULL or "": where it is looked for, in this order: SHEAF_PDFIUM, beside or above the plug-in, `pdfium/` of the
 * build tree the plug-in lies in, the dynamic linker's own places. On failure a negative status, and one line in
 * `error` that says where it was looked for and what to do.
 */
int pdfium_load(const char *path, char *error, size_t error_bytes, const struct pdfium **ret_pdfium);

/* Looks for the library without initialising it (for `doctor`): 0 and the path it would load, or a negative status. */
int pdfium_find(char *path, size_t path_bytes, char *error, size_t error_bytes);

/* "not a PDF or damaged" and the like for a value of FPDF_GetLastError. Static. */
const char *pdfium_error_text(unsigned long code);

#endif
