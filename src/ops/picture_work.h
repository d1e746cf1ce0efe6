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
