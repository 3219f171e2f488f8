/* Image files: JPEG (baseline and progressive), PNG and BMP, to 8-bit pixels.
 *
 * Nothing is allocated before the header has been judged. Refused are: a side above 32768, more
 * than 64 Mi pixels, more than 2000 pixels a byte of the file when there are more than 1 Mi pixels
 * (a real picture of one colour has a few hundred), a JPEG of more than 500 scans, a PNG with a
 * chunk of a wrong checksum or without its end, a BMP shorter than its pixels. A file that ends
 * early is an error, never a picture with a grey part.
 *
 * Grey files give one channel, all others three. Palettes are looked up; 16 bits become the upper
 * 8; alpha is dropped and the colour below it taken as it is stored; CMYK becomes RGB by
 * multiplying with black, without a colour profile. The rotation that EXIF may ask for is not
 * applied. That is what PIL's convert("RGB") does, which torchvision uses, except that PIL
 * clips 16-bit grey. */
#ifndef DT_DATA_DECODE_H
#define DT_DATA_DECODE_H

#include "data/transform.h"

enum { DTI_IMAGE_FILE_BYTES = 1 << 29 }; /* of one file */

/* @name is fit for a message. The caller owns p->px, from dt_alloc. DT_E_DATA names the file and
 * what is wrong; DT_E_NOMEM. */
dt_status dti_decode(
    dti_picture *p, const char *name, const uint8_t *bytes, size_t n, dt_err *err) DT_NODISCARD;

#endif
