/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done to pictures of pages before they are read, by the kernels of the host: is there anything on them, do
 * their lines run level, and gray, straight, black and white pictures made of them. Memory comes from malloc and is the
 * caller's.
 */
#ifndef SHEAF_OPS_PICTURE_WORK_H
#define SHEAF_OPS_PICTURE_WORK_H

#include <stdbool.h>

#include "kernels/kernels.h"
#include "ops/picture.h"

/* Binarisation, in the order of the choices of image.ocr's option. */
enum picture_binarise { PICTURE_AS_IT_IS, PICTURE_OTSU, PICTURE_SAUVOLA };

/* The picture as the kernels see it. They do not write to inputs. */
struct sheaf_image picture_image(const struct picture *picture);

/* The picture in gray: itself, or a new one, whose memory is in `ret_memory`, else NULL. -ENOMEM, -ERANGE. */
int picture_gray(const struct picture *picture, struct picture *ret_gray, uint8_t **ret_memory);

/*
 * Which of the passes below a picture of this size gets, and what their results mean: the same wherever they ran.
 */
bool picture_may_have_letters(uint32_t width, uint32_t height);   /* else it is blank */
bool picture_may_be_averaged(uint32_t width, uint32_t height);    /* to a PICTURE_AVERAGED-th of each side */
bool picture_may_have_lines(uint32_t height, uint32_t max_slope); /* else its slope is 0 */
enum { PICTURE_AVERAGED = 4 };
/* Of its histogram: so little ink that it is no letter; of the averaged one: none. */
bool picture_shades_are_blank(const uint32_t counts[256]);
bool picture_shades_are_dust(const uint32_t counts[256]);
/* Skew is looked for in a picture whose sides are divided by this; what is left over says nothing. */
uint32_t picture_skew_factor(uint32_t width, uint32_t height);
/* What was found there, if it is worth straightening; else 0. */
int32_t picture_sure_slope(const struct sheaf_skew *skew);

/*
 * Nothing to read: smaller than a letter, or so little that differs from the most frequent shade that it is no letter
 * either. Saves what Tesseract takes to find that out, several hundred milliseconds a page.
 */
bool picture_is_blank(const struct picture *gray);
/* The same of a picture whose pixels are averaged over 4 x 4: dust and the noise of a scanner are gone, letters are
 * not. */
bool picture_is_blank_but_for_dust(const struct picture *gray);

/* By how many pixels lines run down for a pixel to the right, in 2^-16; 0 where there are no lines to be sure of, or
 * less than a quarter of a degree. At most max_slope. */
int32_t picture_slope(const struct picture *gray, uint32_t max_slope);

/* The picture turned so that such lines run level, its corners in the shade of its paper. -ENOMEM, -ERANGE. */
int picture_straighten(const struct picture *gray, int32_t slope, struct picture *ret_straight, uint8_t **ret_memory);
/* Black on white, or white on black; `dpi` says how large letters are. -ENOMEM, -ERANGE. */
int picture_black_and_white(const struct picture *gray, enum picture_binarise how, double dpi,
                            struct picture *ret_binary, uint8_t **ret_memory);

#endif
