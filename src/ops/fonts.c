/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/fonts.h"

#include <ctype.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_BYTES = 64, FACES_PER_FILE_MAX = 64, FACES_MAX = 16384 };
#define TAG(a, b, c, d) ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))
#define SYSTEM_FOLDERS "/usr/share/fonts:/usr/local/share/fonts"

struct font_file {
    const uint8_t *data; /* mapped for the life of the process */
    size_t size_bytes;
    char name[96];
};

struct face {
    const struct font_file *file;
    uint32_t offset; /* of its table directory in the file; not 0 only in collections */
    uint16_t weight;
    uint16_t italic;
    char family[NAME_BYTES], full[NAME_BYTES], postscript[NAME_BYTES]; /* letters and digits in lower case only */
};

/* One index per process, built once and then only read. */
static struct face *faces;
static uint32_t face_count, face_capacity, file_count;
static int is_installed;
static struct font_log *current_log;

/* ---- reading font files; every offset is checked: they are only mostly trustworthy ---- */

static uint32_t be16(const struct font_file *file, size_t at)
{
    return at + 2 <= file->size_bytes ? (uint32_t)file->data[at] << 8 | file->data[at + 1] : 0;
}

static uint32_t be32(const struct font_file *file, size_t at)
{
    return be16(file, at) << 16 | be16(file, at + 2);
}

/* A table of a face: its offset in the file, 0 if it has none; bounds checked. */
static size_t table_find(const struct font_file *file, size_t face_offset, uint32_t tag, size_t *ret_bytes)
{
    uint32_t count = be16(file, face_offset + 4);
    for (uint32_t i = 0; i < count; i++) {
        size_t record = face_offset + 12 + 16 * (size_t)i;
        if (be32(file, record) != tag)
            continue;
        size_t offset = be32(file, record + 8), bytes = be32(file, record + 12);
        if (offset == 0 || offset > file->size_bytes || bytes > file->size_bytes - offset)
            return 0;
        *ret_bytes = bytes;
        return offset;
    }
    return 0;
}

/* Letters and digits, lower case; what stands before '+' of a subset name is left out, so is all from ',' on. */
static void name_normalise(const char *name, char out[NAME_BYTES])
{
    const char *plus = strchr(name, '+');
    size_t at = 0;
    if (plus && plus - name == 6)
        name = plus + 1;
    for (; *name && *name != ',' && at + 1 < NAME_BYTES; name++) {
        if (isalnum((unsigned char)*name))
            out[at++] = (char)tolower((unsigned char)*name);
    }
    out[at] = 0;
}

/* Reads one entry of the name table as ASCII (other characters are left out) and normalises it. */
static void name_read(const struct font_file *file, size_t text, size_t bytes, int is_wide, char out[NAME_BYTES])
{
    char ascii[128];
    size_t at = 0;
    for (size_t i = 0; i + is_wide < bytes && at + 1 < sizeof ascii && text + i + is_wide < file->size_bytes;
         i += 1 + (size_t)is_wide) {
        uint8_t high = is_wide ? file->data[text + i] : 0, low = file->data[text + i + is_wide];
        if (high == 0 && low >= 0x20 && low < 0x7F)
            ascii[at++] = (char)low;
    }
    ascii[at] = 0;
    name_normalise(ascii, out);
}

static void names_read(struct face *face)
{
    size_t bytes, table = table_find(face->file, face->offset, TAG('n', 'a', 'm', 'e'), &bytes);
    if (table == 0)
        return;
    uint32_t count = be16(face->file, table + 2);
    size_t strings = table + be16(face->file, table + 4);
    for (uint32_t i = 0; i < count && i < 1024; i++) {
        size_t record = table + 6 + 12 * (size_t)i;
        uint32_t platform = be16(face->file, record), language = be16(face->file, record + 4);
        uint32_t id = be16(face->file, record + 6), length = be16(face->file, record + 8);
        int is_wide = platform == 3;
        if (!(platform == 3 && language == 0x409) && !(platform == 1 && language == 0))
            continue;
        char *out = id == 1 ? face->family : id == 4 ? face->full : id == 6 ? face->postscript : NULL;
        if (out && (!out[0] || is_wide))
            name_read(face->file, strings + be16(face->file, record + 10), length, is_wide, out);
    }
}

static void face_add(const struct font_file *file, size_t offset)
{
    if (face_count == FACES_MAX)
        return;
    if (face_count == face_capacity) {
        uint32_t capacity = face_capacity ? 2 * face_capacity : 256;
        struct face *grown = realloc(faces, sizeof *faces * capacity);
        if (!grown)
            return;
        faces = grown;
        face_capacity = capacity;
    }
    struct face *face = &faces[face_count];
    *face = (struct face){.file = file, .offset = (uint32_t)offset, .weight = 400};
    names_read(face);
    if (!face->family[0])
        return;
    size_t bytes, table = table_find(file, offset, TAG('O', 'S', '/', '2'), &bytes);
    if (table && bytes >= 64) {
        face->weight = (uint16_t)be16(file, table + 4);
        face->italic = be16(file, table + 62) & 1;
    }
    face_count++;
}

static void file_add(const char *path, const char *name)
{
    struct stat about;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return;
    struct font_file *file = NULL;
    if (fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 64)
        file = calloc(1, sizeof *file);
    if (file) {
        file->size_bytes = (size_t)about.st_size;
        file->data = mmap(NULL, file->size_bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
        snprintf(file->name, sizeof file->name, "%s", name);
    }
    close(descriptor);
    if (!file || file->data == MAP_FAILED) {
        free(file);
        return;
    }
    uint32_t magic = be32(file, 0), before = face_count;
    if (magic == TAG('t', 't', 'c', 'f')) {
        uint32_t count = be32(file, 8);
        for (uint32_t i = 0; i < count && i < FACES_PER_FILE_MAX; i++)
            face_add(file, be32(file, 12 + 4 * (size_t)i));
    } else if (magic == 0x00010000 || magic == TAG('O', 'T', 'T', 'O') || magic == TAG('t', 'r', 'u', 'e')) {
        face_add(file, 0);
    }
    if (face_count == before) {
        munmap((void *)file->data, file->size_bytes);
        free(file);
        return;
    }
    file_count++;
}

static int by_path(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* In the order of names, so that the same machine always picks the same font. */
static void folders_read(const char *folders)
{
    char *copy = strdup(folders), *rest = copy, *roots[16];
    size_t count = 0;
    for (char *one; copy && (one = strsep(&rest, ":")) && count + 1 < sizeof roots / sizeof roots[0];) {
        if (*one)
            roots[count++] = one;
    }
    roots[count] = NULL;
    FTS *walk = count ? fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, by_path) : NULL;
    for (FTSENT *entry; walk && (entry = fts_read(walk)) && file_count < FONT_FILES_MAX;) {
        const char *dot = strrchr(entry->fts_name, '.');
        if (entry->fts_info != FTS_F || !dot)
            continue;
        if (!strcasecmp(dot, ".ttf") || !strcasecmp(dot, ".otf") || !strcasecmp(dot, ".ttc") ||
            !strcasecmp(dot, ".otc"))
            file_add(entry->fts_path, entry->fts_name);
    }
    if (walk)
        fts_close(walk);
    free(copy);
}

/* ---- choosing ---- */

/* How far a face is from what is wanted: smaller is better. */
static int distance(const struct face *face, int weight, int italic)
{
    int difference = (int)face->weight - (weight > 0 ? weight : 400);
    return (difference < 0 ? -difference : difference) + (face->italic != (italic != 0) ? 1000 : 0);
}

static const struct face *face_of_family(const char *family, int weight, int italic)
{
    const struct face *best = NULL;
    for (uint32_t i = 0; i < face_count; i++) {
        if (strcmp(faces[i].family, family) == 0 &&
            (!best || distance(&faces[i], weight, italic) < distance(best, weight, italic)))
            best = &faces[i];
    }
    return best;
}

static const struct face *face_of_name(const char *name, int weight, int italic)
{
    char wanted[NAME_BYTES];
    name_normalise(name, wanted);
    if (!wanted[0])
        return NULL;
    for (uint32_t i = 0; i < face_count; i++) {
        if (strcmp(faces[i].postscript, wanted) == 0 || strcmp(faces[i].full, wanted) == 0)
            return &faces[i];
    }
    return face_of_family(wanted, weight, italic);
}

static const struct {
    int charset;
    const char *name, *sans, *serif;
} scripts[] = {
    {FXFONT_SHIFTJIS_CHARSET, "Japanese", "notosanscjkjp", "notoserifcjkjp"},
    {FXFONT_HANGEUL_CHARSET, "Korean", "notosanscjkkr", "notoserifcjkkr"},
    {FXFONT_GB2312_CHARSET, "simplified Chinese", "notosanscjksc", "notoserifcjksc"},
    {FXFONT_CHINESEBIG5_CHARSET, "traditional Chinese", "notosanscjktc", "notoserifcjktc"},
    {FXFONT_ARABIC_CHARSET, "Arabic", "notosansarabic", "notonaskharabic"},
    {FXFONT_HEBREW_CHARSET, "Hebrew", "notosanshebrew", "notoserifhebrew"},
    {FXFONT_THAI_CHARSET, "Thai", "notosansthai", "notoserifthai"},
    {FXFONT_GREEK_CHARSET, "Greek", "notosans", "notoserif"},
    {FXFONT_CYRILLIC_CHARSET, "Cyrillic", "notosans", "notoserif"},
    {FXFONT_VIETNAMESE_CHARSET, "Vietnamese", "notosans", "notoserif"},
    {FXFONT_EASTERNEUROPEAN_CHARSET, "eastern European", "notosans", "notoserif"},
};
enum { SCRIPT_COUNT = sizeof scripts / sizeof scripts[0] };

static int script_of(int charset)
{
    for (int i = 0; i < SCRIPT_COUNT; i++) {
        if (scripts[i].charset == charset)
            return i;
    }
    return -1;
}

static int name_has(const char *name, const char *const *words)
{
    for (; *words; words++) {
        if (strcasestr(name, *words))
            return 1;
    }
    return 0;
}

/* By the words of common font names, which say more than the flags of the files that use them. */
static int is_serif(const char *name, int pitch_family)
{
    static const char *const sans[] = {"Gothic", "Sans", "Hei", "Dotum", "Gulim", "Meiryo", "Arial", NULL};
    static const char *const serif[] = {"Mincho",   "Ming",  "Song",  "SimSun", "Batang", "Myungjo",
                                        "Myeongjo", "Times", "Serif", "Ryumin", NULL};
    if (name_has(name, sans))
        return 0;
    return name_has(name, serif) || (pitch_family & FXFONT_FF_ROMAN);
}

static const struct face *face_of_script(int script, const char *name, int weight, int italic, int pitch_family)
{
    int serif = is_serif(name, pitch_family);
    const struct face *face = face_of_family(serif ? scripts[script].serif : scripts[script].sans, weight, italic);
    return face ? face : face_of_family(serif ? scripts[script].sans : scripts[script].serif, weight, italic);
}

static void note(const char *asked, const char *file, int charset)
{
    struct font_log *log = current_log;
    if (!log)
        return;
    for (uint32_t i = 0; i < log->count && i < FONT_LOG_ENTRIES; i++) {
        if (strncmp(log->entries[i].asked, asked, sizeof log->entries[i].asked - 1) == 0)
            return;
    }
    if (log->count < FONT_LOG_ENTRIES) {
        struct font_substitution *entry = &log->entries[log->count];
        entry->charset = charset;
        snprintf(entry->asked, sizeof entry->asked, "%s", asked);
        snprintf(entry->file, sizeof entry->file, "%s", file);
    }
    log->count++;
    log->missing += file[0] == 0;
}

/* ---- pdfium's questions ---- */

static void *on_map_font(struct pdfium_font_info *self, int weight, FPDF_BOOL italic, int charset, int pitch_family,
                         const char *name, FPDF_BOOL *exact)
{
    const struct face *face = face_of_name(name ? name : "", weight, italic);
    int script = script_of(charset);
    if (exact)
        *exact = face != NULL;
    if (!face && script >= 0)
        face = face_of_script(script, name ? name : "", weight, italic, pitch_family);
    if (face || script >= 0)
        note(name ? name : "", face ? face->file->name : "", charset);
    else
        note(name ? name : "", "pdfium's own", charset);
    return (void *)face;
}

static void *on_get_font(struct pdfium_font_info *self, const char *name)
{
    return (void *)face_of_name(name ? name : "", 400, 0);
}

/* A collection is told from a single font by the table "ttcf", which is the whole file; table 0 is the file from the
 * face's directory on: that is how pdfium finds out which face of a collection is meant. */
static unsigned long on_get_font_data(struct pdfium_font_info *self, void *font, unsigned int table,
                                      unsigned char *buffer, unsigned long size)
{
    const struct face *face = font;
    size_t offset = face->offset, bytes = face->file->size_bytes - face->offset;
    if (table == TAG('t', 't', 'c', 'f')) {
        if (be32(face->file, 0) != table)
            return 0;
        offset = 0;
        bytes = face->file->size_bytes;
    } else if (table != 0) {
        offset = table_find(face->file, face->offset, table, &bytes);
        if (offset == 0)
            return 0;
    }
    if (buffer && size >= bytes)
        memcpy(buffer, face->file->data + offset, bytes);
    return bytes;
}

static unsigned long on_get_face_name(struct pdfium_font_info *self, void *font, char *buffer, unsigned long size)
{
    const struct face *face = font;
    size_t bytes = strlen(face->postscript) + 1;
    if (buffer && size >= bytes)
        memcpy(buffer, face->postscript, bytes);
    return bytes;
}

static int on_get_font_charset(struct pdfium_font_info *self, void *font)
{
    return FXFONT_DEFAULT_CHARSET;
}

static void on_enum_fonts(struct pdfium_font_info *self, void *mapper)
{
    /* Names are matched by on_map_font; pdfium needs no list of its own. */
}

static void on_delete_font(struct pdfium_font_info *self, void *font)
{
    /* Faces belong to the index. */
}

static void on_release(struct pdfium_font_info *self)
{
    /* Static. */
}

uint32_t fonts_install(const struct pdfium *pdfium, const char *folders)
{
    static struct pdfium_font_info callbacks = {
        .version = 1,
        .release = on_release,
        .enum_fonts = on_enum_fonts,
        .map_font = on_map_font,
        .get_font = on_get_font,
        .get_font_data = on_get_font_data,
        .get_face_name = on_get_face_name,
        .get_font_charset = on_get_font_charset,
        .delete_font = on_delete_font,
    };
    if (is_installed)
        return face_count;
    if (!folders || !*folders)
        folders = getenv("SHEAF_FONTS");
    folders_read(folders && *folders ? folders : SYSTEM_FOLDERS);
    pdfium->FPDF_SetSystemFontInfo(&callbacks);
    is_installed = 1;
    return face_count;
}

void fonts_log_to(struct font_log *log)
{
    current_log = log;
}

int fonts_have_charset(int charset)
{
    int script = script_of(charset);
    return script >= 0 && face_of_script(script, "", 400, 0, 0) != NULL;
}

const char *font_charset_name(int charset)
{
    int script = script_of(charset);
    return script >= 0 ? scripts[script].name : "Latin";
}
