/* The CUDA device's kernels beside the processor's: every layer once, on values of its own kind,
 * run as tests/layer_check.h runs it. Where the kernels are done is the caller's. */
#ifndef DT_TESTS_CUDA_KERNELS_H
#define DT_TESTS_CUDA_KERNELS_H

#include "engine/kernels.h"

/**
 * struct dt_cuda_bench - how to get at kernels and run them.
 * @find: of a layer by name
 * @run:  one execution of these kernels, with args whose ports are host memory and whose now holds
 *        what differs from step to step
 * @run_many: of n updates, likewise
 * @bits: results that need no rounding of their own are to have the processor's bits
 */
typedef struct dt_cuda_bench {
    const dt_kernels *(*find)(const char *name);
    dt_status (*run)(const dt_kernels *k, const dt_call *c, const dt_args *a, dt_err *err);
    dt_status (*run_many)(
        const dt_kernels *k, const dt_call *const *c, const dt_args *a, int n, dt_err *err);
    bool bits;
} dt_cuda_bench;

/* How a case is run besides plainly; results must be the same bits. */
enum { DT_CUDA_IN_PLACE = 1, DT_CUDA_IN_PIECES = 2 };

size_t dt_cuda_cases(void);
const char *dt_cuda_case_name(size_t i); /* "lrn size=4", and so on */

/* Runs a case on the processor and on the bench, and compares; a failure fails the test. */
void dt_cuda_case_compare(size_t i, const dt_cuda_bench *on, dt_dtype t);

/* Runs a case on the bench twice, the second time another way, calling @between first. */
void dt_cuda_case_repeat(
    size_t i, const dt_cuda_bench *on, dt_dtype t, int how, void (*between)(void));

/* The ops that belong to no layer likewise: optimizers, sum, commit. */
void dt_cuda_ops_compare(const dt_cuda_bench *on);

/* Optimizers and commits of many tensors at once: the processor's results, and the bits of one at a
 * time. */
void dt_cuda_updates_compare(const dt_cuda_bench *on);

/* Bytes of a port that is bound in a call. */
size_t dt_cuda_port_bytes(const dt_kernels *k, const dt_call *c, const dt_args *a, int port);

#endif
