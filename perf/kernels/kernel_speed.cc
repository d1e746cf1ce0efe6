// SPDX-License-Identifier: Apache-2.0
/*
 * kernel_speed [--rounds N] [--seconds S] [--loops SET] [--avx2] [--judge] [NAME...]: the kernels of the host beside
 * OpenCV, libswscale, libyuv and Leptonica, as Debian has them, on one core.
 *
 * In each round all sides of a case run one after the other, in an order that changes from round to round, each for at
 * least S of CPU time; a ratio is between two sides of one round, and what is printed is the median of the rounds with
 * the lowest and the highest. NAME picks cases whose name begins so. --loops: ours for this instruction set
 * (x86-64-v3, ...); the libraries use what they find. --avx2: nobody uses more than AVX2; Leptonica, which has no
 * vectors, cannot be told, nor need be. --judge: exit 1 where the best of OpenCV, libswscale and Leptonica, or libyuv
 * if it gives the same bytes, has a median below 0.8 of ours.
 */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <unistd.h>
#include <vector>

#include <leptonica/allheaders.h>
#include <libyuv.h>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
extern "C" {
#include <libavutil/cpu.h>
#include <libswscale/swscale.h>
}

extern "C" {
#include "kernels/rows.h"
}

using body = std::function<void()>;

struct side {
    std::string name;
    body run;
};

struct options {
    int rounds = 7;
    double seconds = 0.02;
    bool judge = false;
    std::vector<std::string> names;
};

static options settings;
static int below;

static double cpu_seconds()
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Seconds a call, over at least settings.seconds. */
static double measure(const body &run)
{
    long calls = 0;
    double began = cpu_seconds(), spent;
    do {
        run();
        calls++;
        spent = cpu_seconds() - began;
    } while (spent < settings.seconds);
    return spent / (double)calls;
}

static double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

static bool is_wanted(const std::string &name)
{
    for (const std::string &prefix : settings.names)
        if (name.compare(0, prefix.size(), prefix) == 0)
            return true;
    return settings.names.empty();
}

struct ratio {
    double middle, low, high;
};

static ratio ratio_of(const std::vector<double> &ours, const std::vector<double> &theirs)
{
    std::vector<double> ratios;
    for (size_t round = 0; round < ours.size(); round++)
        ratios.push_back(theirs[round] / ours[round]);
    return {median(ratios), *std::min_element(ratios.begin(), ratios.end()),
            *std::max_element(ratios.begin(), ratios.end())};
}

static void print_ratio(const std::string &name, const std::vector<double> &ours, const std::vector<double> &theirs)
{
    ratio of = ratio_of(ours, theirs);
    printf(" %s%.3f | %.2f (%.2f to %.2f)%s |", name.c_str(), 1e3 * median(theirs), of.middle, of.low, of.high,
           of.middle < 1 ? " behind" : "");
}

/* The most by which two results differ. */
static int difference_of(const cv::Mat &a, const cv::Mat &b)
{
    int most = 0;
    for (int y = 0; y < a.rows; y++)
        for (size_t x = 0; x < a.cols * a.elemSize(); x++)
            most = std::max(most, std::abs(a.ptr(y)[x] - b.ptr(y)[x]));
    return most;
}

struct timing {
    std::string name;
    std::vector<double> seconds; /* a round */
    int difference;              /* to ours; only of libyuv */
};

/* The best of OpenCV, libswscale and Leptonica, which is judged; and libyuv, which often computes with fewer bits and
 * is judged where it does not. */
static void print_case(const std::string &name, const std::vector<timing> &sides)
{
    const timing &ours = sides[0], *best = NULL, *yuv = NULL;
    for (size_t i = 1; i < sides.size(); i++)
        if (sides[i].name == "libyuv")
            yuv = &sides[i];
        else if (!best || median(sides[i].seconds) < median(best->seconds))
            best = &sides[i];
    printf("| %s | %.3f |", name.c_str(), 1e3 * median(ours.seconds));
    if (best)
        print_ratio(best->name + " ", ours.seconds, best->seconds);
    else
        printf(" | |");
    if (yuv) {
        print_ratio("", ours.seconds, yuv->seconds);
        printf(" %d |\n", yuv->difference);
    } else {
        printf(" | | |\n");
    }
    fflush(stdout);
    below += best && ratio_of(ours.seconds, best->seconds).middle < 0.8;
    below += yuv && yuv->difference == 0 && ratio_of(ours.seconds, yuv->seconds).middle < 0.8;
}

/* `result`: where ours and libyuv write. */
static void run_case(const std::string &name, const body &ours, const std::vector<side> &others,
                     const cv::Mat &result = {})
{
    if (!is_wanted(name))
        return;
    std::vector<body> sides = {ours};
    std::vector<timing> times = {{"ours", {}, 0}};
    ours(); /* memory is touched, tables are made */
    const cv::Mat made = result.clone();
    for (const side &other : others) {
        sides.push_back(other.run);
        other.run();
        times.push_back({other.name, {}, other.name == "libyuv" ? difference_of(made, result) : 0});
    }
    for (int round = 0; round < settings.rounds; round++)
        for (size_t i = 0; i < sides.size(); i++) {
            size_t at = (i + (size_t)round) % sides.size();
            at = round % 2 ? sides.size() - 1 - at
                           : at; /* so that nobody always finds the caches as another leaves them */
            times[at].seconds.push_back(measure(sides[at]));
        }
    print_case(name, times);
}

/* ---- pictures: a page of text as scanners make them, with noise ---- */

static uint32_t noise_state = 1;

static uint8_t noise()
{
    noise_state = noise_state * 1664525 + 1013904223;
    return (uint8_t)(noise_state >> 24);
}

static cv::Mat picture(int width, int height, int channels)
{
    cv::Mat image(height, width, CV_8UC(channels));
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width * channels; x++) {
            bool is_ink = y % 48 < 24 && x / channels * 7919 / 64 % 5 != 0 && x / channels % 11 < 5;
            image.ptr(y)[x] = (uint8_t)((is_ink ? 30 : 220) + noise() % 30);
        }
    return image;
}

static struct sheaf_image ours_of(cv::Mat &image, uint32_t format)
{
    struct sheaf_image out = {};
    out.width = (uint32_t)image.cols;
    out.height = (uint32_t)(format == SHEAF_IMAGE_NV12 ? image.rows * 2 / 3 : image.rows);
    out.format = format;
    out.stride_bytes = image.step[0];
    out.chroma_offset = format == SHEAF_IMAGE_NV12 ? out.stride_bytes * out.height : 0;
    out.size_bytes = image.step[0] * (size_t)image.rows;
    out.data = image.data;
    return out;
}

static PIX *pix_of(const cv::Mat &image)
{
    PIX *pix = pixCreate(image.cols, image.rows, 8);
    for (int y = 0; y < image.rows; y++)
        for (int x = 0; x < image.cols; x++)
            pixSetPixel(pix, (l_uint32)x, (l_uint32)y, image.at<uint8_t>(y, x));
    return pix;
}

static std::string sized(const std::string &name, int width, int height)
{
    return name + " " + std::to_string(width) + "x" + std::to_string(height);
}

/* ---- colours ---- */

static body convert(cv::Mat &from, uint32_t from_format, cv::Mat &to, uint32_t to_format)
{
    struct sheaf_image in = ours_of(from, from_format), out = ours_of(to, to_format);
    return [in, out] {
        if (sheaf_kernel_convert(&in, &out) != 0)
            abort();
    };
}

static side swscale(int width, int height, enum AVPixelFormat from, std::vector<const uint8_t *> in,
                    std::vector<int> in_stride, enum AVPixelFormat to, std::vector<uint8_t *> out,
                    std::vector<int> out_stride)
{
    SwsContext *context = sws_getContext(width, height, from, width, height, to, SWS_POINT, NULL, NULL, NULL);
    in.resize(4);
    out.resize(4);
    in_stride.resize(4);
    out_stride.resize(4);
    return {"libswscale",
            [=] { sws_scale(context, in.data(), in_stride.data(), 0, height, out.data(), out_stride.data()); }};
}

static void colours_to_gray(int w, int h)
{
    cv::Mat rgb = picture(w, h, 3), bgra = picture(w, h, 4), gray(h, w, CV_8UC1);
    run_case(sized("RGB to gray", w, h), convert(rgb, SHEAF_IMAGE_RGB, gray, SHEAF_IMAGE_GRAY),
             {{"OpenCV", [&] { cv::cvtColor(rgb, gray, cv::COLOR_RGB2GRAY); }},
              swscale(w, h, AV_PIX_FMT_RGB24, {rgb.data}, {w * 3}, AV_PIX_FMT_GRAY8, {gray.data}, {w})});
    run_case(sized("BGRA to gray", w, h), convert(bgra, SHEAF_IMAGE_BGRA, gray, SHEAF_IMAGE_GRAY),
             {{"OpenCV", [&] { cv::cvtColor(bgra, gray, cv::COLOR_BGRA2GRAY); }},
              {"libyuv", [&] { libyuv::ARGBToJ400(bgra.data, w * 4, gray.data, w, w, h); }}},
             gray);
}

static void colours_shuffled(int w, int h)
{
    cv::Mat rgb = picture(w, h, 3), bgra = picture(w, h, 4), gray = picture(w, h, 1);
    run_case(sized("BGRA to RGB", w, h), convert(bgra, SHEAF_IMAGE_BGRA, rgb, SHEAF_IMAGE_RGB),
             {{"OpenCV", [&] { cv::cvtColor(bgra, rgb, cv::COLOR_BGRA2RGB); }},
              {"libyuv", [&] { libyuv::ARGBToRAW(bgra.data, w * 4, rgb.data, w * 3, w, h); }}},
             rgb);
    run_case(sized("RGB to BGRA", w, h), convert(rgb, SHEAF_IMAGE_RGB, bgra, SHEAF_IMAGE_BGRA),
             {{"OpenCV", [&] { cv::cvtColor(rgb, bgra, cv::COLOR_RGB2BGRA); }},
              {"libyuv", [&] { libyuv::RAWToARGB(rgb.data, w * 3, bgra.data, w * 4, w, h); }}},
             bgra);
    run_case(sized("gray to RGB", w, h), convert(gray, SHEAF_IMAGE_GRAY, rgb, SHEAF_IMAGE_RGB),
             {{"OpenCV", [&] { cv::cvtColor(gray, rgb, cv::COLOR_GRAY2RGB); }}});
}

static void colours_nv12(int w, int h)
{
    cv::Mat nv12 = picture(w, h * 3 / 2, 1), rgb = picture(w, h, 3), bgra = picture(w, h, 4), made = nv12.clone();
    uint8_t *y = nv12.data, *uv = y + w * h, *to_y = made.data, *to_uv = to_y + w * h;
    run_case(sized("NV12 to RGB", w, h), convert(nv12, SHEAF_IMAGE_NV12, rgb, SHEAF_IMAGE_RGB),
             {{"OpenCV", [&] { cv::cvtColor(nv12, rgb, cv::COLOR_YUV2RGB_NV12); }},
              {"libyuv", [=] { libyuv::NV12ToRAW(y, w, uv, w, rgb.data, w * 3, w, h); }},
              swscale(w, h, AV_PIX_FMT_NV12, {y, uv}, {w, w}, AV_PIX_FMT_RGB24, {rgb.data}, {w * 3})},
             rgb);
    run_case(sized("NV12 to BGRA", w, h), convert(nv12, SHEAF_IMAGE_NV12, bgra, SHEAF_IMAGE_BGRA),
             {{"OpenCV", [&] { cv::cvtColor(nv12, bgra, cv::COLOR_YUV2BGRA_NV12); }},
              {"libyuv", [=] { libyuv::NV12ToARGB(y, w, uv, w, bgra.data, w * 4, w, h); }}},
             bgra);
    run_case(sized("BGRA to NV12", w, h), convert(bgra, SHEAF_IMAGE_BGRA, made, SHEAF_IMAGE_NV12),
             {{"libyuv", [=] { libyuv::ARGBToNV12(bgra.data, w * 4, to_y, w, to_uv, w, w, h); }},
              swscale(w, h, AV_PIX_FMT_BGRA, {bgra.data}, {w * 4}, AV_PIX_FMT_NV12, {to_y, to_uv}, {w, w})},
             made);
    run_case(sized("RGB to NV12", w, h), convert(rgb, SHEAF_IMAGE_RGB, made, SHEAF_IMAGE_NV12),
             {swscale(w, h, AV_PIX_FMT_RGB24, {rgb.data}, {w * 3}, AV_PIX_FMT_NV12, {to_y, to_uv}, {w, w})});
}

/* ---- resizing ---- */

static void resize_one(int w, int h, int to_w, int to_h, int channels, uint32_t filter)
{
    cv::Mat from = picture(w, h, channels), to(to_h, to_w, CV_8UC(channels));
    uint32_t format = channels == 1 ? SHEAF_IMAGE_GRAY : channels == 3 ? SHEAF_IMAGE_RGB : SHEAF_IMAGE_BGRA;
    struct sheaf_image in = ours_of(from, format), out = ours_of(to, format);
    std::string name = std::string(filter == SHEAF_FILTER_AREA ? "area " : "bilinear ") + (channels == 1   ? "gray"
                                                                                           : channels == 3 ? "RGB"
                                                                                                           : "BGRA");
    int how = filter == SHEAF_FILTER_AREA ? cv::INTER_AREA : cv::INTER_LINEAR;
    std::vector<side> others = {{"OpenCV", [&] { cv::resize(from, to, to.size(), 0, 0, how); }}};
    /* Its box filter counts whole pixels only, of four channels only pairs of them; else it is another filter. */
    bool is_whole = w % to_w == 0 && h % to_h == 0 && (channels == 1 || w == 2 * to_w);
    bool is_like = filter == SHEAF_FILTER_BILINEAR || is_whole;
    libyuv::FilterMode mode = filter == SHEAF_FILTER_AREA ? libyuv::kFilterBox : libyuv::kFilterBilinear;
    if (channels == 1 && is_like)
        others.push_back(
            {"libyuv", [&, mode] { libyuv::ScalePlane(from.data, w, w, h, to.data, to_w, to_w, to_h, mode); }});
    if (channels == 4 && is_like)
        others.push_back(
            {"libyuv", [&, mode] { libyuv::ARGBScale(from.data, 4 * w, w, h, to.data, 4 * to_w, to_w, to_h, mode); }});
    PIX *pix = channels == 1 && filter == SHEAF_FILTER_AREA && to_w < w ? pix_of(from) : NULL;
    if (pix)
        others.push_back({"Leptonica", [=] {
                              PIX *scaled = pixScaleAreaMap(pix, (float)to_w / (float)w, (float)to_h / (float)h);
                              pixDestroy(&scaled);
                          }});
    run_case(
        sized(sized(name, w, h) + " to", to_w, to_h), [=] { sheaf_kernel_resize(&in, &out, filter); }, others, to);
    pixDestroy(&pix);
}

static void resize_all()
{
    static const int sizes[][4] = {{1920, 1080, 640, 360},   {1920, 1080, 960, 540},   {1920, 1080, 1280, 720},
                                   {1920, 1080, 224, 224},   {640, 480, 1280, 960},    {640, 480, 224, 224},
                                   {3840, 2160, 1920, 1080}, {2480, 3508, 1240, 1754}, {2480, 3508, 800, 1132}};
    for (uint32_t filter = 0; filter < 2; filter++)
        for (const auto &s : sizes)
            for (int channels : {1, 3, 4})
                if (filter == SHEAF_FILTER_BILINEAR || s[2] < s[0])
                    resize_one(s[0], s[1], s[2], s[3], channels, filter);
}

static void turning(int w, int h)
{
    cv::Mat from = picture(w, h, 1), to(h, w, CV_8UC1);
    struct sheaf_image in = ours_of(from, SHEAF_IMAGE_GRAY), out = ours_of(to, SHEAF_IMAGE_GRAY);
    cv::Mat matrix = cv::getRotationMatrix2D(cv::Point2f((float)w / 2, (float)h / 2), 1.5, 1);
    PIX *pix = pix_of(from);
    run_case(
        sized("rotate gray", w, h), [=] { sheaf_kernel_rotate(&in, &out, 1716, 255); },
        {{"OpenCV", [&] { cv::warpAffine(from, to, matrix, to.size(), cv::INTER_LINEAR, cv::BORDER_CONSTANT, 255); }},
         {"Leptonica", [=] {
              PIX *turned = pixRotateAMGray(pix, 0.02618f, 255);
              pixDestroy(&turned);
          }}});
    pixDestroy(&pix);
}

/* ---- tensors: one pass against several ---- */

static void planes_of(const cv::Mat &rgb, cv::Mat &floats, float *out)
{
    rgb.convertTo(floats, CV_32FC3, 1 / 58.0, -2.0);
    std::vector<cv::Mat> planes;
    for (int c = 0; c < 3; c++)
        planes.emplace_back(rgb.rows, rgb.cols, CV_32FC1, out + (size_t)c * (size_t)rgb.total());
    cv::split(floats, planes);
}

static struct sheaf_normalise normalise_of(uint32_t filter, uint32_t letterbox, uint32_t dtype)
{
    struct sheaf_normalise how = {};
    for (int c = 0; c < 3; c++) {
        how.by[c] = 1 / 58.0f;
        how.bias[c] = -2;
        how.fill[c] = 114;
    }
    how.dtype = dtype;
    how.filter = filter;
    how.letterbox = letterbox;
    return how;
}

static void tensor_one(const char *name, cv::Mat &from, uint32_t format, int w, int h, bool letterbox)
{
    struct sheaf_image in = ours_of(from, format);
    struct sheaf_normalise how = normalise_of(SHEAF_FILTER_BILINEAR, letterbox, SHEAF_FLOAT32);
    std::vector<float> ours(3 * (size_t)w * (size_t)h), theirs(ours.size());
    struct sheaf_rectangle place = {0, 0, (uint32_t)w, (uint32_t)h};
    if (letterbox)
        sheaf_letterbox(in.width, in.height, (uint32_t)w, (uint32_t)h, &place);
    cv::Mat rgb, scaled, boxed, floats;
    auto several = [&] {
        if (format == SHEAF_IMAGE_NV12)
            cv::cvtColor(from, rgb, cv::COLOR_YUV2RGB_NV12);
        cv::resize(format == SHEAF_IMAGE_NV12 ? rgb : from, scaled, cv::Size((int)place.width, (int)place.height), 0, 0,
                   cv::INTER_LINEAR);
        int right = w - (int)(place.x + place.width), bottom = h - (int)(place.y + place.height);
        if (letterbox)
            cv::copyMakeBorder(scaled, boxed, (int)place.y, bottom, (int)place.x, right, cv::BORDER_CONSTANT,
                               cv::Scalar(114, 114, 114));
        planes_of(letterbox ? boxed : scaled, floats, theirs.data());
    };
    run_case(
        sized(sized(name, (int)in.width, (int)in.height) + " to", w, h),
        [&] { sheaf_kernel_tensor(&in, (uint32_t)w, (uint32_t)h, &how, ours.data(), ours.size() * sizeof(float)); },
        {{"OpenCV", several}});
}

static void tensors()
{
    cv::Mat hd = picture(1920, 1080, 3), vga = picture(640, 480, 3), square = picture(224, 224, 3);
    cv::Mat hd_nv12 = picture(1920, 1620, 1), uhd_nv12 = picture(3840, 3240, 1);
    tensor_one("CHW of RGB", square, SHEAF_IMAGE_RGB, 224, 224, false);
    tensor_one("CHW of RGB", vga, SHEAF_IMAGE_RGB, 224, 224, false);
    tensor_one("CHW of RGB", hd, SHEAF_IMAGE_RGB, 224, 224, false);
    tensor_one("CHW of RGB", hd, SHEAF_IMAGE_RGB, 640, 360, false);
    tensor_one("CHW letterbox of RGB", hd, SHEAF_IMAGE_RGB, 640, 640, true);
    tensor_one("CHW of NV12", hd_nv12, SHEAF_IMAGE_NV12, 224, 224, false);
    tensor_one("CHW of NV12", hd_nv12, SHEAF_IMAGE_NV12, 640, 360, false);
    tensor_one("CHW letterbox of NV12", hd_nv12, SHEAF_IMAGE_NV12, 640, 640, true);
    tensor_one("CHW of NV12", uhd_nv12, SHEAF_IMAGE_NV12, 640, 360, false);
}

/* ---- pages ---- */

static void black_and_white(int w, int h)
{
    cv::Mat from = picture(w, h, 1), to(h, w, CV_8UC1), histogram;
    struct sheaf_image in = ours_of(from, SHEAF_IMAGE_GRAY), out = ours_of(to, SHEAF_IMAGE_GRAY);
    PIX *pix = pix_of(from);
    uint32_t counts[256];
    const int channel = 0, bins = 256;
    const float range[] = {0, 256}, *ranges = range;
    run_case(sized("histogram", w, h), [&] { sheaf_kernel_histogram(&in, counts); },
             {{"OpenCV", [&] { cv::calcHist(&from, 1, &channel, cv::Mat(), histogram, 1, &bins, &ranges); }},
              {"Leptonica", [=] {
                   NUMA *numa = pixGetGrayHistogram(pix, 1);
                   numaDestroy(&numa);
               }}});
    run_case(sized("Otsu", w, h), [=] { sheaf_kernel_otsu(&in, &out, NULL); },
             {{"OpenCV", [&] { cv::threshold(from, to, 0, 255, cv::THRESH_BINARY | cv::THRESH_OTSU); }}});
    run_case(sized("Sauvola radius 12", w, h), [=] { sheaf_kernel_sauvola(&in, &out, 12, 87); },
             {{"Leptonica", [=] {
                   PIX *binary = NULL;
                   pixSauvolaBinarize(pix, 12, 0.34f, 1, NULL, NULL, NULL, &binary);
                   pixDestroy(&binary);
               }}});
    struct sheaf_skew skew;
    run_case(sized("skew", w, h), [&] { sheaf_kernel_skew(&in, 127, 8043, &skew); },
             {{"Leptonica", [=] {
                   PIX *binary = pixThresholdToBinary(pix, 128);
                   l_float32 angle, confidence;
                   pixFindSkew(binary, &angle, &confidence);
                   pixDestroy(&binary);
               }}});
    pixDestroy(&pix);
}

static void measures(int w, int h)
{
    cv::Mat from = picture(w, h, 1), other = picture(w, h, 1), edges, small, mean, deviation;
    struct sheaf_image in = ours_of(from, SHEAF_IMAGE_GRAY), in_2 = ours_of(other, SHEAF_IMAGE_GRAY);
    struct sheaf_sharpness sharpness;
    struct sheaf_ssim ssim;
    uint64_t hash;
    run_case(sized("Laplacian variance", w, h), [&] { sheaf_kernel_sharpness(&in, &sharpness); },
             {{"OpenCV", [&] {
                   cv::Laplacian(from, edges, CV_16S, 1);
                   cv::meanStdDev(edges, mean, deviation);
               }}});
    run_case(sized("dHash", w, h), [&] { sheaf_kernel_dhash(&in, &hash); },
             {{"OpenCV", [&] { cv::resize(from, small, cv::Size(9, 8), 0, 0, cv::INTER_AREA); }}});
    run_case(sized("pHash", w, h), [&] { sheaf_kernel_phash(&in, &hash); },
             {{"OpenCV", [&] {
                   cv::resize(from, small, cv::Size(32, 32), 0, 0, cv::INTER_AREA);
                   cv::Mat floats, coefficients;
                   small.convertTo(floats, CV_32F);
                   cv::dct(floats, coefficients);
               }}});
    /* The same windows, by box filters in float: what a person writes who has OpenCV's imgproc. */
    run_case(sized("SSIM", w, h), [&] { sheaf_kernel_ssim(&in, &in_2, &ssim); },
             {{"OpenCV", [&] {
                   cv::Mat a, b, ma, mb, aa, bb, ab;
                   from.convertTo(a, CV_32F);
                   other.convertTo(b, CV_32F);
                   cv::boxFilter(a, ma, CV_32F, cv::Size(8, 8));
                   cv::boxFilter(b, mb, CV_32F, cv::Size(8, 8));
                   cv::boxFilter(a.mul(a), aa, CV_32F, cv::Size(8, 8));
                   cv::boxFilter(b.mul(b), bb, CV_32F, cv::Size(8, 8));
                   cv::boxFilter(a.mul(b), ab, CV_32F, cv::Size(8, 8));
                   cv::Mat mamb = ma.mul(mb), squares = ma.mul(ma) + mb.mul(mb);
                   cv::Mat above = (2 * mamb + 6.5025).mul(2 * (ab - mamb) + 58.5225), ratio;
                   cv::divide(above, (squares + 6.5025).mul(aa + bb - squares + 58.5225), ratio);
                   mean = cv::mean(ratio)[0];
               }}});
}

static void force_loops(const char *name)
{
    for (uint32_t i = 0; kernel_rows_at(i); i++)
        if (strcmp(kernel_rows_at(i)->name, name) == 0)
            kernel_rows_force(kernel_rows_at(i));
}

/* OpenCV reads its variable before main begins. */
static void force_avx2(char **argv)
{
    static const char *const variable = "OPENCV_CPU_DISABLE";
    if (!getenv(variable)) {
        setenv(variable, "AVX512-SKX", 1);
        execv("/proc/self/exe", argv);
        abort();
    }
    force_loops("x86-64-v3");
    libyuv::MaskCpuFlags(~(libyuv::kCpuHasAVX512BW | libyuv::kCpuHasAVX512VL | libyuv::kCpuHasAVX512VNNI |
                           libyuv::kCpuHasAVX512VBMI | libyuv::kCpuHasAVX512VBMI2 | libyuv::kCpuHasAVX512VBITALG |
                           libyuv::kCpuHasAVX512VPOPCNTDQ | libyuv::kCpuHasGFNI));
    av_force_cpu_flags(av_get_cpu_flags() & ~(AV_CPU_FLAG_AVX512 | AV_CPU_FLAG_AVX512ICL));
}

static void read_arguments(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        std::string argument = argv[i];
        if (argument == "--rounds" && i + 1 < argc)
            settings.rounds = std::max(1, atoi(argv[++i]));
        else if (argument == "--seconds" && i + 1 < argc)
            settings.seconds = atof(argv[++i]);
        else if (argument == "--loops" && i + 1 < argc)
            force_loops(argv[++i]);
        else if (argument == "--avx2")
            force_avx2(argv);
        else if (argument == "--judge")
            settings.judge = true;
        else
            settings.names.push_back(argument);
    }
}

int main(int argc, char **argv)
{
    read_arguments(argc, argv);
    cv::setNumThreads(1);
    setMsgSeverity(L_SEVERITY_NONE);
    printf("Host loops: %s. OpenCV %s, libyuv %d, Leptonica %s.\n\n", sheaf_kernel_host_variant(), CV_VERSION,
           LIBYUV_VERSION, getLeptonicaVersion());
    printf("| kernel | ours, ms | best other, ms | other / ours | libyuv, ms | libyuv / ours | differs by |\n");
    printf("|---|---:|---:|---:|---:|---:|---:|\n");
    static const int sizes[][2] = {{640, 480}, {1920, 1080}, {3840, 2160}};
    for (const auto &s : sizes)
        colours_to_gray(s[0], s[1]);
    for (const auto &s : sizes)
        colours_nv12(s[0], s[1]);
    for (const auto &s : sizes)
        colours_shuffled(s[0], s[1]);
    resize_all();
    tensors();
    turning(1240, 1754);
    turning(2480, 3508);
    black_and_white(1240, 1754);
    black_and_white(2480, 3508);
    measures(1920, 1080);
    measures(2480, 3508);
    return settings.judge && below > 0 ? 1 : 0;
}
