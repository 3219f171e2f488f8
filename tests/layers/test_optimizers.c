/* The optimizers against PyTorch's rules and Lion's, written down again in double precision; rates
 * and clipping against what a hand computes. */
#include "tests/fixture/check.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "engine/state_codes.h"
#include "engine/train.h"
#include "layers/plain.h"
#include "tests/fixture/layer_check.h"

enum { STEPS = 10 };

typedef struct rule {
    const dt_layer_desc *op;
    dt_hyper h;
    bool vector;
    int state;
    float rate;
} rule;

/* One element, with what optimizers keep of it. */
typedef struct element {
    double w, m, v;
} element;

/* Chen et al. (2023), Program 1; in their words beta1 c + (1 - beta1) g gives the direction. */
static void lion_step(element *e, double g, double wd, double lr, const dt_hyper *h)
{
    const double c = h->beta1 * e->m + (1 - h->beta1) * g;
    const double update = (c > 0) - (c < 0) + wd * e->w;
    e->m = h->beta2 * e->m + (1 - h->beta2) * g;
    e->w -= lr * update;
}

/* torch.optim.SGD, Adam and AdamW. */
static void one_step(element *e, double g, const rule *r, int t)
{
    const dt_hyper *h = &r->h;
    const double lr = (double)h->lr * (r->rate > 0 ? (double)r->rate : 1);
    const double wd = r->vector && h->no_decay ? 0 : (double)h->weight_decay;
    if (h->clipped)
        g *= (double)h->clip;
    if (r->op == &dt_layer_lion) {
        lion_step(e, g, wd, lr, h);
        return;
    }
    if (r->op == &dt_layer_sgd) {
        g += wd * e->w;
        if (r->state > 0) {
            e->m = t == 1 ? g : (double)h->momentum * e->m + g;
            g = h->nesterov ? g + (double)h->momentum * e->m : e->m;
        }
        e->w -= lr * g;
        return;
    }
    if (r->op == &dt_layer_adamw)
        e->w *= 1 - lr * wd;
    else
        g += wd * e->w;
    e->m = h->beta1 * e->m + (1 - h->beta1) * g;
    e->v = h->beta2 * e->v + (1 - h->beta2) * g * g;
    const double step_size = lr / (1 - pow(h->beta1, t));
    const double denom = sqrt(e->v) / sqrt(1 - pow(h->beta2, t)) + (double)h->eps;
    e->w -= step_size * e->m / denom;
}

static double worst_of(const float *got, const element *want, int64_t n, size_t field)
{
    float *rounded = malloc((size_t)n * sizeof *rounded);
    assert_non_null(rounded);
    for (int64_t i = 0; i < n; i++)
        rounded[i] = (float)*(const double *)(const void *)((const char *)&want[i] + field);
    const double off = dt_relative_error(got, rounded, (size_t)n);
    free(rounded);
    return off;
}

/* Ten steps; a guard float stands behind each tensor. */
static void check_rule(const rule *r, int64_t n, int threads)
{
    const float guard = 12345;
    float *w = dt_random_values((size_t)n + 1, 1), *m = calloc((size_t)n + 1, sizeof *m),
          *v = calloc((size_t)n + 1, sizeof *v);
    element *want = calloc((size_t)n, sizeof *want);
    assert_true(m != NULL && v != NULL && want != NULL);
    w[n] = m[n] = v[n] = guard;
    for (int64_t i = 0; i < n; i++)
        want[i].w = (double)w[i];
    omp_set_num_threads(threads);
    for (int t = 1; t <= STEPS; t++) {
        float *dw = dt_random_values((size_t)n, 10 + (uint32_t)t);
        float *kept = dt_random_values((size_t)n, 10 + (uint32_t)t);
        dt_args a = {.hyper = r->h};
        dt_err err = {0};
        dti_hyper_correct(&a.hyper, t - 1);
        const dt_call c = {.form = DT_UPDATE, .count = n, .vector = r->vector, .rate = r->rate};
        a.port[DT_P] = w;
        a.port[DT_DP] = dw;
        a.port[DT_M] = r->state > 0 ? m : NULL;
        a.port[DT_M + 1] = r->state > 1 ? v : NULL;
        assert_ok(r->op->cpu->run(&c, NULL, &a, &err), &err);
        assert_memory_equal(dw, kept, (size_t)n * sizeof *dw);
        for (int64_t i = 0; i < n; i++)
            one_step(&want[i], (double)dw[i], r, t);
        free(dw);
        free(kept);
    }
    assert_true(worst_of(w, want, n, offsetof(element, w)) < 1e-6);
    if (r->state > 0)
        assert_true(worst_of(m, want, n, offsetof(element, m)) < 1e-6);
    if (r->state > 1)
        assert_true(worst_of(v, want, n, offsetof(element, v)) < 1e-6);
    assert_true(w[n] == guard && m[n] == guard && v[n] == guard);
    free(w);
    free(m);
    free(v);
    free(want);
}

/* Every combination of weight decay, its exception for vectors, clipping, and a rate of its own. */
static void check_all(rule r)
{
    static const int64_t counts[] = {1, 17, 40003}; /* the last is several tasks and a rest */
    const int usual = omp_get_max_threads();
    for (unsigned bits = 0; bits < 32; bits++) {
        r.h.weight_decay = (bits & 1) != 0 ? 0.05f : 0;
        r.h.no_decay = (bits & 2) != 0;
        r.vector = (bits & 4) != 0;
        r.h.clipped = (bits & 8) != 0;
        r.h.clip = 0.3f;
        r.rate = (bits & 16) != 0 ? 0.25f : 0;
        for (size_t i = 0; i < DT_COUNT(counts); i++)
            if (i < 2 || bits % 5 == 0)
                check_rule(&r, counts[i], 1 + (int)bits % 3);
    }
    omp_set_num_threads(usual);
}

static void sgd_follows_pytorch(void **state)
{
    (void)state;
    check_all((rule){.op = &dt_layer_sgd, .h = {.lr = 0.1f}});
    check_all((rule){.op = &dt_layer_sgd, .h = {.lr = 0.1f, .momentum = 0.9f}, .state = 1});
}

static void nesterov_follows_pytorch(void **state)
{
    (void)state;
    check_all((rule){
        .op = &dt_layer_sgd, .h = {.lr = 0.1f, .momentum = 0.9f, .nesterov = true}, .state = 1});
}

static void adam_follows_pytorch(void **state)
{
    (void)state;
    const dt_hyper h = {.lr = 1e-2f, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8f};
    check_all((rule){.op = &dt_layer_adam, .h = h, .state = 2});
}

static void adamw_follows_pytorch(void **state)
{
    (void)state;
    const dt_hyper h = {.lr = 1e-2f, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-6f};
    check_all((rule){.op = &dt_layer_adamw, .h = h, .state = 2});
}

static void lion_follows_its_paper(void **state)
{
    (void)state;
    const dt_hyper h = {.lr = 1e-3f, .beta1 = 0.9, .beta2 = 0.99};
    check_all((rule){.op = &dt_layer_lion, .h = h, .state = 1});
}

/* Two steps by hand: lr 0.5, betas 0.5 and 0.75, decay 0.25. The mean of the second step is
 * 0.5 * 0.5 - 0.5 * 0.5 = 0, which has no sign: only the weight's share goes. */
static void lion_steps_by_a_sign(void **state)
{
    (void)state;
    const dt_hyper h = {.lr = 0.5f, .beta1 = 0.5, .beta2 = 0.75, .weight_decay = 0.25f};
    const float dw[] = {2.0f, -0.5f};
    const float want_w[] = {1 - 0.5f * (1 + 0.25f), 0.375f - 0.5f * 0.25f * 0.375f};
    const float want_m[] = {0.5f, 0.75f * 0.5f + 0.25f * -0.5f};
    float w = 1, m = 0;
    dt_err err = {0};
    const dt_call c = {.form = DT_UPDATE, .count = 1};
    for (int step = 0; step < 2; step++) {
        float g = dw[step];
        dt_args a = {.hyper = h};
        a.port[DT_P] = &w, a.port[DT_DP] = &g, a.port[DT_M] = &m;
        assert_ok(dt_layer_lion.cpu->run(&c, NULL, &a, &err), &err);
        assert_true(w == want_w[step] && m == want_m[step]);
    }
}

/* A run with finite = off must see that something is wrong. */
static void lion_leaves_a_nan_in_sight(void **state)
{
    (void)state;
    const dt_hyper h = {.lr = 0.5f, .beta1 = 0.9, .beta2 = 0.99};
    float w = 1, m = 0, dw = NAN;
    dt_err err = {0};
    const dt_call c = {.form = DT_UPDATE, .count = 1};
    dt_args a = {.hyper = h};
    a.port[DT_P] = &w, a.port[DT_DP] = &dw, a.port[DT_M] = &m;
    assert_ok(dt_layer_lion.cpu->run(&c, NULL, &a, &err), &err);
    assert_true(isnan(w) && isnan(m));
}

/* ---- moments in 8 bits ---- */

/* What an op of either kind is run on: the same values. @scale: of the blocks of a moment. */
typedef struct packed {
    float *w, *dw, *moment[2], *scale[2];
    uint8_t *code[2];
} packed;

enum { GUARD = 77 };

static packed draw_packed(int64_t n, int moments)
{
    packed p = {.w = dt_random_values((size_t)n + 1, 1), .dw = dt_random_values((size_t)n, 2)};
    p.w[n] = GUARD;
    for (int k = 0; k < moments; k++) {
        const size_t blocks = (size_t)dt_state_blocks(n);
        p.code[k] = malloc((size_t)n + 1);
        p.scale[k] = dt_random_values(blocks + 1, 3 + (uint32_t)k);
        p.moment[k] = calloc((size_t)n, sizeof(float));
        assert_true(p.code[k] != NULL && p.moment[k] != NULL);
        for (int64_t i = 0; i < n; i++)
            p.code[k][i] = (uint8_t)(i * 31 + i / 256);
        p.code[k][n] = GUARD;
        for (size_t b = 0; b < blocks; b++)
            p.scale[k][b] = k == 0 ? p.scale[k][b] : fabsf(p.scale[k][b]);
        p.scale[k][blocks] = GUARD;
    }
    return p;
}

static void free_packed(packed *p, int moments)
{
    free(p->w);
    free(p->dw);
    for (int k = 0; k < moments; k++) {
        free(p->code[k]);
        free(p->scale[k]);
        free(p->moment[k]);
    }
}

/* A step of fp32 between unpacking and packing. */
static void step_unpacked(const dt_layer_desc *op, const dt_call *c, dt_args *a, packed *p, int n)
{
    dt_err err = {0};
    dt_state_map map[2];
    for (int k = 0; k < n; k++) {
        dt_state_map_fill(&map[k], k == 0, 0, 1);
        for (int64_t i = 0; i < c->count; i++)
            p->moment[k][i] = map[k].share[p->code[k][i]] * p->scale[k][i / DT_STATE_BLOCK];
        a->port[DT_M + k] = p->moment[k];
    }
    a->port[DT_P] = p->w, a->port[DT_DP] = p->dw;
    assert_ok(op->cpu->run(c, NULL, a, &err), &err);
    for (int k = 0; k < n; k++)
        for (int64_t at = 0; at < c->count; at += DT_STATE_BLOCK) {
            const int64_t left = c->count - at;
            p->scale[k][at / DT_STATE_BLOCK] = dt_state_pack(&map[k], p->moment[k] + at,
                p->code[k] + at, left < DT_STATE_BLOCK ? left : DT_STATE_BLOCK);
        }
}

static void step_packed(const dt_layer_desc *op, const dt_call *c, dt_args *a, packed *p, int n)
{
    dt_err err = {0};
    a->port[DT_P] = p->w, a->port[DT_DP] = p->dw;
    for (int k = 0; k < n; k++) {
        a->port[DT_M + k] = p->code[k];
        a->port[DTI_SCALES_OF(DT_M + k)] = p->scale[k];
    }
    assert_ok(op->cpu->run(c, NULL, a, &err), &err);
}

static void assert_same_packed(const packed *a, const packed *b, int64_t n, int moments)
{
    assert_memory_equal(a->w, b->w, ((size_t)n + 1) * sizeof(float));
    for (int k = 0; k < moments; k++) {
        assert_memory_equal(a->code[k], b->code[k], (size_t)n + 1);
        assert_memory_equal(
            a->scale[k], b->scale[k], ((size_t)dt_state_blocks(n) + 1) * sizeof(float));
    }
}

static void a_step_in_8_bits_is_one_of_fp32_between_unpacking_and_packing(void **state)
{
    (void)state;
    static const struct {
        const dt_layer_desc *fp32, *packed;
        int moments;
    } ops[] = {{&dt_layer_sgd, &dt_layer_sgd8, 1}, {&dt_layer_adam, &dt_layer_adam8, 2},
        {&dt_layer_adamw, &dt_layer_adamw8, 2}, {&dt_layer_lion, &dt_layer_lion8, 1}};
    static const int64_t counts[] = {1, 2047, 2048, 2049, 40003};
    const int usual = omp_get_max_threads();
    for (size_t i = 0; i < DT_COUNT(ops) * DT_COUNT(counts); i++) {
        const int64_t n = counts[i / DT_COUNT(ops)];
        const int moments = ops[i % DT_COUNT(ops)].moments;
        const dt_hyper h = {.lr = 1e-2f,
            .momentum = 0.9f,
            .nesterov = i % 3 == 0,
            .weight_decay = 0.05f,
            .no_decay = i % 2 == 0,
            .beta1 = 0.9,
            .beta2 = 0.99,
            .eps = 1e-8f,
            .clipped = i % 5 == 0,
            .clip = 0.3f};
        const dt_call c = {
            .form = DT_UPDATE, .count = n, .vector = i % 2 == 1, .rate = i % 7 == 0 ? 3 : 0};
        packed want = draw_packed(n, moments), got = draw_packed(n, moments);
        omp_set_num_threads(1 + (int)i % 3);
        for (int step = 3; step < 6; step++) {
            dt_args a = {.hyper = h};
            dti_hyper_correct(&a.hyper, step);
            dt_args b = a;
            step_unpacked(ops[i % DT_COUNT(ops)].fp32, &c, &a, &want, moments);
            step_packed(ops[i % DT_COUNT(ops)].packed, &c, &b, &got, moments);
            assert_same_packed(&want, &got, n, moments);
        }
        free_packed(&want, moments);
        free_packed(&got, moments);
    }
    omp_set_num_threads(usual);
}

/* The first step of Adam is lr in size whatever the gradient: beta2 in single precision would be
 * off by 5e-5 in the second moment. */
static void adams_moments_keep_their_digits(void **state)
{
    (void)state;
    const dt_hyper h = {.lr = 1e-3f, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-30f};
    float w = 0, m = 0, v = 0, dw = 0.5f;
    dt_err err = {0};
    const dt_call c = {.form = DT_UPDATE, .count = 1};
    dt_args a = {.hyper = h};
    dti_hyper_correct(&a.hyper, 0);
    a.port[DT_P] = &w, a.port[DT_DP] = &dw, a.port[DT_M] = &m, a.port[DT_M + 1] = &v;
    assert_ok(dt_layer_adam.cpu->run(&c, NULL, &a, &err), &err);
    assert_true(fabs((double)w + 1e-3) < 3e-10);
    assert_true(fabs((double)v - 0.001 * 0.25) < 3e-11);
}

/* --- learning rates --- */

static bool near(double got, double want)
{
    return fabs(got - want) <= 1e-12 * fabs(want) + 1e-15;
}

static void a_constant_rate_stays(void **state)
{
    (void)state;
    const dt_train_opts o = {.lr = 0.5};
    for (int64_t s = 0; s < 100; s += 9)
        assert_true(near(dti_learning_rate(&o, s, 100, 7), 0.5));
}

static void warm_up_rises_evenly_to_the_rate(void **state)
{
    (void)state;
    dt_train_opts o = {.lr = 0.8, .warmup_steps = 4};
    const double want[] = {0.2, 0.4, 0.6, 0.8, 0.8, 0.8};
    for (int64_t s = 0; s < 6; s++)
        assert_true(near(dti_learning_rate(&o, s, 100, 10), want[s]));
    o.warmup_steps = 0;
    o.warmup_epochs = 2; /* of two steps */
    for (int64_t s = 0; s < 6; s++)
        assert_true(near(dti_learning_rate(&o, s, 100, 2), want[s]));
}

static void milestones_are_epochs(void **state)
{
    (void)state;
    dt_train_opts o = {
        .lr = 1, .schedule = DT_SCHEDULE_STEP, .gamma = 0.1, .n_milestone = 2, .milestone = {1, 3}};
    const double want[] = {1, 1, 1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.01, 0.01};
    for (int64_t s = 0; s < 11; s++)
        assert_true(near(dti_learning_rate(&o, s, 11, 3), want[s]));
    o.warmup_steps = 4; /* goes over the first milestone */
    const double warm[] = {0.25, 0.5, 0.75, 0.1, 0.1};
    for (int64_t s = 0; s < 5; s++)
        assert_true(near(dti_learning_rate(&o, s, 11, 3), warm[s]));
}

static void linear_falls_evenly_to_its_end(void **state)
{
    (void)state;
    dt_train_opts o = {.lr = 1, .schedule = DT_SCHEDULE_LINEAR, .final_lr = 0.2};
    const double want[] = {1, 0.8, 0.6, 0.4};
    for (int64_t s = 0; s < 4; s++)
        assert_true(near(dti_learning_rate(&o, s, 4, 100), want[s]));
    assert_true(near(dti_learning_rate(&o, 4, 4, 100), 0.2));
    o.warmup_steps = 2;
    const double warm[] = {0.5, 1, 1, 0.8, 0.6, 0.4};
    for (int64_t s = 0; s < 6; s++)
        assert_true(near(dti_learning_rate(&o, s, 6, 100), warm[s]));
}

static void cosine_falls_as_pytorchs(void **state)
{
    (void)state;
    dt_train_opts o = {.lr = 1, .schedule = DT_SCHEDULE_COSINE};
    assert_true(near(dti_learning_rate(&o, 0, 8, 3), 1));
    assert_true(near(dti_learning_rate(&o, 2, 8, 3), (1 + sqrt(0.5)) / 2));
    assert_true(near(dti_learning_rate(&o, 4, 8, 3), 0.5));
    assert_true(near(dti_learning_rate(&o, 8, 8, 3), 0));
    o.final_lr = 0.1;
    o.warmup_epochs = 1;
    assert_true(near(dti_learning_rate(&o, 0, 11, 3), 1.0 / 3));
    assert_true(near(dti_learning_rate(&o, 2, 11, 3), 1));
    assert_true(near(dti_learning_rate(&o, 3, 11, 3), 1));
    assert_true(near(dti_learning_rate(&o, 7, 11, 3), 0.55));
    assert_true(near(dti_learning_rate(&o, 11, 11, 3), 0.1));
}

static void a_warm_up_longer_than_the_run_only_rises(void **state)
{
    (void)state;
    const dt_train_opts o = {.lr = 1, .schedule = DT_SCHEDULE_COSINE, .warmup_steps = 10};
    for (int64_t s = 0; s < 5; s++)
        assert_true(near(dti_learning_rate(&o, s, 5, 5), (double)(s + 1) / 10));
}

static void clipping_never_enlarges(void **state)
{
    (void)state;
    assert_true(near(dti_clip_factor(10, 2.5), 2.5 / (10 + 1e-6)));
    assert_true(dti_clip_factor(2, 2.5) == 1);
    assert_true(dti_clip_factor(0, 2.5) == 1);
    assert_true(dti_clip_factor(2.5, 2.5) < 1 && dti_clip_factor(2.5, 2.5) > 0.999999);
}

DT_TEST_GROUP(optimizers)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd_follows_pytorch),
        cmocka_unit_test(nesterov_follows_pytorch),
        cmocka_unit_test(adam_follows_pytorch),
        cmocka_unit_test(adamw_follows_pytorch),
        cmocka_unit_test(lion_follows_its_paper),
        cmocka_unit_test(lion_steps_by_a_sign),
        cmocka_unit_test(lion_leaves_a_nan_in_sight),
        cmocka_unit_test(a_step_in_8_bits_is_one_of_fp32_between_unpacking_and_packing),
        cmocka_unit_test(adams_moments_keep_their_digits),
        cmocka_unit_test(a_constant_rate_stays),
        cmocka_unit_test(warm_up_rises_evenly_to_the_rate),
        cmocka_unit_test(milestones_are_epochs),
        cmocka_unit_test(linear_falls_evenly_to_its_end),
        cmocka_unit_test(cosine_falls_as_pytorchs),
        cmocka_unit_test(a_warm_up_longer_than_the_run_only_rises),
        cmocka_unit_test(clipping_never_enlarges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
