/* The CUDA device's attention, its sources run on the processor, against the processor's own. */
#include "tests/fixture/cuda_host.h"

#include <stdlib.h>

#include "engine/base/alloc.h"
#include "layers/cpu/cpu.h"
#include "tests/fixture/check.h"
#include "tests/fixture/layer_check.h"

#pragma GCC diagnostic ignored "-Wunused-function" /* of what all kernels share */
#include "layers/cuda/attention_cuda.cu"

static const struct attention_case {
    const char *opts;
    int64_t n;
    dt_shape x;
    dt_dtype dtype;
    bool backwards; /* threads and blocks in the other order too */
} cases[] = {
    {"heads=1 causal=on", 1, {1, 1, 1, 9}, DT_F32, true},
    {"heads=1 causal=on", 1, {1, 70, 1, 48}, DT_F32, false},
    {"heads=2 causal=off", 2, {1, 5, 4, 96}, DT_F32, false},
    {"heads=1 causal=off kind=naive", 1, {1, 66, 1, 39}, DT_F32, false},
    {"heads=2 causal=on kind=naive", 1, {1, 20, 1, 48}, DT_F32, true},
    {"heads=1 causal=on", 1, {1, 35, 1, 192}, DT_F32, false},
    {"heads=1 causal=on", 1, {1, 20, 1, 300}, DT_F32, false},
    {"heads=1 causal=off", 1, {1, 5, 1, 450}, DT_F32, false},
    {"heads=1 causal=on", 1, {1, 70, 1, 48}, DT_BF16, true},
    {"heads=1 causal=off", 1, {1, 66, 1, 192}, DT_BF16, false},
    {"heads=1 causal=on kind=naive", 1, {1, 20, 1, 192}, DT_BF16, false},
    {"heads=1 causal=on", 1, {1, 20, 1, 315}, DT_BF16, false},
    {"heads=1 causal=off", 1, {1, 5, 1, 768}, DT_BF16, false},
    {"heads=2 causal=on", 1, {1, 200, 1, 240}, DT_BF16, false},
    {"heads=1 causal=off", 1, {1, 193, 1, 192}, DT_BF16, true},
    {"heads=1 causal=on", 1, {1, 210, 1, 39}, DT_BF16, false},
    {"heads=1 causal=on kind=naive", 1, {1, 150, 1, 120}, DT_BF16, false},
    {"heads=1 causal=on", 1, {1, 150, 1, 192}, DT_F32, false},
    {"heads=1 causal=off", 1, {1, 148, 1, 123}, DT_F32, false},
    {"heads=1 causal=on", 1, {1, 150, 1, 384}, DT_BF16, false},
    {"heads=1 causal=off", 1, {1, 70, 1, 768}, DT_F32, false},
};

static void run(const struct attention_case *c, const dt_kernels *kernels, const float *x,
    const float *dy, dt_layer_run *r)
{
    static dt_layer_desc desc;
    desc = dt_layer_attention;
    desc.cpu = kernels;
    *r = (dt_layer_run){.desc = &desc, .n = c->n, .n_x = 1, .x = {c->x}, .dtype = c->dtype};
    r->opts = dt_layer_options(&desc, c->opts);
    r->in[0] = x;
    r->dy = dy;
    dt_layer_check(r);
}

static void is_the_processors(void **state)
{
    const struct attention_case *c = *state;
    const size_t count = (size_t)(c->n * dt_shape_sample(&c->x));
    const double most = c->dtype == DT_BF16 ? 2e-2 : 1e-5;
    float *x = dt_random_values(count, 1), *dy = dt_random_values(count / 3, 2);
    dt_layer_run want, got;
    for (size_t i = 0; i < count; i++)
        x[i] *= 3; /* so that probabilities differ */
    run(c, &dt_attention_cpu, x, dy, &want);
    for (int turn = 0; turn < (c->backwards ? 2 : 1); turn++) {
        dt_host_backwards = turn == 1;
        run(c, &dt_attention_host, x, dy, &got);
        assert_true(dt_relative_error(got.got_y, want.got_y, count / 3) < most);
        assert_true(dt_relative_error(got.got_dx[0], want.got_dx[0], count) < most);
        dt_free((void *)(uintptr_t)got.opts);
        dt_layer_check_free(&got);
    }
    dt_free((void *)(uintptr_t)want.opts);
    dt_layer_check_free(&want);
    free(x);
    free(dy);
}

DT_TEST_GROUP(cuda_attention)
{
    struct CMUnitTest tests[DT_COUNT(cases)];
    static struct attention_case copies[DT_COUNT(cases)];
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        copies[i] = cases[i];
        tests[i] = (struct CMUnitTest){copies[i].opts, is_the_processors, NULL, NULL, &copies[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
