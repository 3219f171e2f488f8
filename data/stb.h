/* What we use of stb_image; data/decode.h checks before and after. */
#ifndef DT_DATA_STB_H
#define DT_DATA_STB_H

#include "engine/base/compiler.h"

/* Size and channels from the header; false when it is not one of the formats. */
bool dti_stb_info(const uint8_t *bytes, int n, int *w, int *h, int *c);

/* Pixels [h][w][channels], to be given to dt_free; NULL for a bad file. */
uint8_t *dti_stb_decode(const uint8_t *bytes, int n, int *w, int *h, int channels);

/* Why the last call of this thread failed: for want of memory, or else a static text. */
bool dti_stb_out_of_memory(void);
const char *dti_stb_reason(void);

#endif
