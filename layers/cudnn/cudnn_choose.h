/* Which of cuDNN's engines may compute a convolution: a table a shape, in the order in which the
 * library expects them to be fast, and the rules that pick its algorithms. Needs neither the
 * library nor a device. */
#ifndef DT_LAYERS_CUDNN_CUDNN_CHOOSE_H
#define DT_LAYERS_CUDNN_CUDNN_CHOOSE_H

#include "engine/base/compiler.h"

/* What the library notes of an engine, as its own numbers: bit i stands for note i. */
enum {
    DTI_CUDNN_TENSOR_CORE = 1 << 0,
    DTI_CUDNN_DOWN_CONVERT = 1 << 1,
    DTI_CUDNN_REDUCED_SUMS = 1 << 2,
    DTI_CUDNN_NONDETERMINISTIC = 1 << 4,
    DTI_CUDNN_WINOGRAD_4 = 1 << 6,
    DTI_CUDNN_WINOGRAD_6 = 1 << 7,
    DTI_CUDNN_WINOGRAD_13 = 1 << 8
};
enum {
    DTI_CUDNN_RUNTIME_COMPILED = 1 << 0,
    DTI_CUDNN_INT8_FILTER = 1 << 1,
    DTI_CUDNN_INT8_BIAS = 1 << 2
};

/**
 * struct dti_cudnn_candidate - an engine with its settings.
 * @engine @knobs: its number in the library (-1: that and its notes cannot be read), and one for
 * all its settings
 * @notes @behaviours: sets, as above
 * @tried:   it was prepared, to learn the rest, and @ready says whether that went well
 * @work_bytes: scratch
 */
typedef struct dti_cudnn_candidate {
    int64_t engine;
    uint64_t knobs;
    unsigned notes, behaviours;
    bool tried, ready;
    size_t work_bytes;
} dti_cudnn_candidate;

/**
 * struct dti_cudnn_rules - what is allowed.
 * @bf16:     values are bf16, so tensor cores lose nothing
 * @tf32:     fp32 may be rounded to the ten bits of TF32
 * @compiled: engines whose code is made while preparing, which takes up to seconds
 * @work_bytes: most scratch
 */
typedef struct dti_cudnn_rules {
    bool bf16, tf32, compiled;
    size_t work_bytes;
} dti_cudnn_rules;

/* Why a candidate is out, as far as is known before it is tried; NULL: it is not. */
const char *dti_cudnn_refusal(const dti_cudnn_candidate *c, const dti_cudnn_rules *r);
/* Whether a candidate that was tried is an algorithm of it: ready, allowed, and with less scratch
 * than @last, the algorithm before it (NULL: it would be the first), which is expected to be
 * faster. */
bool dti_cudnn_is_algorithm(
    const dti_cudnn_candidate *c, const dti_cudnn_candidate *last, const dti_cudnn_rules *r);

#endif
