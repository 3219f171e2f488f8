/* One layer on the CPU device, run by hand the way the runner would: bytes bound to ports, facts
 * asked, parameters put and got. Values outside are in PyTorch's layouts (NCHW, OIHW).
 *
 * Every op is also checked for what it may not do: write outside the tensors it declares (guard
 * bytes around every buffer), change what it only reads, leave part of a result unwritten, depend
 * on what was in its result or scratch before, or give other bits when run again. */
#ifndef DT_TESTS_LAYER_CHECK_H
#define DT_TESTS_LAYER_CHECK_H

#include "engine/kernels.h"

/**
 * struct dt_layer_run - what to run, and what came out.
 * @desc @opts: the layer; NULL options are the defaults
 * @n:          samples
 * @home_n:     micro-batch that fixes how parameters live; 0: n
 * @piece:      samples at a time in forms that may be split; 0: all
 * @x:          shapes of the inputs, n = 1; all the same
 * @alt:        which alternative backward uses
 * @room:       bytes that its ways may take, in all directions
 * @dtype:      of the values; those given are rounded to it
 * @eval:       evaluation forward, no backward
 * @forward_only: no backward
 * @in_place:   let results take the bytes of what is read, wherever the layer allows it and nothing
 *              needs those bytes later
 * @in @param @dy @labels: values; a parameter or gradient of the output that is NULL is zero
 * @got_*:      results, owned by the run; NULL where there is none. A buffer's pending value is
 *              in got_pending
 */
typedef struct dt_layer_run {
    const dt_layer_desc *desc;
    const void *opts;
    int64_t n, home_n, piece;
    int n_x;
    dt_shape x[DT_MAX_IN];
    int alt;
    size_t room;
    dt_dtype dtype;
    bool eval, forward_only, in_place;
    const float *in[DT_MAX_IN];
    const float *param[DT_MAX_PARAM];
    const float *dy;
    const int32_t *labels;

    dt_layer_info info;
    float *got_y, *got_dx[DT_MAX_IN], *got_dparam[DT_MAX_PARAM], *got_pending[DT_MAX_PARAM];
    dt_metrics metrics;
} dt_layer_run;

/* Runs everything; a failure fails the test. */
void dt_layer_check(dt_layer_run *r);
void dt_layer_check_free(dt_layer_run *r);

/* Options from text such as "out=8 kernel=3", the rest defaults; free with dt_free. */
void *dt_layer_options(const dt_layer_desc *desc, const char *text);

/* n random values in [-1, 1), the same for the same key. */
float *dt_random_values(size_t n, uint32_t key);

/* NCHW from and to NHWC; @s is one sample. */
void dt_to_nhwc(const float *nchw, float *nhwc, int64_t n, const dt_shape *s);
void dt_to_nchw(const float *nhwc, float *nchw, int64_t n, const dt_shape *s);

#endif
