/* Labels and tokens out of range, by the sample that has them. */
#include "engine/sample_check.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "engine/base/compiler.h"

/* How many are wrong. They are counted before one is looked for, as a loop that may end anywhere
 * takes them one by one, and a step of pixels has millions. */
DT_CLONES static int64_t wrong_labels(const int32_t *label, int64_t n, int64_t classes)
{
    int64_t wrong = 0;
#pragma omp simd reduction(+ : wrong)
    for (int64_t i = 0; i < n; i++)
        wrong += ((label[i] < 0) | (label[i] >= classes)) & (label[i] != DT_LABEL_NONE);
    return wrong;
}

DT_CLONES static int64_t wrong_values(dt_label_kind kind, const int32_t *label, int64_t n)
{
    const float low = kind == DT_LABEL_PROBABILITY ? 0 : -FLT_MAX;
    const float high = kind == DT_LABEL_PROBABILITY ? 1 : FLT_MAX;
    int64_t wrong = 0;
#pragma omp simd reduction(+ : wrong)
    for (int64_t i = 0; i < n; i++) {
        const float v = dt_label_value(label[i]);
        wrong += !((v >= low) & (v <= high)) & (label[i] != DT_LABEL_NONE);
    }
    return wrong;
}

dt_status dt_check_labels(
    const int32_t *label, int64_t n, int64_t each, int64_t classes, int64_t sample0, dt_err *err)
{
    if (wrong_labels(label, n, classes) == 0)
        return DT_OK;
    for (int64_t i = 0; i < n; i++)
        if ((label[i] < 0 || label[i] >= classes) && label[i] != DT_LABEL_NONE)
            return DT_FAIL(err, DT_E_DATA,
                "sample %" PRId64 " of the step has label %" PRId32
                ", but the network has classes 0 to %" PRId64,
                sample0 + i / each, label[i], classes - 1);
    return DT_OK;
}

bool dt_is_value(dt_label_kind kind, float v)
{
    return kind == DT_LABEL_PROBABILITY ? !(v < 0 || v > 1) : !isinf(v);
}

dt_status dt_check_values(
    dt_label_kind kind, const int32_t *label, int64_t n, int64_t each, int64_t sample0, dt_err *err)
{
    if (wrong_values(kind, label, n) == 0)
        return DT_OK;
    for (int64_t i = 0; i < n; i++) {
        const float v = dt_label_value(label[i]);
        if (!dt_is_value(kind, v) || (v != v && label[i] != DT_LABEL_NONE))
            return DT_FAIL(err, DT_E_DATA,
                "sample %" PRId64 " of the step has label %g at place %" PRId64
                ", but the loss takes %s",
                sample0 + i / each, (double)v, i % each,
                kind == DT_LABEL_PROBABILITY ? "values from 0 to 1" : "finite values");
    }
    return DT_OK;
}

/* A NaN is none. */
static bool is_token(float x, int64_t vocabulary)
{
    return x >= 0 && x < (float)vocabulary && x == (float)(int64_t)x;
}

dt_status dt_check_tokens(
    const float *x, int64_t n, int64_t each, int64_t vocabulary, int64_t sample0, dt_err *err)
{
    for (int64_t i = 0; i < n; i++)
        if (!is_token(x[i], vocabulary))
            return DT_FAIL(err, DT_E_DATA,
                "sample %" PRId64 " of the step has token %g at position %" PRId64
                ", but tokens are whole numbers from 0 to %" PRId64,
                sample0 + i / each, (double)x[i], i % each, vocabulary - 1);
    return DT_OK;
}
