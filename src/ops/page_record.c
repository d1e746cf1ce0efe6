/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/page_record.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <math.h>
#include <msgpack.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "ops/page_utf8.h"

enum { RECORD_VERSION = 1, SPAN_WORDS = 7, LINE_WORDS = 3, RECORD_KEYS = 14 };
static const float coordinate_max = 1e7f;

static const char *const source_names[PAGE_SOURCE_COUNT] = {"none", "text-layer", "ocr"};

const char *page_source_name(enum page_source source)
{
    return (unsigned)source < PAGE_SOURCE_COUNT ? source_names[source] : "none";
}

void page_content_init(struct page_content *content)
{
    memset(content, 0, sizeof *content);
    content->confidence = -1;
}

void page_content_fini(struct page_content *content)
{
    if (!content)
        return;
    free(content->text);
    free(content->spans);
    free(content->lines);
    page_content_init(content);
}

void page_content_clear(struct page_content *content)
{
    struct page_content kept = *content;
    page_content_init(content);
    content->text = kept.text;
    content->spans = kept.spans;
    content->lines = kept.lines;
    content->text_capacity = kept.text_capacity;
    content->span_capacity = kept.span_capacity;
    content->line_capacity = kept.line_capacity;
}

/* Grows an array to hold `wanted` more than `count` elements; -ENOSPC past `limit`. */
static int grow(void **array, size_t element_bytes, uint32_t count, uint32_t wanted, uint32_t limit, uint32_t *capacity)
{
    if (wanted > limit - count)
        return -ENOSPC;
    uint32_t need = count + wanted;
    if (need <= *capacity)
        return 0;
    uint32_t next = *capacity ? *capacity : 256;
    while (next < need)
        next *= 2;
    void *moved = realloc(*array, next * element_bytes);
    if (!moved)
        return -ENOMEM;
    *array = moved;
    *capacity = next;
    return 0;
}

int page_content_reserve(struct page_content *content, uint32_t text_bytes, uint32_t spans, uint32_t lines)
{
    int status =
        grow((void **)&content->text, 1, content->text_bytes, text_bytes, PAGE_TEXT_BYTES_MAX, &content->text_capacity);
    if (!status)
        status = grow((void **)&content->spans, sizeof *content->spans, content->span_count, spans, PAGE_SPANS_MAX,
                      &content->span_capacity);
    if (!status)
        status = grow((void **)&content->lines, sizeof *content->lines, content->line_count, lines, PAGE_LINES_MAX,
                      &content->line_capacity);
    if (status == -ENOSPC)
        content->truncated = 1;
    return status;
}

int page_line_begin(struct page_content *content, uint32_t flags)
{
    assert(!content->line_open);
    int status = page_content_reserve(content, 0, 0, 1);
    if (status)
        return status;
    content->lines[content->line_count] =
        (struct page_line){.first_span = content->span_count, .flags = flags & PAGE_FLAGS_ALL};
    content->line_open = 1;
    return 0;
}

static void box_join(struct page_box *box, const struct page_box *other)
{
    box->x0 = fminf(box->x0, other->x0);
    box->y0 = fminf(box->y0, other->y0);
    box->x1 = fmaxf(box->x1, other->x1);
    box->y1 = fmaxf(box->y1, other->y1);
}

static float coordinate_tame(float value)
{
    if (!(value > -coordinate_max))
        return value < 0 ? -coordinate_max : 0;
    return value < coordinate_max ? value : coordinate_max;
}

static struct page_box box_tame(const struct page_box *box)
{
    struct page_box tame = {coordinate_tame(box->x0), coordinate_tame(box->y0), coordinate_tame(box->x1),
                            coordinate_tame(box->y1)};
    if (tame.x1 < tame.x0)
        tame.x1 = tame.x0;
    if (tame.y1 < tame.y0)
        tame.y1 = tame.y0;
    return tame;
}

/* Copies text, with U+FFFD for every byte that is not UTF-8. `out` has room for three times the length. */
static uint32_t copy_repaired(char *out, const char *text, size_t text_bytes)
{
    uint32_t written = 0;
    for (size_t at = 0; at < text_bytes;) {
        uint32_t bytes;
        int valid = 1;
        uint32_t code = utf8_read(text + at, text_bytes - at, &bytes, &valid);
        written += utf8_write(out + written, code);
        at += bytes;
    }
    return written;
}

int page_span_append(struct page_content *content, const char *text, size_t text_bytes, const struct page_box *box,
                     float font_size, uint32_t flags)
{
    assert(content->line_open);
    if (text_bytes == 0)
        return 0;
    bool valid = utf8_valid(text, text_bytes);
    size_t room = valid ? text_bytes : 3 * text_bytes;
    if (text_bytes > PAGE_TEXT_BYTES_MAX || room > PAGE_TEXT_BYTES_MAX) {
        content->truncated = 1;
        return -ENOSPC;
    }
    int status = page_content_reserve(content, (uint32_t)room, 1, 0);
    if (status)
        return status;
    char *out = content->text + content->text_bytes;
    uint32_t written = (uint32_t)text_bytes;
    if (valid)
        memcpy(out, text, text_bytes);
    else
        written = copy_repaired(out, text, text_bytes);
    struct page_span *span = &content->spans[content->span_count++];
    *span = (struct page_span){.text_offset = content->text_bytes,
                               .text_bytes = written,
                               .box = box_tame(box),
                               .font_size = coordinate_tame(font_size > 0 ? font_size : 0),
                               .flags = flags & PAGE_FLAGS_ALL};
    content->text_bytes += written;
    return 0;
}

static void line_box_set(struct page_content *content, struct page_line *line)
{
    line->box = content->spans[line->first_span].box;
    for (uint32_t i = 1; i < line->span_count; i++)
        box_join(&line->box, &content->spans[line->first_span + i].box);
}

void page_line_end(struct page_content *content, float baseline)
{
    assert(content->line_open);
    content->line_open = 0;
    struct page_line *line = &content->lines[content->line_count];
    line->span_count = content->span_count - line->first_span;
    if (line->span_count == 0)
        return;
    line->baseline = coordinate_tame(baseline);
    line_box_set(content, line);
    content->line_count++;
}

int page_content_blank(const struct page_content *content)
{
    for (uint32_t at = 0; at < content->text_bytes;) {
        uint32_t bytes;
        uint32_t code = utf8_next(content->text + at, content->text_bytes - at, &bytes);
        bool white = code <= 0x20 || code == 0x7F || code == 0xA0 || code == 0xAD ||
                     (code >= 0x2000 && code <= 0x200F) || code == 0x2028 || code == 0x2029 || code == 0x3000 ||
                     code == 0xFEFF || code == UTF8_REPLACEMENT;
        if (!white)
            return 0;
        at += bytes;
    }
    return 1;
}

/* ---- encoding ---- */

struct output {
    char *at;
    size_t left;
};

static int output_write(void *cookie, const char *data, size_t bytes)
{
    struct output *output = cookie;
    if (bytes > output->left)
        return -1;
    memcpy(output->at, data, bytes);
    output->at += bytes;
    output->left -= bytes;
    return 0;
}

static size_t image_path_bytes(const struct page_content *content)
{
    return strnlen(content->image_path, sizeof content->image_path - 1);
}

size_t page_record_bound(const struct page_content *content)
{
    return 512 + image_path_bytes(content) + content->text_bytes + (size_t)content->span_count * SPAN_WORDS * 4 +
           (size_t)content->line_count * LINE_WORDS * 4;
}

static int pack_key(msgpack_packer *packer, const char *key)
{
    size_t bytes = strlen(key);
    return msgpack_pack_str_with_body(packer, key, bytes);
}

static int pack_unsigned(msgpack_packer *packer, const char *key, uint32_t value)
{
    return pack_key(packer, key) || msgpack_pack_uint32(packer, value);
}

static int pack_float(msgpack_packer *packer, const char *key, float value)
{
    return pack_key(packer, key) || msgpack_pack_float(packer, value);
}

static int pack_text(msgpack_packer *packer, const char *key, const char *text, size_t bytes)
{
    return pack_key(packer, key) || msgpack_pack_str(packer, bytes) ||
           (bytes && msgpack_pack_str_body(packer, text, bytes));
}

/* Names are bytes: what is no UTF-8 is no text. */
static int pack_path(msgpack_packer *packer, const char *key, const char *path, size_t bytes)
{
    if (utf8_valid(path, bytes))
        return pack_text(packer, key, path, bytes);
    return pack_key(packer, key) || msgpack_pack_bin(packer, bytes) || msgpack_pack_bin_body(packer, path, bytes);
}

static uint32_t float_word(float value)
{
    uint32_t word;
    memcpy(&word, &value, 4);
    return htole32(word);
}

static int pack_spans(msgpack_packer *packer, const struct page_content *content)
{
    if (pack_key(packer, "spans") || msgpack_pack_bin(packer, (size_t)content->span_count * SPAN_WORDS * 4))
        return -1;
    for (uint32_t i = 0; i < content->span_count; i++) {
        const struct page_span *span = &content->spans[i];
        uint32_t words[SPAN_WORDS] = {htole32(span->text_bytes), float_word(span->box.x0), float_word(span->box.y0),
                                      float_word(span->box.x1),  float_word(span->box.y1), float_word(span->font_size),
                                      htole32(span->flags)};
        if (output_write(packer->data, (const char *)words, sizeof words))
            return -1;
    }
    return 0;
}

static int pack_lines(msgpack_packer *packer, const struct page_content *content)
{
    if (pack_key(packer, "lines") || msgpack_pack_bin(packer, (size_t)content->line_count * LINE_WORDS * 4))
        return -1;
    for (uint32_t i = 0; i < content->line_count; i++) {
        const struct page_line *line = &content->lines[i];
        uint32_t words[LINE_WORDS] = {htole32(line->span_count), float_word(line->baseline), htole32(line->flags)};
        if (output_write(packer->data, (const char *)words, sizeof words))
            return -1;
    }
    return 0;
}

/* What only pages that were read from a picture have. */
static uint32_t picture_keys(const struct page_content *content)
{
    return (content->skew != 0) + (content->has_look != 0);
}

static int pack_picture(msgpack_packer *packer, const struct page_content *content)
{
    uint64_t look[2] = {htole64(content->look[0]), htole64(content->look[1])};
    if (content->skew != 0 && pack_float(packer, "skew", content->skew))
        return -1;
    return content->has_look && (pack_key(packer, "look") || msgpack_pack_bin(packer, sizeof look) ||
                                 msgpack_pack_bin_body(packer, look, sizeof look))
               ? -1
               : 0;
}

int page_record_encode(const struct page_content *content, void *buffer, size_t buffer_bytes, size_t *ret_bytes)
{
    assert(!content->line_open);
    struct output output = {buffer, buffer_bytes};
    msgpack_packer packer;
    msgpack_packer_init(&packer, &output, output_write);
    const char *source = page_source_name(content->source);
    if (msgpack_pack_map(&packer, RECORD_KEYS + picture_keys(content)) ||
        pack_unsigned(&packer, "page_record", RECORD_VERSION) || pack_unsigned(&packer, "number", content->number) ||
        pack_float(&packer, "width", content->width) || pack_float(&packer, "height", content->height) ||
        pack_unsigned(&packer, "rotation", content->rotation) || pack_text(&packer, "source", source, strlen(source)) ||
        pack_float(&packer, "confidence", content->confidence) ||
        pack_unsigned(&packer, "fonts_substituted", content->fonts_substituted) ||
        pack_unsigned(&packer, "unmapped", content->unmapped) ||
        pack_unsigned(&packer, "truncated", content->truncated) ||
        pack_path(&packer, "image", content->image_path, image_path_bytes(content)) ||
        pack_text(&packer, "text", content->text, content->text_bytes) || pack_picture(&packer, content) ||
        pack_spans(&packer, content) || pack_lines(&packer, content))
        return -ENOSPC;
    *ret_bytes = buffer_bytes - output.left;
    return 0;
}

/* ---- decoding ---- */

/* Columns as they lie in the record: pointers into it, sizes checked against each other by fill(). */
struct columns {
    const char *text, *spans, *lines;
    uint32_t text_bytes, span_count, line_count;
};

static bool key_is(const msgpack_object *key, const char *name)
{
    return key->via.str.size == strlen(name) && memcmp(key->via.str.ptr, name, key->via.str.size) == 0;
}

static int take_unsigned(const msgpack_object *value, uint32_t max, uint32_t *ret_value)
{
    if (value->type != MSGPACK_OBJECT_POSITIVE_INTEGER || value->via.u64 > max)
        return -EBADMSG;
    *ret_value = (uint32_t)value->via.u64;
    return 0;
}

static int take_float(const msgpack_object *value, float min, float max, float *ret_value)
{
    if (value->type != MSGPACK_OBJECT_FLOAT32 && value->type != MSGPACK_OBJECT_FLOAT64)
        return -EBADMSG;
    if (!(value->via.f64 >= (double)min && value->via.f64 <= (double)max)) /* refuses NaN too */
        return -EBADMSG;
    *ret_value = (float)value->via.f64;
    return 0;
}

static int take_source(const msgpack_object *value, enum page_source *ret_source)
{
    if (value->type != MSGPACK_OBJECT_STR)
        return -EBADMSG;
    for (int source = 0; source < PAGE_SOURCE_COUNT; source++) {
        if (key_is(value, source_names[source])) {
            *ret_source = (enum page_source)source;
            return 0;
        }
    }
    return -EBADMSG;
}

static int take_image(const msgpack_object *value, struct page_content *content)
{
    bool text = value->type == MSGPACK_OBJECT_STR;
    const char *path = text ? value->via.str.ptr : value->via.bin.ptr;
    uint32_t bytes = text ? value->via.str.size : value->via.bin.size;
    if ((!text && value->type != MSGPACK_OBJECT_BIN) || bytes >= sizeof content->image_path ||
        (text && !utf8_valid(path, bytes)) || (bytes && memchr(path, 0, bytes)))
        return -EBADMSG;
    memcpy(content->image_path, path, bytes);
    content->image_path[bytes] = 0;
    return 0;
}

static int take_column(const msgpack_object *value, uint32_t element_bytes, uint32_t max, const char **ret_data,
                       uint32_t *ret_count)
{
    if (value->type != MSGPACK_OBJECT_BIN || value->via.bin.size % element_bytes ||
        value->via.bin.size / element_bytes > max)
        return -EBADMSG;
    *ret_data = value->via.bin.ptr;
    *ret_count = value->via.bin.size / element_bytes;
    return 0;
}

static int take_look(const msgpack_object *value, struct page_content *content)
{
    if (value->type != MSGPACK_OBJECT_BIN || value->via.bin.size != sizeof content->look)
        return -EBADMSG;
    memcpy(content->look, value->via.bin.ptr, sizeof content->look);
    content->look[0] = le64toh(content->look[0]);
    content->look[1] = le64toh(content->look[1]);
    content->has_look = 1;
    return 0;
}

static int take_text(const msgpack_object *value, struct columns *columns)
{
    if (value->type != MSGPACK_OBJECT_STR || value->via.str.size > PAGE_TEXT_BYTES_MAX ||
        !utf8_valid(value->via.str.ptr, value->via.str.size))
        return -EBADMSG;
    columns->text = value->via.str.ptr;
    columns->text_bytes = value->via.str.size;
    return 0;
}

static int take_pair(const msgpack_object_kv *pair, struct page_content *content, struct columns *columns,
                     uint32_t *version)
{
    const msgpack_object *key = &pair->key, *value = &pair->val;
    if (key->type != MSGPACK_OBJECT_STR)
        return -EBADMSG;
    if (key_is(key, "page_record"))
        return take_unsigned(value, UINT32_MAX, version);
    if (key_is(key, "number"))
        return take_unsigned(value, UINT32_MAX, &content->number);
    if (key_is(key, "width"))
        return take_float(value, 0, coordinate_max, &content->width);
    if (key_is(key, "height"))
        return take_float(value, 0, coordinate_max, &content->height);
    if (key_is(key, "rotation"))
        return take_unsigned(value, 270, &content->rotation);
    if (key_is(key, "source"))
        return take_source(value, &content->source);
    if (key_is(key, "confidence"))
        return take_float(value, -1, 100, &content->confidence);
    if (key_is(key, "fonts_substituted"))
        return take_unsigned(value, UINT32_MAX, &content->fonts_substituted);
    if (key_is(key, "unmapped"))
        return take_unsigned(value, UINT32_MAX, &content->unmapped);
    if (key_is(key, "truncated"))
        return take_unsigned(value, 1, &content->truncated);
    if (key_is(key, "skew"))
        return take_float(value, -90, 90, &content->skew);
    if (key_is(key, "look"))
        return take_look(value, content);
    if (key_is(key, "image"))
        return take_image(value, content);
    if (key_is(key, "text"))
        return take_text(value, columns);
    if (key_is(key, "spans"))
        return take_column(value, SPAN_WORDS * 4, PAGE_SPANS_MAX, &columns->spans, &columns->span_count);
    if (key_is(key, "lines"))
        return take_column(value, LINE_WORDS * 4, PAGE_LINES_MAX, &columns->lines, &columns->line_count);
    return 0;
}

static uint32_t word_at(const char *data, uint32_t index)
{
    uint32_t word;
    memcpy(&word, data + (size_t)index * 4, 4);
    return le32toh(word);
}

static int float_at(const char *data, uint32_t index, float *ret_value)
{
    uint32_t word = word_at(data, index);
    float value;
    memcpy(&value, &word, 4);
    if (!(value >= -coordinate_max && value <= coordinate_max))
        return -EBADMSG;
    *ret_value = value;
    return 0;
}

static int fill_spans(struct page_content *content, const struct columns *columns)
{
    uint32_t offset = 0;
    for (uint32_t i = 0; i < columns->span_count; i++) {
        const char *data = columns->spans + (size_t)i * SPAN_WORDS * 4;
        struct page_span *span = &content->spans[i];
        span->text_offset = offset;
        span->text_bytes = word_at(data, 0);
        span->flags = word_at(data, 6);
        if (float_at(data, 1, &span->box.x0) || float_at(data, 2, &span->box.y0) || float_at(data, 3, &span->box.x1) ||
            float_at(data, 4, &span->box.y1) || float_at(data, 5, &span->font_size))
            return -EBADMSG;
        if (span->text_bytes == 0 || span->text_bytes > columns->text_bytes - offset || span->font_size < 0 ||
            span->flags & ~(uint32_t)PAGE_FLAGS_ALL || span->box.x1 < span->box.x0 || span->box.y1 < span->box.y0)
            return -EBADMSG;
        if (((unsigned char)columns->text[offset] & 0xC0) == 0x80) /* starts inside a code point */
            return -EBADMSG;
        offset += span->text_bytes;
    }
    content->span_count = columns->span_count;
    return offset == columns->text_bytes ? 0 : -EBADMSG;
}

static int fill_lines(struct page_content *content, const struct columns *columns)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < columns->line_count; i++) {
        const char *data = columns->lines + (size_t)i * LINE_WORDS * 4;
        struct page_line *line = &content->lines[i];
        line->first_span = first;
        line->span_count = word_at(data, 0);
        line->flags = word_at(data, 2);
        if (float_at(data, 1, &line->baseline) || line->flags & ~(uint32_t)PAGE_FLAGS_ALL || line->span_count == 0 ||
            line->span_count > columns->span_count - first)
            return -EBADMSG;
        line_box_set(content, line);
        first += line->span_count;
    }
    content->line_count = columns->line_count;
    return first == columns->span_count ? 0 : -EBADMSG;
}

static int fill(struct page_content *content, const struct columns *columns)
{
    int status = page_content_reserve(content, columns->text_bytes, columns->span_count, columns->line_count);
    if (status)
        return status;
    if (columns->text_bytes)
        memcpy(content->text, columns->text, columns->text_bytes);
    content->text_bytes = columns->text_bytes;
    status = fill_spans(content, columns);
    return status ? status : fill_lines(content, columns);
}

static int take_map(const msgpack_object *object, struct page_content *content)
{
    struct columns columns = {0};
    uint32_t version = 0;
    if (object->type != MSGPACK_OBJECT_MAP)
        return -EBADMSG;
    for (uint32_t i = 0; i < object->via.map.size; i++) {
        int status = take_pair(&object->via.map.ptr[i], content, &columns, &version);
        if (status)
            return status;
    }
    if (version != RECORD_VERSION || content->rotation % 90)
        return -EBADMSG;
    return fill(content, &columns);
}

static uint64_t big_endian_at(const unsigned char *data, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value = value << 8 | data[i];
    return value;
}

int record_counts_plausible(const void *bytes, size_t length)
{
    const unsigned char *data = bytes;
    /* of the types 0xC0 to 0xDF: bytes of the size or value that follows the type */
    static const uint8_t widths[32] = {0, 0, 0, 0, 1, 2, 4, 1, 2,  4, 4, 8, 1, 2, 4, 8,
                                       1, 2, 4, 8, 2, 3, 5, 9, 17, 1, 2, 4, 2, 4, 2, 4};
    for (size_t at = 0; at < length;) {
        unsigned char type = data[at++];
        uint64_t body = 0, elements = 0;
        if (type >= 0xA0 && type < 0xC0) {
            body = type & 0x1F;
        } else if (type >= 0x80 && type < 0xA0) {
            elements = type & 0x0F;
        } else if (type >= 0xC0 && type < 0xE0) {
            size_t width = widths[type - 0xC0];
            if (width > length - at)
                return false;
            uint64_t value = width <= 8 ? big_endian_at(data + at, width) : 0;
            at += width;
            bool sized = (type >= 0xC4 && type <= 0xC6) || (type >= 0xD9 && type <= 0xDB);
            if (type >= 0xC7 && type <= 0xC9) /* extension: a type byte, then the body */
                body = value + 1;
            else if (sized)
                body = value;
            else if (type >= 0xDC)
                elements = value;
        }
        if (body > length - at || elements > length - at)
            return false;
        at += body;
    }
    return true;
}

int page_record_decode(const void *data, size_t data_bytes, struct page_content *content)
{
    page_content_clear(content);
    if (!record_counts_plausible(data, data_bytes))
        return -EBADMSG;
    msgpack_unpacked unpacked;
    msgpack_unpacked_init(&unpacked);
    size_t offset = 0;
    int status = -EBADMSG;
    msgpack_unpack_return got = msgpack_unpack_next(&unpacked, data, data_bytes, &offset);
    if (got == MSGPACK_UNPACK_NOMEM_ERROR)
        status = -ENOMEM;
    else if (got == MSGPACK_UNPACK_SUCCESS && offset == data_bytes)
        status = take_map(&unpacked.data, content);
    msgpack_unpacked_destroy(&unpacked);
    if (status)
        page_content_clear(content);
    return status;
}
