/* Numbers as people read them. Each writes into @to and returns it. */
#ifndef DT_SESSION_HUMAN_H
#define DT_SESSION_HUMAN_H

#include "engine/base/numbers_text.h"
#include "engine/map.h"

enum { DT_HUMAN_EXACT = 80 }; /* and DT_HUMAN_BYTES: enough for each */

const char *dt_human_bytes(char to[DT_HUMAN_BYTES], uint64_t bytes); /* "1.15 GiB" */
/* "1.15 GiB (1,234,803,098 bytes)", which can be typed as well */
const char *dt_human_exact(char to[DT_HUMAN_EXACT], uint64_t bytes);
const char *dt_human_time(
    char to[DT_HUMAN_BYTES], double seconds); /* "38:12", "1:02:03", "4 d 03 h" */
const char *dt_human_seconds(char to[DT_HUMAN_BYTES], double seconds); /* "0.036 ms", "16.2 s" */
/* Without the unit: to the microsecond, and of less than a millisecond four digits: "0.0001258" */
const char *dt_human_step(char to[DT_HUMAN_BYTES], double seconds);
/* With fewer decimals the larger it is: "0.01235", "4.913", "45.678", "1234.5", "12345"; below a
 * thousandth and from a million on with an exponent: "1.210e+10" */
const char *dt_human_number(char to[DT_HUMAN_BYTES], double v);
const char *dt_human_flops(char to[DT_HUMAN_BYTES], double flops);     /* "393 MFLOP" */
const char *dt_human_rate(char to[DT_HUMAN_BYTES], double per_second); /* three digits: "12.1" */
const char *dt_human_role(char to[DT_HUMAN_BYTES], dt_role role);      /* "activation gradients" */
/* What a network takes: "image 28x28x1", or "128 tokens" when @tokens, of a sample, is not 0. */
const char *dt_human_input(char to[DT_HUMAN_BYTES], const dt_shape *image, int64_t tokens);

/* What samples are called: "sequences" of tokens, "images", or "samples", which are rows of a
 * table.
 */
const char *dt_human_samples(const dt_shape *image, int64_t tokens);

/* Whether top-5 says anything: of five classes or fewer every label is among the first five. */
static inline bool dt_human_tells_top5(int64_t classes)
{
    return classes > 5;
}

#endif
