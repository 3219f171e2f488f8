/* A layer from outside: shapes, parameters, and what computes it on the processor, in fp32. It is
 * registered once, before a run that names it is opened, and is then a kind of section, [KIND
 * NAME], in a configuration. */
#ifndef DNNTRAIN_LAYER_H
#define DNNTRAIN_LAYER_H

#include <dnntrain/error.h>
#include <dnntrain/options.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { DT_LAYER_INPUTS = 8, DT_LAYER_PARAMS = 4 };     /* of a layer, at most */
enum { DT_OUTSIDE_LAYERS = 8, DT_LAYER_OPTIONS = 16 }; /* at most, in all; options of each */

/* Of one sample: rows by columns by channels, channels innermost (NHWC). A vector has h = w = 1. */
typedef struct dt_extent {
    int64_t h, w, c;
} dt_extent;

/* How a parameter begins: all 0, all 1, uniform in [-scale, scale], or normal with that deviation
 */
typedef enum dt_begin { DT_BEGIN_ZERO, DT_BEGIN_ONE, DT_BEGIN_UNIFORM, DT_BEGIN_NORMAL } dt_begin;

/* A trained parameter: @name of a-z, 0-9 and _, which no other of the layer has; @rank, 1 to 4, of
 * the dimensions d, row-major. In files it is NODE.name. */
typedef struct dt_layer_param {
    const char *name;
    int rank;
    int64_t d[4];
    dt_begin begin;
    double scale;
} dt_layer_param;

/* What a layer says of itself for given inputs. @y: its output; the flops are for one sample, a
 * multiply-add being two; @param: as many as the spec has */
typedef struct dt_layer_shape {
    dt_extent y;
    double forward_flops, backward_flops;
    dt_layer_param param[DT_LAYER_PARAMS];
} dt_layer_shape;

/**
 * struct dt_layer_job - one execution, of @n samples.
 * @options: the struct that the rows fill
 * @x @n_x:  inputs; in backward NULL unless the spec keeps x
 * @y:       the output: forward writes it; in backward NULL unless the spec keeps y
 * @dy:      backward: the gradient of the output
 * @dx:      backward writes the gradients of the inputs; each NULL by itself, where none is wanted
 * @param:   of the layer
 * @dparam:  backward writes their gradients, summed over the @n samples
 *
 * dy has been divided by the samples of the whole step already. Bytes lie in the arena of the run;
 * what is not named here must not be touched, and nothing is to be allocated.
 */
typedef struct dt_layer_job {
    const void *options;
    int64_t n;
    int n_x;
    const dt_extent *extent; /* of the inputs */
    dt_extent y_extent;
    const float *x[DT_LAYER_INPUTS];
    float *dx[DT_LAYER_INPUTS];
    const float *param[DT_LAYER_PARAMS];
    float *dparam[DT_LAYER_PARAMS];
    float *y;
    const float *dy;
} dt_layer_job;

/**
 * struct dt_layer_spec - a layer.
 * @name:    the kind in [KIND NAME]: a-z, 0-9 and _; none that there is
 * @options: @n_options rows of the section, none of them input, shares or tiles, which every layer
 *           has; NULL and 0 for none; @options_bytes of their struct
 * @min_x @max_x: how many inputs it takes
 * @n_param: trained parameters
 * @keeps_x @keeps_y: backward reads them
 * @in_place: forward may write y over x, and backward dx over dy, of the first input, which then
 *           have the same extent; not with @keeps_x
 * @infer:   fill @s from the inputs' extents. DT_E_CONFIG for those that cannot be
 * @forward @backward: the same inputs give the same bits, on any number of threads
 */
typedef struct dt_layer_spec {
    const char *name, *summary;
    const dt_opt *options;
    size_t n_options, options_bytes;
    int min_x, max_x, n_param;
    bool keeps_x, keeps_y, in_place;
    dt_status (*infer)(
        const void *options, const dt_extent *x, int n_x, dt_layer_shape *s, dt_err *err);
    void (*forward)(const dt_layer_job *j);
    void (*backward)(const dt_layer_job *j);
} dt_layer_spec;

/* For the life of the process; texts and rows that @s names must live as long. From any thread,
 * also while runs are open: it is there for those that are opened afterwards. DT_E_CONFIG as
 * dt_register_policy, and for counts out of their range. A run of it with another precision than
 * fp32, or on another device than the processor, is refused when it is planned. */
DT_API dt_status dt_register_layer(const dt_layer_spec *s, dt_err *err) DT_NODISCARD;

#ifdef __cplusplus
}
#endif

#endif
