/* One conversion a type. */
#include "data/st_values.h"

#include <math.h>
#include <string.h>

#include "engine/dtype.h"

/* 1 bit of sign, 5 of exponent, 10 of the fraction. */
static float from_half(uint16_t h)
{
    const int exponent = h >> 10 & 0x1F, fraction = h & 0x3FF;
    float v = ldexpf((float)fraction, -24);
    if (exponent == 0x1F)
        v = fraction == 0 ? INFINITY : NAN;
    else if (exponent > 0)
        v = ldexpf((float)(0x400 + fraction), exponent - 25);
    return (h & 0x8000) != 0 ? -v : v;
}

#define EACH(type, expression)                                                                     \
    for (int64_t i = 0; i < n; i++) {                                                              \
        type v;                                                                                    \
        memcpy(&v, (const char *)raw + (size_t)i * sizeof v, sizeof v);                            \
        to[i] = (expression);                                                                      \
    }                                                                                              \
    break

static void convert(dt_st_type t, const void *raw, int64_t n, float *to)
{
    switch (t) {
    case DT_ST_F32:
        EACH(float, v);
    case DT_ST_F16:
        EACH(uint16_t, from_half(v));
    case DT_ST_BF16:
        EACH(dt_bf16, dt_bf16_to_float(v));
    case DT_ST_F64:
        EACH(double, (float)v);
    case DT_ST_I64:
        EACH(int64_t, (float)v);
    case DT_ST_I32:
        EACH(int32_t, (float)v);
    case DT_ST_I16:
        EACH(int16_t, (float)v);
    case DT_ST_I8:
        EACH(int8_t, (float)v);
    case DT_ST_U8:
        EACH(uint8_t, (float)v);
    case DT_ST_BOOL:
        EACH(uint8_t, v != 0 ? 1.0f : 0.0f);
    }
}

dt_status dti_st_values(
    const dt_st_file *f, const dt_st_entry *e, int64_t at, int64_t n, float *to, dt_err *err)
{
    double raw[DTI_ST_SOME]; /* of the widest type */
    const size_t each = dt_st_type_bytes(e->type);
    DT_ASSERT(n <= DTI_ST_SOME);
    DT_CHECK(dt_st_read(f, e, (uint64_t)at * each, raw, (size_t)n * each, err));
    convert(e->type, raw, n, to);
    return DT_OK;
}
