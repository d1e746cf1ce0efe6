/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image.ocr: the text of a picture, by Tesseract.
 *
 * Every file is opened while the operator opens. The data of one language is mapped then and becomes a model at the
 * first picture; several languages are loaded at once, because Tesseract can take only one from memory. A picture that
 * reads badly is tried again turned by 180, 90 and 270 degrees, and the best reading is kept; its record then is that
 * of the upright page, with the turn in `rotation`.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ops/operators.h"
#include "ops/page_record.h"
#include "ops/picture_work.h"
#include "ops/tesseract.h"

enum { INPUT_IMAGE, INPUT_PAGE, INPUT_DPI, INPUT_SKEW, INPUT_LOOK, INPUT_COUNT };
enum { OPTION_LANG, OPTION_DATA, OPTION_DESKEW, OPTION_BINARISE, OPTION_LOAD };
enum { OCR_SIDE_MAX = 32767, LANGUAGE_DATA_BYTES_MAX = 256 << 20, DPI_ASSUMED = 150, LANGUAGE_NAME_BYTES_MAX = 32 };

static const struct sheaf_port inputs[] = {
    {"image", SHEAF_TENSOR, 0, "u8 [height, width] gray, or [height, width, 3] RGB"},
    {"page", SHEAF_I64, 0, "page index"},
    {"dpi", SHEAF_F64, SHEAF_PORT_OPTIONAL, "pixels per inch, so that boxes are in points; absent: 72"},
    {"skew", SHEAF_F64, SHEAF_PORT_OPTIONAL, "degrees by which lines run down to the right, from image.measure"},
    {"look", SHEAF_BYTES, SHEAF_PORT_OPTIONAL, "what the page looks like, from image.measure: kept in the record"},
};
static const struct sheaf_port outputs[] = {
    {"content", SHEAF_RECORD, 0, "size, rotation and text of the page, with boxes and confidence"},
};
static const struct sheaf_option options[] = {
    {.name = "lang",
     .type = SHEAF_OPTION_TEXT,
     .fallback = {.type = SHEAF_OPTION_TEXT, .text = "eng"},
     .summary = "languages by Tesseract's names, joined by '+': eng+deu"},
    {.name = "data",
     .type = SHEAF_OPTION_TEXT,
     .fallback = {.type = SHEAF_OPTION_TEXT, .text = ""},
     .summary = "folder with .traineddata files; empty: the usual places"},
    {.name = "deskew",
     .type = SHEAF_OPTION_BOOL,
     .fallback = {.type = SHEAF_OPTION_BOOL, .boolean = 1},
     .summary = "pictures are turned by their skew before they are read; boxes are those of the straight page"},
    {.name = "binarise",
     .type = SHEAF_OPTION_TEXT,
     .fallback = {.type = SHEAF_OPTION_TEXT, .text = "none"},
     .choices = "none|otsu|sauvola",
     .summary =
         "pictures are made black and white before they are read: by one threshold, or by one that follows the light"},
    {.name = "load",
     .type = SHEAF_OPTION_BOOL,
     .fallback = {.type = SHEAF_OPTION_BOOL, .boolean = 1},
     .summary = "false: no picture will come, so that Tesseract need not be loaded; one that comes all the same fails"},
};

struct ocr_state {
    const struct sheaf_host *host;
    const struct tesseract *tesseract; /* NULL: not loaded */
    TessBaseAPI *engine;
    const void *language_data; /* mapped, of one language; NULL: several, loaded from their files */
    size_t language_bytes;
    char language[LANGUAGE_NAME_BYTES_MAX + 1];
    bool prepared; /* language_data is loaded */
    bool deskew;
    enum picture_binarise binarise;
    struct page_content readings[2]; /* the best so far and the one being made */
};

/* ---- opening ---- */

/* Whether the bytes are language data with an LSTM model: a count, offsets by kind of part (-1: none), parts. */
static int language_is_plausible(const unsigned char *data, size_t bytes)
{
    enum { PARTS_MAX = 64, PART_LSTM = 17 };
    uint32_t count = 0;
    int64_t offset;
    if (bytes >= sizeof count)
        memcpy(&count, data, sizeof count);
    if (count <= PART_LSTM || count > PARTS_MAX || bytes < sizeof count + count * sizeof offset)
        return 0;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(&offset, data + sizeof count + i * sizeof offset, sizeof offset);
        if (offset < -1 || offset >= (int64_t)bytes || (i == PART_LSTM && offset < 0))
            return 0;
    }
    return 1;
}

static int language_map(struct ocr_state *state, const char *folder, const char *language)
{
    char path[PATH_MAX + 64];
    struct stat about;
    snprintf(path, sizeof path, "%s/%s.traineddata", folder, language);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    void *data = MAP_FAILED;
    if (fstat(fd, &about) == 0 && about.st_size > 0 && about.st_size <= LANGUAGE_DATA_BYTES_MAX)
        data = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (data == MAP_FAILED)
        return -EIO;
    state->language_data = data;
    state->language_bytes = (size_t)about.st_size;
    snprintf(state->language, sizeof state->language, "%s", language);
    return language_is_plausible(data, state->language_bytes) ? 0 : -EBADMSG;
}

/* What Tesseract would otherwise open or set up at its first row. */
static void engine_settings(struct ocr_state *state)
{
    state->tesseract->TessBaseAPISetVariable(state->engine, "debug_file", "/dev/null");
    state->tesseract->TessBaseAPISetPageSegMode(state->engine, PSM_AUTO);
}

static int languages_load(struct ocr_state *state, const struct sheaf_open *opened)
{
    const char *languages = opened->options[OPTION_LANG].text, *data_path = opened->options[OPTION_DATA].text;
    char folder[PATH_MAX], first[PATH_MAX] = "";
    int count = 0, status = 0;
    for (const char *at = languages, *end = languages + strlen(languages); at <= end;) {
        size_t bytes = strcspn(at, "+");
        if (bytes == 0 || bytes > LANGUAGE_NAME_BYTES_MAX || memchr(at, '/', bytes)) {
            snprintf(opened->error, opened->error_bytes, "ocr: '%s' is not a list of languages like eng+deu",
                     languages);
            return SHEAF_E_USAGE;
        }
        status =
            tesseract_find_language(data_path, at, bytes, folder, sizeof folder, opened->error, opened->error_bytes);
        if (status < 0)
            return status;
        if (count++ == 0)
            memcpy(first, folder, sizeof first);
        at += bytes + 1; /* behind the last one, beyond the end; behind a + at the end, at nothing */
    }
    if (count == 1)
        status = language_map(state, first, languages);
    else
        status = state->tesseract->TessBaseAPIInit2(state->engine, first, languages, OEM_LSTM_ONLY);
    if (status == 0)
        return 0;
    snprintf(opened->error, opened->error_bytes,
             "ocr: the data of '%s' in %s cannot be used: damaged, or made for another version than Tesseract %s",
             languages, first, state->tesseract->TessVersion());
    return -EBADMSG;
}

/* The file for remarks is opened at the first one, which is here: later nothing can be opened. */
static void remarks_open(struct ocr_state *state)
{
    engine_settings(state);
    state->tesseract->TessBaseAPISetSourceResolution(state->engine, 1); /* without a picture: worth a remark */
}

/* The model is built from its data by the first row that needs it: it takes a tenth of a second and some 20 MB, and
 * most documents have text. */
static int engine_prepare(struct ocr_state *state)
{
    if (!state->language_data || state->prepared)
        return 0;
    int status = state->tesseract->TessBaseAPIInit5(state->engine, state->language_data, (int)state->language_bytes,
                                                    state->language, OEM_LSTM_ONLY, NULL, 0, NULL, NULL, 0, 0);
    engine_settings(state);
    state->prepared = status == 0;
    return status ? -EBADMSG : 0;
}

static void ocr_close(void *opaque)
{
    struct ocr_state *state = opaque;
    if (state->engine)
        state->tesseract->TessBaseAPIDelete(state->engine);
    if (state->language_data)
        munmap((void *)(uintptr_t)state->language_data, state->language_bytes);
    page_content_fini(&state->readings[0]);
    page_content_fini(&state->readings[1]);
    free(state);
}

static int ocr_open(const struct sheaf_open *opened, void **ret_state)
{
    struct ocr_state *state = calloc(1, sizeof *state);
    if (!state)
        return -ENOMEM;
    const char *binarise = opened->options[OPTION_BINARISE].text;
    state->host = opened->host;
    state->deskew = opened->options[OPTION_DESKEW].boolean != 0;
    state->binarise = strcmp(binarise, "otsu") == 0      ? PICTURE_OTSU
                      : strcmp(binarise, "sauvola") == 0 ? PICTURE_SAUVOLA
                                                         : PICTURE_AS_IT_IS;
    page_content_init(&state->readings[0]);
    page_content_init(&state->readings[1]);
    if (!opened->options[OPTION_LOAD].boolean) {
        *ret_state = state;
        return 0;
    }
    int status = tesseract_load(opened->error, opened->error_bytes, &state->tesseract);
    if (status == 0) {
        state->engine = state->tesseract->TessBaseAPICreate();
        if (state->engine)
            remarks_open(state);
        status = state->engine ? languages_load(state, opened) : -ENOMEM;
    }
    if (status < 0) {
        ocr_close(state);
        return status;
    }
    engine_settings(state);
    *ret_state = state;
    return 0;
}

/* ---- reading one picture ---- */

struct score {
    double weighted; /* sum of confidence times characters */
    double characters;
    double sure;      /* characters of words that are surely read */
    double facing[4]; /* characters by where the top of their text points: up, right, down, left */
};

/* What one reading is put together with. */
struct reading {
    const struct tesseract *tesseract;
    TessResultIterator *results;
    struct page_content *content;
    struct score score;
    double scale;             /* pixels to points */
    double points_per_points; /* font sizes: Tesseract's points to the page's */
    int line_open, line_words;
    double line_baseline;
};

static uint32_t characters_of(const char *text)
{
    uint32_t count = 0;
    for (; *text; text++)
        count += ((unsigned char)*text & 0xC0) != 0x80;
    return count;
}

/* Hebrew, Arabic and their neighbours by the first byte of their UTF-8. */
static int is_right_to_left(const char *text)
{
    unsigned char lead = (unsigned char)text[0];
    return lead >= 0xD6 && lead <= 0xDF;
}

static void line_end(struct reading *reading)
{
    if (reading->line_open)
        page_line_end(reading->content, (float)reading->line_baseline);
    reading->line_open = 0;
}

/* Chinese, Japanese and Korean, which may truly run downwards, by the first byte of their UTF-8. */
static int is_east_asian(const char *text)
{
    unsigned char lead = (unsigned char)text[0];
    return lead >= 0xE2 && lead <= 0xF4;
}

/* Where the top of the text of this line points: quarters clockwise from up. Tesseract takes a page on its side for one
 * written downwards; only East Asian text is. */
static int line_facing(const struct tesseract *tesseract, const TessPageIterator *layout, const char *text,
                       int *ret_is_vertical)
{
    enum { TOP_TO_BOTTOM = 2 };
    int orientation = 0, direction = 0, order;
    float deskew;
    tesseract->TessPageIteratorOrientation(layout, &orientation, &direction, &order, &deskew);
    *ret_is_vertical = direction == TOP_TO_BOTTOM && is_east_asian(text);
    return (orientation + (direction == TOP_TO_BOTTOM && !*ret_is_vertical)) & 3;
}

static void line_begin(struct reading *reading, const TessPageIterator *layout, const char *text)
{
    int x1, y1, x2, y2, is_vertical, facing = line_facing(reading->tesseract, layout, text, &is_vertical);
    reading->line_baseline = 0;
    if (reading->tesseract->TessPageIteratorBaseline(layout, RIL_TEXTLINE, &x1, &y1, &x2, &y2))
        reading->line_baseline = (facing & 1 || is_vertical ? x1 + x2 : y1 + y2) / 2.0 * reading->scale;
    else if (reading->tesseract->TessPageIteratorBoundingBox(layout, RIL_TEXTLINE, &x1, &y1, &x2, &y2))
        reading->line_baseline = y2 * reading->scale;
    uint32_t flags = is_right_to_left(text) ? PAGE_RIGHT_TO_LEFT : 0;
    flags |= (uint32_t)facing << PAGE_TURN_SHIFT | (is_vertical ? PAGE_VERTICAL : 0);
    reading->line_open = page_line_begin(reading->content, flags) == 0;
    reading->line_words = 0;
}

static float word_font_size(const struct reading *reading)
{
    int flags[6], points = 0, font;
    reading->tesseract->TessResultIteratorWordFontAttributes(reading->results, &flags[0], &flags[1], &flags[2],
                                                             &flags[3], &flags[4], &flags[5], &points, &font);
    return points > 0 && points < 1000 ? (float)(points * reading->points_per_points) : 0;
}

static void word_append(struct reading *reading, const char *text)
{
    const struct tesseract *tesseract = reading->tesseract;
    const TessPageIterator *layout = tesseract->TessResultIteratorGetPageIteratorConst(reading->results);
    int left, top, right, bottom, is_vertical;
    if (tesseract->TessPageIteratorIsAtBeginningOf(layout, RIL_TEXTLINE))
        line_end(reading);
    if (!reading->line_open)
        line_begin(reading, layout, text);
    if (!reading->line_open || !tesseract->TessPageIteratorBoundingBox(layout, RIL_WORD, &left, &top, &right, &bottom))
        return;
    struct page_box box = {(float)(left * reading->scale), (float)(top * reading->scale),
                           (float)(right * reading->scale), (float)(bottom * reading->scale)};
    uint32_t flags = reading->line_words > 0 ? PAGE_SPACE_BEFORE : 0;
    flags |= is_right_to_left(text) ? PAGE_RIGHT_TO_LEFT : 0;
    double confidence = tesseract->TessResultIteratorConfidence(reading->results, RIL_WORD);
    uint32_t characters = characters_of(text);
    if (page_span_append(reading->content, text, strlen(text), &box, word_font_size(reading), flags) < 0)
        return;
    reading->line_words++;
    reading->score.weighted += confidence * characters;
    reading->score.characters += characters;
    reading->score.facing[line_facing(tesseract, layout, text, &is_vertical)] += characters;
    reading->score.sure += confidence >= 70 && characters > 1 ? characters : 0;
}

static void words_read(struct reading *reading)
{
    const struct tesseract *tesseract = reading->tesseract;
    do {
        char *text = tesseract->TessResultIteratorGetUTF8Text(reading->results, RIL_WORD);
        if (text && text[strspn(text, " \n\t")] != 0)
            word_append(reading, text);
        if (text)
            tesseract->TessDeleteText(text);
    } while (tesseract->TessResultIteratorNext(reading->results, RIL_WORD));
    line_end(reading);
}

/* An empty page of the picture's size. */
static struct page_content *content_begin(struct page_content *content, const struct picture *picture, double dpi)
{
    page_content_clear(content);
    content->source = PAGE_SOURCE_OCR;
    content->width = (float)(picture->width * 72.0 / dpi);
    content->height = (float)(picture->height * 72.0 / dpi);
    return content;
}

/* Reads a picture as it stands into `content`. */
static struct score picture_read(struct ocr_state *state, const struct picture *picture, double dpi,
                                 struct page_content *content)
{
    const struct tesseract *tesseract = state->tesseract;
    int told_dpi = dpi >= 100 && dpi <= 2400 ? (int)(dpi + 0.5) : DPI_ASSUMED;
    struct reading reading = {
        .tesseract = tesseract, .content = content, .scale = 72.0 / dpi, .points_per_points = told_dpi / dpi};
    content_begin(content, picture, dpi);
    tesseract->TessBaseAPIClearAdaptiveClassifier(state->engine);
    tesseract->TessBaseAPISetImage(state->engine, picture->pixels, (int)picture->width, (int)picture->height,
                                   (int)picture->channels, (int)picture->row_bytes);
    tesseract->TessBaseAPISetSourceResolution(state->engine, told_dpi);
    if (tesseract->TessBaseAPIRecognize(state->engine, NULL) == 0)
        reading.results = tesseract->TessBaseAPIGetIterator(state->engine);
    if (reading.results) {
        words_read(&reading);
        tesseract->TessResultIteratorDelete(reading.results);
    }
    tesseract->TessBaseAPIClear(state->engine);
    if (reading.score.characters > 0)
        content->confidence = (float)(reading.score.weighted / reading.score.characters);
    return reading.score;
}

/* The picture turned clockwise by `quarters`, tightly packed in `out`. */
static struct picture picture_turn(const struct picture *picture, int quarters, uint8_t *out)
{
    uint32_t channels = picture->channels, width = picture->width, height = picture->height;
    struct picture turned = {.pixels = out,
                             .width = quarters & 1 ? height : width,
                             .height = quarters & 1 ? width : height,
                             .channels = channels};
    turned.row_bytes = (size_t)turned.width * channels;
    for (uint32_t y = 0; y < turned.height; y++) {
        for (uint32_t x = 0; x < turned.width; x++, out += channels) {
            uint32_t from_x = quarters == 1 ? y : quarters == 2 ? width - 1 - x : width - 1 - y;
            uint32_t from_y = quarters == 1 ? height - 1 - x : quarters == 2 ? height - 1 - y : x;
            const uint8_t *from = picture->pixels + from_y * picture->row_bytes + (size_t)from_x * channels;
            for (uint32_t c = 0; c < channels; c++)
                out[c] = from[c];
        }
    }
    return turned;
}

/* A box of a page of this size turned clockwise by `quarters`. */
static struct page_box box_turn(const struct page_box *box, float width, float height, int quarters)
{
    switch (quarters) {
    case 1:
        return (struct page_box){height - box->y1, box->x0, height - box->y0, box->x1};
    case 2:
        return (struct page_box){width - box->x1, height - box->y1, width - box->x0, height - box->y0};
    default:
        return (struct page_box){box->y0, width - box->x1, box->y1, width - box->x0};
    }
}

/* Turns what was read clockwise: Tesseract reads lines that run up or down the page as well as others, and so they need
 * not be read again to become those of an upright page. */
static void content_turn(struct page_content *content, int quarters)
{
    float width = content->width, height = content->height;
    if (quarters == 0)
        return;
    for (uint32_t i = 0; i < content->span_count; i++)
        content->spans[i].box = box_turn(&content->spans[i].box, width, height, quarters);
    for (uint32_t i = 0; i < content->line_count; i++) {
        struct page_line *line = &content->lines[i];
        uint32_t facing = line->flags >> PAGE_TURN_SHIFT & 3;
        int is_y = !(facing & 1) && !(line->flags & PAGE_VERTICAL);
        line->box = box_turn(&line->box, width, height, quarters);
        if (is_y ? quarters != 3 : quarters != 1)
            line->baseline = (is_y ? height : width) - line->baseline;
        line->flags &= ~(3u << PAGE_TURN_SHIFT);
        line->flags |= ((facing + (uint32_t)quarters) & 3) << PAGE_TURN_SHIFT;
    }
    content->rotation = (content->rotation + (uint32_t)quarters * 90) % 360;
    content->width = quarters & 1 ? height : width;
    content->height = quarters & 1 ? width : height;
}

/* The readings of one picture: the best so far, and where the next one goes. */
struct readings {
    struct ocr_state *state;
    const struct picture *picture;
    double dpi;
    uint8_t *turned_pixels; /* as large as the picture */
    struct page_content *best, *next;
    struct score score;
};

/* Reads the picture turned by `quarters`; keeps it when more than `enough` characters are surely read. */
static void turned_read(struct readings *readings, int quarters, double enough)
{
    if (quarters != 0 && !readings->turned_pixels)
        readings->turned_pixels =
            malloc((size_t)readings->picture->width * readings->picture->height * readings->picture->channels);
    if (quarters != 0 && !readings->turned_pixels)
        return;
    struct picture turned = *readings->picture;
    if (quarters != 0)
        turned = picture_turn(readings->picture, quarters, readings->turned_pixels);
    struct score score = picture_read(readings->state, &turned, readings->dpi, readings->next);
    if (score.sure <= enough)
        return;
    struct page_content *swap = readings->best;
    readings->best = readings->next;
    readings->next = swap;
    readings->score = score;
    readings->best->rotation = (uint32_t)quarters * 90;
}

static int reads_well(const struct readings *readings)
{
    enum { GOOD_CONFIDENCE = 70 };
    return readings->best->confidence >= GOOD_CONFIDENCE && readings->score.sure * 2 > readings->score.characters;
}

/* The middle of a picture, with sides of at most `side` pixels. */
static struct picture picture_middle(const struct picture *picture, uint32_t side)
{
    struct picture middle = *picture;
    middle.width = middle.width < side ? middle.width : side;
    middle.height = middle.height < side ? middle.height : side;
    middle.pixels += (picture->height - middle.height) / 2 * picture->row_bytes;
    middle.pixels += (size_t)((picture->width - middle.width) / 2) * picture->channels;
    return middle;
}

/*
 * Looks for the turn in which a badly read picture reads best, by its middle when it is full of text: some twenty lines
 * say enough, and four trials together cost less than one more reading. The two in which its lines run across come
 * first. When a turn is clearly better, the whole picture is read that way. Trials pass over text in white on black,
 * which badly read text is always tried as.
 */
static void turn_find(struct readings *readings, int facing, const struct sheaf_row *row)
{
    enum { TRIAL_SIDE = 1100, WHOLE_CHARACTERS = 400 };
    static const int turns[] = {0, 2, 1, 3};
    struct ocr_state *state = readings->state;
    struct picture middle = *readings->picture;
    if (readings->score.characters > WHOLE_CHARACTERS)
        middle = picture_middle(readings->picture, TRIAL_SIDE);
    struct readings trial = {.state = state, .picture = &middle, .dpi = readings->dpi, .best = readings->next};
    struct page_content spare;
    page_content_init(&spare);
    content_begin(trial.best, &middle, trial.dpi);
    trial.next = &spare;
    state->tesseract->TessBaseAPISetVariable(state->engine, "tessedit_do_invert", "0");
    for (int i = 0; i < 4 && !reads_well(&trial) && !state->host->cancelled(row); i++)
        turned_read(&trial, (turns[i] + 4 - facing) & 3, i > 0 ? trial.score.sure * 1.5 + 8 : -1);
    state->tesseract->TessBaseAPISetVariable(state->engine, "tessedit_do_invert", "1");
    int quarters = (int)trial.best->rotation / 90;
    free(trial.turned_pixels);
    page_content_fini(&spare);
    if (quarters != 0)
        turned_read(readings, quarters, readings->score.sure * 1.2 + 4);
}

/* Where the top of most of the text points. */
static int score_facing(const struct score *score)
{
    int facing = 0;
    for (int i = 1; i < 4; i++)
        facing = score->facing[i] > score->facing[facing] ? i : facing;
    return facing;
}

/* In a pipeline with image.measure blank pages do not come here; this is for those without. */
static bool picture_is_blank_to_reader(const struct picture *picture)
{
    struct picture gray;
    uint8_t *memory;
    if (picture_gray(picture, &gray, &memory) < 0)
        return false;
    bool is_blank = picture_is_blank(&gray);
    free(memory);
    return is_blank;
}

/* The best reading, upright and with its `rotation` set; one of the state's. */
static struct page_content *picture_read_upright(struct ocr_state *state, const struct sheaf_row *row,
                                                 const struct picture *picture, double dpi)
{
    struct readings readings = {
        .state = state, .picture = picture, .dpi = dpi, .best = &state->readings[0], .next = &state->readings[1]};
    if (picture_is_blank_to_reader(picture))
        return content_begin(readings.best, picture, dpi);
    readings.score = picture_read(state, picture, dpi, readings.best);
    if (!reads_well(&readings))
        turn_find(&readings, score_facing(&readings.score), row);
    content_turn(readings.best, (4 - score_facing(&readings.score)) & 3);
    free(readings.turned_pixels);
    return readings.best;
}

/* ---- the row ---- */

/* A picture as it is read, and the memory of what was made on the way. */
struct prepared {
    struct picture picture;
    uint8_t *memory[3];
    double skew; /* degrees it was turned by */
};

static void prepared_free(struct prepared *prepared)
{
    for (int i = 0; i < 3; i++)
        free(prepared->memory[i]);
}

static double row_f64(const struct sheaf_row *row, uint32_t input, double otherwise)
{
    return row->input_count > input && row->inputs[input].kind == SHEAF_F64 ? row->inputs[input].f64 : otherwise;
}

/* Straight and black and white, as far as that is asked for. */
static int picture_prepare(const struct ocr_state *state, const struct sheaf_row *row, double dpi,
                           struct prepared *prepared)
{
    double skew = state->deskew ? row_f64(row, INPUT_SKEW, 0) : 0;
    bool is_skewed = skew != 0 && skew > -45 && skew < 45;
    int status = 0;
    if (!is_skewed && state->binarise == PICTURE_AS_IT_IS)
        return 0;
    status = picture_gray(&prepared->picture, &prepared->picture, &prepared->memory[0]);
    if (status == 0 && is_skewed) {
        int32_t slope = (int32_t)lround(tan(skew * M_PI / 180) * 65536);
        status = picture_straighten(&prepared->picture, slope, &prepared->picture, &prepared->memory[1]);
        prepared->skew = skew;
    }
    if (status == 0 && state->binarise != PICTURE_AS_IT_IS)
        status =
            picture_black_and_white(&prepared->picture, state->binarise, dpi, &prepared->picture, &prepared->memory[2]);
    return status;
}

static int picture_fail(const struct ocr_state *state, const struct sheaf_row *row, int status)
{
    return state->host->fail(row, SHEAF_SCOPE_ITEM,
                             status == -ERANGE ? SHEAF_CLASS_TOO_LARGE : SHEAF_CLASS_RESOURCE_EXHAUSTED,
                             status == -ERANGE ? "the picture is too large to be straightened or made black and white"
                                               : "no memory to straighten the picture or make it black and white");
}

static int content_answer(const struct ocr_state *state, const struct sheaf_row *row,
                          const struct page_content *content)
{
    size_t bytes = page_record_bound(content);
    void *record = state->host->alloc(row, bytes);
    if (!record)
        return state->host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_RESOURCE_EXHAUSTED,
                                 "no memory for %zu bytes of text", bytes);
    int status = page_record_encode(content, record, bytes, &bytes);
    if (status < 0)
        return status;
    struct sheaf_value value = {.kind = SHEAF_RECORD, .data = record, .length_bytes = bytes};
    return state->host->answer(row, &value, 1);
}

static void content_look(struct page_content *content, const struct sheaf_row *row)
{
    const struct sheaf_value *look = row->input_count > INPUT_LOOK ? &row->inputs[INPUT_LOOK] : NULL;
    if (!look || look->kind != SHEAF_BYTES || look->length_bytes != sizeof content->look)
        return;
    const uint8_t *bytes = look->data;
    for (unsigned i = 0; i < sizeof content->look; i++)
        content->look[i / 8] |= (uint64_t)bytes[i] << (i % 8 * 8);
    content->has_look = 1;
}

static int ocr_run(void *opaque, const struct sheaf_row *row, char *message)
{
    struct ocr_state *state = opaque;
    struct prepared prepared = {0};
    double dpi = row_f64(row, INPUT_DPI, 72);
    if (!state->tesseract)
        return state->host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_UNSUPPORTED,
                                 "Tesseract is not loaded: the option `load` is false");
    if (picture_of_value(&row->inputs[INPUT_IMAGE], OCR_SIDE_MAX, &prepared.picture) < 0 || !(dpi >= 1 && dpi <= 10000))
        return state->host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_UNSUPPORTED,
                                 "not a picture of u8 [h, w] or [h, w, 3] with sides of at most %d pixels",
                                 OCR_SIDE_MAX);
    if (engine_prepare(state) < 0) {
        snprintf(message, 512, "the data of language '%s' cannot be used by Tesseract %s", state->language,
                 state->tesseract->TessVersion());
        return -EBADMSG;
    }
    int status = picture_prepare(state, row, dpi, &prepared);
    if (status < 0) {
        prepared_free(&prepared);
        return picture_fail(state, row, status);
    }
    struct page_content *content = picture_read_upright(state, row, &prepared.picture, dpi);
    content->number = (uint32_t)row->inputs[INPUT_PAGE].i64 + 1;
    content->skew = (float)prepared.skew;
    content_look(content, row);
    prepared_free(&prepared);
    return content_answer(state, row, content);
}

static uint64_t ocr_estimate(const struct sheaf_option_value *values, const struct sheaf_value *row, uint32_t count)
{
    return 64 * 1024;
}

const struct sheaf_operator operator_image_ocr = {
    .size = sizeof(struct sheaf_operator),
    .name = "image.ocr",
    .version = "2",
    .summary = "reads the text of a picture with Tesseract",
    .inputs = inputs,
    .outputs = outputs,
    .options = options,
    .input_count = INPUT_COUNT,
    .output_count = 1,
    .option_count = sizeof options / sizeof options[0],
    .widest_failure = SHEAF_SCOPE_ITEM,
    .timeout_ms = 120000,
    .open = ocr_open,
    .close = ocr_close,
    .run = ocr_run,
    .estimate = ocr_estimate,
};
