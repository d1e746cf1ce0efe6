/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/page_text.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "ops/page_utf8.h"

enum { FONTS_KNOWN = 32, SPAN_BUFFER_BYTES = 4096, CODE_BYTES = 4 };

/* pdfium's code for a hyphen at a line end that joins two lines */
enum { CODE_HYPHEN_JOINT = 2 };

struct font {
    FPDF_FONT handle;
    uint32_t flags;
};

/* A character's box in the frame in which its line runs to the right and lines follow downwards. */
struct place {
    float u0, v0, u1, v1;
};

struct extraction {
    const struct pdfium *pdfium;
    FPDF_TEXTPAGE text;
    struct page_content *content;
    /* page space to what a reader sees */
    struct pdfium_rect bounds;
    float scale;
    uint32_t rotation; /* quarter turns */

    /* of the current text object */
    FPDF_PAGEOBJECT object;
    uint32_t turn, style;
    float size, baseline;
    struct font fonts[FONTS_KNOWN];
    uint32_t font_count, font_last;

    /* of the open span: its bytes are collected here */
    char bytes[SPAN_BUFFER_BYTES];
    uint32_t length, group_at; /* group_at: where the characters of the last glyph start */
    struct page_box span_box;
    uint32_t span_flags;
    float span_size, width_least, width_most; /* widths of its characters: monospaced fonts have one */

    /* of the open line */
    bool line_open, line_vertical, space_pending, hyphen;
    uint32_t line_turn, line_chars, left_letters, right_letters;
    float line_baseline, line_size;
    struct place last, run; /* of the last character; of all since the direction changed */
    bool last_right_to_left;
    uint32_t last_code;
    int space_index; /* of the space that is pending */
    int lazy_index;  /* the last character, when its box was not asked for yet; else -1 */
    int status;
};

/* ---- letters ---- */

static bool is_right_to_left(uint32_t code)
{
    return code >= 0x590 &&
           ((code <= 0x8FF) || (code >= 0xFB1D && code <= 0xFDFF) || (code >= 0xFE70 && code <= 0xFEFC) ||
            (code >= 0x10800 && code <= 0x10FFF) || (code >= 0x1E800 && code <= 0x1EFFF));
}

static bool is_left_to_right(uint32_t code)
{
    return (code >= 'A' && code <= 'Z') || (code >= 'a' && code <= 'z') || (code >= 0xC0 && code < 0x590) ||
           (code >= 0x900 && code < 0x2000) || (code >= 0x2C00 && code < 0xFB1D);
}

static bool is_space(uint32_t code)
{
    return code == ' ' || code == '\t' || code == 0xA0 || code == 0x3000 || (code >= 0x2000 && code <= 0x200A) ||
           code == 0x202F || code == 0x205F;
}

static bool is_dropped(uint32_t code)
{
    return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0xFEFF || code == 0xFFFE || code == 0xFFFF ||
           code == 0x200B || code == 0x200E || code == 0x200F || (code >= 0x202A && code <= 0x202E);
}

/* Hebrew and Arabic vowel marks, which stand over a letter. */
static bool is_mark(uint32_t code)
{
    return (code >= 0x591 && code <= 0x5C7 && code != 0x5BE && code != 0x5C0 && code != 0x5C3 && code != 0x5C6) ||
           (code >= 0x610 && code <= 0x61A) || (code >= 0x64B && code <= 0x65F) || code == 0x670 ||
           (code >= 0x6D6 && code <= 0x6DC);
}

/* Fonts of TeX without a Unicode map have ligatures at these codes (T1 and OT1 encodings); 0: none. */
static uint32_t ligature_of_code(uint32_t code)
{
    if (code >= 0x1B && code <= 0x1F)
        return 0xFB00 + code - 0x1B;
    if (code >= 0x0B && code <= 0x0F)
        return 0xFB00 + code - 0x0B;
    return 0;
}

static bool is_ideographic(uint32_t code)
{
    return code >= 0x2E80 && (code < 0xA4D0 || (code >= 0xF900 && code < 0xFB00) || (code >= 0xFE30 && code < 0xFE50) ||
                              (code >= 0xFF00 && code < 0xFFF0) || (code >= 0x20000 && code < 0x40000));
}

/* ---- where things are ---- */

static struct page_box to_seen(const struct extraction *x, const struct pdfium_rect *rect)
{
    const struct pdfium_rect *b = &x->bounds;
    struct page_box box;
    switch (x->rotation) {
    case 0:
        box = (struct page_box){rect->left - b->left, b->top - rect->top, rect->right - b->left, b->top - rect->bottom};
        break;
    case 1:
        box = (struct page_box){rect->bottom - b->bottom, rect->left - b->left, rect->top - b->bottom,
                                rect->right - b->left};
        break;
    case 2:
        box = (struct page_box){b->right - rect->right, rect->bottom - b->bottom, b->right - rect->left,
                                rect->top - b->bottom};
        break;
    default:
        box =
            (struct page_box){b->top - rect->top, b->right - rect->right, b->top - rect->bottom, b->right - rect->left};
    }
    return (struct page_box){box.x0 * x->scale, box.y0 * x->scale, box.x1 * x->scale, box.y1 * x->scale};
}

static struct place to_upright(const struct extraction *x, const struct page_box *box, uint32_t turn)
{
    float width = x->content->width, height = x->content->height;
    switch (turn) {
    case 0:
        return (struct place){box->x0, box->y0, box->x1, box->y1};
    case 1:
        return (struct place){box->y0, width - box->x1, box->y1, width - box->x0};
    case 2:
        return (struct place){width - box->x1, height - box->y1, width - box->x0, height - box->y0};
    default:
        return (struct place){height - box->y1, box->x0, height - box->y0, box->x1};
    }
}

static void page_frame(struct extraction *x, FPDF_PAGE page)
{
    struct page_content *content = x->content;
    content->width = x->pdfium->FPDF_GetPageWidthF(page);
    content->height = x->pdfium->FPDF_GetPageHeightF(page);
    x->rotation = (uint32_t)x->pdfium->FPDFPage_GetRotation(page) & 3;
    content->rotation = x->rotation * 90;
    bool turned = x->rotation & 1;
    float width = turned ? content->height : content->width, height = turned ? content->width : content->height;
    if (!x->pdfium->FPDF_GetPageBoundingBox(page, &x->bounds))
        x->bounds = (struct pdfium_rect){0, height, width, 0};
    float bounds_width = x->bounds.right - x->bounds.left;
    x->scale = bounds_width > 0 && width > 0 ? width / bounds_width : 1;
}

/* ---- fonts ---- */

static bool name_has(const char *name, const char *part)
{
    return strcasestr(name, part) != NULL;
}

static uint32_t style_of_name(const char *name)
{
    uint32_t style = 0;
    const char *plus = strchr(name, '+');
    if (plus)
        name = plus + 1;
    if (name_has(name, "bold") || name_has(name, "black") || name_has(name, "heavy") || name_has(name, "-medi") ||
        !strncmp(name, "CMBX", 4) || !strncmp(name, "SFBX", 4) || !strncmp(name, "CMSSBX", 6) ||
        !strncmp(name, "LMRomanDemi", 11))
        style |= PAGE_BOLD;
    if (name_has(name, "italic") || name_has(name, "oblique") || name_has(name, "-ital") ||
        name_has(name, "-reguital") || !strncmp(name, "CMTI", 4) || !strncmp(name, "SFTI", 4) ||
        !strncmp(name, "CMMI", 4))
        style |= PAGE_ITALIC;
    if (name_has(name, "courier") || name_has(name, "mono") || name_has(name, "consol") ||
        name_has(name, "typewriter") || !strncmp(name, "CMTT", 4) || !strncmp(name, "SFTT", 4) ||
        !strncmp(name, "CMSLTT", 6) || !strncmp(name, "LMTT", 4))
        style |= PAGE_MONOSPACE;
    return style;
}

static uint32_t font_flags(struct extraction *x, FPDF_FONT font, int index)
{
    if (x->font_count && x->fonts[x->font_last].handle == font)
        return x->fonts[x->font_last].flags;
    for (uint32_t i = 0; i < x->font_count; i++) {
        if (x->fonts[i].handle == font) {
            x->font_last = i;
            return x->fonts[i].flags;
        }
    }
    char name[256] = "";
    int descriptor = 0;
    x->pdfium->FPDFText_GetFontInfo(x->text, index, name, sizeof name, &descriptor);
    name[sizeof name - 1] = 0;
    uint32_t flags = style_of_name(name);
    if (x->pdfium->FPDFText_GetFontWeight(x->text, index) >= 600 || descriptor & 1 << 18)
        flags |= PAGE_BOLD;
    if (descriptor & 1 << 6)
        flags |= PAGE_ITALIC;
    if (descriptor & 1)
        flags |= PAGE_MONOSPACE;
    if (font && x->pdfium->FPDFFont_GetIsEmbedded(font) == 0)
        x->content->fonts_substituted++;
    if (x->font_count < FONTS_KNOWN) {
        x->font_last = x->font_count++;
        x->fonts[x->font_last] = (struct font){font, flags};
    }
    return flags;
}

/* Style, size, direction and baseline are those of the text object. */
static void object_enter(struct extraction *x, FPDF_PAGEOBJECT object, int index)
{
    struct pdfium_matrix m = {1, 0, 0, 1, 0, 0};
    double origin_x = 0, origin_y = 0;
    x->object = object;
    x->pdfium->FPDFText_GetMatrix(x->text, index, &m);
    x->pdfium->FPDFText_GetCharOrigin(x->text, index, &origin_x, &origin_y);
    float size = (float)x->pdfium->FPDFText_GetFontSize(x->text, index) * hypotf(m.c, m.d) * x->scale;
    x->size = isfinite(size) && size > 0 ? size : 0;
    uint32_t turned; /* quarter turns counter-clockwise on the page */
    if (fabsf(m.a) >= fabsf(m.b))
        turned = m.a < 0 && m.d < 0 ? 2 : 0;
    else
        turned = m.b > 0 ? 1 : 3;
    x->turn = (x->rotation + 4 - turned) & 3;
    struct pdfium_rect point = {(float)origin_x, (float)origin_y, (float)origin_x, (float)origin_y};
    struct page_box seen = to_seen(x, &point);
    x->baseline = to_upright(x, &seen, x->turn).v1;
    x->style = object ? font_flags(x, x->pdfium->FPDFTextObj_GetFont(object), index) : 0;
    if (object && x->pdfium->FPDFTextObj_GetTextRenderMode(object) == FPDF_TEXTRENDERMODE_INVISIBLE)
        x->style |= PAGE_HIDDEN;
}

/* ---- spans and lines ---- */

static void span_close(struct extraction *x)
{
    if (x->length && !x->status) {
        if (x->width_most > 1.1f * x->width_least) /* many fonts only claim to be monospaced */
            x->span_flags &= ~(uint32_t)PAGE_MONOSPACE;
        int status = page_span_append(x->content, x->bytes, x->length, &x->span_box, x->span_size, x->span_flags);
        if (status && status != -ENOSPC)
            x->status = status;
    }
    x->length = x->group_at = 0;
}

static void last_resolve(struct extraction *x);

static void line_close(struct extraction *x)
{
    if (!x->line_open)
        return;
    last_resolve(x);
    span_close(x);
    uint32_t flags = x->line_turn << PAGE_TURN_SHIFT;
    if (x->right_letters > x->left_letters)
        flags |= PAGE_RIGHT_TO_LEFT;
    if (x->line_vertical)
        flags |= PAGE_VERTICAL;
    if (x->hyphen)
        flags |= PAGE_HYPHEN;
    x->content->lines[x->content->line_count].flags = flags;
    page_line_end(x->content, x->line_baseline);
    x->line_open = x->line_vertical = x->space_pending = x->hyphen = false;
}

static bool line_start(struct extraction *x)
{
    int status = page_line_begin(x->content, 0);
    if (status) {
        if (status != -ENOSPC)
            x->status = status;
        return false;
    }
    x->line_open = true;
    x->line_turn = x->turn;
    x->line_chars = x->left_letters = x->right_letters = 0;
    x->line_baseline = x->baseline;
    x->line_size = x->size;
    x->space_pending = false;
    return true;
}

static bool starts_vertical(const struct extraction *x, const struct place *place, uint32_t code)
{
    float size = fmaxf(x->size, 1), aside = fabsf((place->u0 + place->u1) - (x->last.u0 + x->last.u1)) / 2;
    float down = (place->v0 + place->v1 - x->last.v0 - x->last.v1) / 2;
    return is_ideographic(code) && is_ideographic(x->last_code) && aside < 0.35f * size && down > 0.5f * size &&
           down < 2 * size;
}

/* Does this character stand too far from the last one to belong to its line? */
static bool breaks_line(struct extraction *x, const struct place *place, uint32_t code, bool right_to_left)
{
    if (x->turn != x->line_turn)
        return true;
    float size = fmaxf(fmaxf(x->size, x->line_size), 1);
    if (x->line_chars == 1 && starts_vertical(x, place, code))
        x->line_vertical = true;
    if (x->line_vertical) {
        float aside = fabsf((place->u0 + place->u1) - (x->last.u0 + x->last.u1)) / 2;
        return aside > 0.6f * size || place->v0 - x->last.v1 > 1.5f * size || place->v1 < x->last.v0;
    }
    if (fabsf(x->baseline - x->line_baseline) > 0.8f * size)
        return true;
    float forward = place->u0 - x->last.u1, backward = x->last.u0 - place->u1;
    if (right_to_left && x->last_right_to_left)
        return backward > 1.2f * size || forward > 1.2f * size;
    if (right_to_left || x->right_letters) /* other runs of the line may lie between */
        return false;
    return forward > 1.0f * size || backward > 0.5f * size;
}

static void span_open(struct extraction *x, uint32_t flags, const struct page_box *box)
{
    if (x->space_pending && x->line_chars)
        flags |= PAGE_SPACE_BEFORE;
    x->space_pending = false;
    x->span_flags = flags;
    x->span_size = x->size;
    x->span_box = *box;
    x->width_least = HUGE_VALF;
    x->width_most = 0;
}

static void box_add(struct page_box *box, const struct page_box *other)
{
    box->x0 = box->x0 < other->x0 ? box->x0 : other->x0;
    box->y0 = box->y0 < other->y0 ? box->y0 : other->y0;
    box->x1 = box->x1 > other->x1 ? box->x1 : other->x1;
    box->y1 = box->y1 > other->y1 ? box->y1 : other->y1;
}

static bool same_place(const struct place *a, const struct place *b)
{
    return fabsf(a->u0 - b->u0) < 0.01f && fabsf(a->u1 - b->u1) < 0.01f && fabsf(a->v0 - b->v0) < 0.01f;
}

/* Is the last character a mark over this letter? pdfium gives it before the letter when the file draws it first. */
static bool stands_under(const struct place *place, const struct place *last, uint32_t last_code)
{
    float middle = (last->u0 + last->u1) / 2;
    return is_mark(last_code) && middle > place->u0 && middle < place->u1;
}

/* Writes a character; of a right-to-left glyph that stands for several, pdfium gives the letters last one first. */
static void code_write(struct extraction *x, uint32_t code, bool same_glyph)
{
    char bytes[CODE_BYTES];
    uint32_t count = utf8_write(bytes, code);
    if (!same_glyph)
        x->group_at = x->length;
    uint32_t at = same_glyph ? x->group_at : x->length;
    memmove(x->bytes + at + count, x->bytes + at, x->length - at);
    memcpy(x->bytes + at, bytes, count);
    x->length += count;
}

static void ligature_write(struct extraction *x, uint32_t code)
{
    static const char *const letters[] = {"ff", "fi", "fl", "ffi", "ffl", "st", "st"};
    for (const char *letter = letters[code - 0xFB00]; *letter; letter++)
        code_write(x, (unsigned char)*letter, false);
}

/* A space drawn on top of the letter before it, with the next letter following at once, is none to a reader: some
 * programs put one behind ligatures. */
static bool is_hidden_space(const struct extraction *x, const struct place *place)
{
    float gap = place->u0 - x->last.u1;
    struct pdfium_rect rect;
    if ((x->last_code != 'i' && x->last_code != 'l') || gap > 0.04f * x->size || gap < -0.3f * x->size ||
        x->line_vertical || !x->pdfium->FPDFText_GetLooseCharBox(x->text, x->space_index, &rect))
        return false;
    struct page_box box = to_seen(x, &rect);
    struct place space = to_upright(x, &box, x->turn);
    return space.u1 > space.u0 && space.u0 < x->last.u1 - 0.3f * (space.u1 - space.u0);
}

static bool is_duplicate(const struct extraction *x, const struct place *place, uint32_t code)
{
    float width = place->u1 - place->u0;
    return code == x->last_code && !x->line_vertical && width > 0 && fabsf(place->u0 - x->last.u0) < 0.2f * width &&
           !same_place(place, &x->last);
}

/* A line that starts with small raised figures is a note; they are no part of its first word. */
static bool follows_note_mark(const struct extraction *x)
{
    return x->length && x->left_letters == 0 && x->right_letters == 0 && x->size > 1.15f * x->span_size &&
           x->last_code >= '0' && x->last_code <= '9';
}

static void character(struct extraction *x, uint32_t code, const struct page_box *box)
{
    struct place place = to_upright(x, box, x->turn);
    bool right_to_left = is_right_to_left(code);
    if (x->line_open && x->line_chars) {
        if (breaks_line(x, &place, code, right_to_left))
            line_close(x);
        else if (is_duplicate(x, &place, code))
            return;
    }
    if (!x->line_open && !line_start(x))
        return;
    if (x->line_chars && right_to_left != x->last_right_to_left) {
        float gap = fmaxf(x->run.u0 - place.u1, place.u0 - x->run.u1);
        if (right_to_left && gap > 0.15f * x->size)
            x->space_pending = true;
        x->run = place;
    }
    if (is_mark(code) || (x->space_pending && x->line_chars && !right_to_left && is_hidden_space(x, &place)))
        x->space_pending = false;
    uint32_t flags = x->style;
    bool same_style = x->length &&
                      ((x->span_flags ^ flags) & (PAGE_BOLD | PAGE_ITALIC | PAGE_MONOSPACE | PAGE_HIDDEN)) == 0 &&
                      fabsf(x->span_size - x->size) < 0.1f && x->length < SPAN_BUFFER_BYTES - 8 * CODE_BYTES;
    bool same_glyph = right_to_left && x->last_right_to_left && same_style && !x->space_pending && x->line_chars &&
                      (same_place(&place, &x->last) || stands_under(&place, &x->last, x->last_code));
    if (!same_style) {
        if (follows_note_mark(x))
            x->space_pending = true;
        span_close(x);
        span_open(x, flags | (right_to_left ? PAGE_RIGHT_TO_LEFT : 0), box);
    } else if (x->space_pending) {
        x->bytes[x->length++] = ' ';
        x->space_pending = false;
    }
    if (code >= 0xFB00 && code <= 0xFB06)
        ligature_write(x, code);
    else
        code_write(x, code, same_glyph);
    box_add(&x->span_box, box);
    if (flags & PAGE_MONOSPACE) {
        float width = place.u1 - place.u0;
        x->width_least = fminf(x->width_least, width);
        x->width_most = fmaxf(x->width_most, width);
    }
    if (x->size > x->line_size) {
        x->line_size = x->size;
        x->line_baseline = x->baseline;
    }
    x->left_letters += is_left_to_right(code);
    x->right_letters += right_to_left;
    if (!x->line_chars++)
        x->run = place;
    x->run.u0 = fminf(x->run.u0, place.u0);
    x->run.u1 = fmaxf(x->run.u1, place.u1);
    x->last = place;
    x->last_right_to_left = right_to_left;
    x->last_code = code;
    x->hyphen = code == '-' || code == 0x2010;
}

/* Fetches the box that was put off. */
static void last_resolve(struct extraction *x)
{
    struct pdfium_rect rect;
    if (x->lazy_index < 0)
        return;
    if (x->pdfium->FPDFText_GetLooseCharBox(x->text, x->lazy_index, &rect)) {
        struct page_box box = to_seen(x, &rect);
        x->last = to_upright(x, &box, x->turn);
        box_add(&x->span_box, &box);
        x->run.u0 = fminf(x->run.u0, x->last.u0);
        x->run.u1 = fmaxf(x->run.u1, x->last.u1);
    }
    x->lazy_index = -1;
}

/* The inside of a word of one text object: its box matters only if it is the last one of the word. True when taken. */
static inline bool character_inside(struct extraction *x, int index, uint32_t code)
{
    if (code <= ' ' || code >= 0x7F || code == '-' || code == x->last_code || x->last_code >= 0x590 || !x->line_open ||
        x->space_pending || x->line_vertical || x->length == 0 || x->length > SPAN_BUFFER_BYTES - 16 * CODE_BYTES ||
        x->style & PAGE_MONOSPACE)
        return false;
    x->bytes[x->length++] = (char)code;
    x->line_chars++;
    x->left_letters += is_left_to_right(code);
    x->last_code = code;
    x->hyphen = false;
    x->lazy_index = index;
    return true;
}

static bool outside(const struct page_content *content, const struct page_box *box)
{
    float x = (box->x0 + box->x1) / 2, y = (box->y0 + box->y1) / 2;
    return !(x >= -1 && y >= -1 && x <= content->width + 1 && y <= content->height + 1);
}

/* Reads character `index`, a surrogate pair as one; returns how many indices it took. */
static int read_code(const struct extraction *x, int index, int count, uint32_t *ret_code)
{
    uint32_t code = x->pdfium->FPDFText_GetUnicode(x->text, index);
    if (code >= 0xD800 && code < 0xDC00 && index + 1 < count) {
        uint32_t low = x->pdfium->FPDFText_GetUnicode(x->text, index + 1);
        if (low >= 0xDC00 && low < 0xE000) {
            *ret_code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
            return 2;
        }
    }
    *ret_code = code;
    return 1;
}

static void character_at(struct extraction *x, int index, uint32_t code)
{
    FPDF_PAGEOBJECT object = x->pdfium->FPDFText_GetTextObject(x->text, index);
    bool entered = object != x->object;
    if (!entered && character_inside(x, index, code))
        return;
    last_resolve(x);
    if (entered)
        object_enter(x, object, index);
    uint32_t ligature = ligature_of_code(code);
    if (ligature)
        code = ligature;
    else if ((code >= 0x80 || code < 0x20) && code != CODE_HYPHEN_JOINT && object)
        x->content->unmapped += x->pdfium->FPDFText_HasUnicodeMapError(x->text, index) == 1;
    bool joint = code == CODE_HYPHEN_JOINT && x->pdfium->FPDFText_IsHyphen(x->text, index) == 1;
    if (joint)
        code = '-';
    if (code == 0xAD) { /* shows only at the end of a line */
        x->hyphen = true;
        return;
    }
    if (is_dropped(code))
        return;
    struct pdfium_rect rect;
    if (!x->pdfium->FPDFText_GetLooseCharBox(x->text, index, &rect))
        return;
    struct page_box box = to_seen(x, &rect);
    if (outside(x->content, &box))
        return;
    character(x, code, &box);
    if (joint)
        line_close(x);
}

int page_text_extract(const struct pdfium *pdfium, FPDF_PAGE page, FPDF_TEXTPAGE text, uint32_t number,
                      struct page_content *content)
{
    struct extraction x;
    memset(&x, 0, offsetof(struct extraction, bytes));
    memset((char *)&x + offsetof(struct extraction, length), 0, sizeof x - offsetof(struct extraction, length));
    page_content_clear(content);
    x.pdfium = pdfium;
    x.text = text;
    x.content = content;
    x.lazy_index = -1;
    content->number = number;
    page_frame(&x, page);
    int count = text ? pdfium->FPDFText_CountChars(text) : 0;
    for (int index = 0; index < count && !x.status && !content->truncated;) {
        uint32_t code;
        int taken = read_code(&x, index, count, &code);
        if (code == '\n' || (code == '\r' && pdfium->FPDFText_IsGenerated(text, index) == 1))
            line_close(&x);
        else if (is_space(code))
            x.space_pending = true, x.space_index = index;
        else
            character_at(&x, index, code);
        index += taken;
    }
    line_close(&x);
    content->source = content->line_count ? PAGE_SOURCE_TEXT_LAYER : PAGE_SOURCE_NONE;
    return x.status;
}
