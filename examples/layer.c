/* A layer from outside the tree: swish with a slope for each channel that is learned (Ramachandran,
 * Zoph, Le, 2017), y = x / (1 + exp(-b x)). Its backward is held against finite differences, and it
 * is trained under two policies, which must give the same weights. layer FOLDER [SET]... */
#include <dnntrain.h>
#include <dnntrain/layer.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct options {
    double slope;
} options;

static dt_status infer(
    const void *opts, const dt_extent *x, int n_x, dt_layer_shape *s, dt_err *err)
{
    (void)opts, (void)n_x, (void)err;
    const double values = (double)(x[0].h * x[0].w * x[0].c);
    *s = (dt_layer_shape){.y = x[0], .forward_flops = 4 * values, .backward_flops = 10 * values};
    s->param[0] = (dt_layer_param){.name = "slope",
        .rank = 1,
        .d = {x[0].c},
        .begin = DT_BEGIN_ZERO}; /* beside the option's */
    return DT_OK;
}

static int64_t values_of(const dt_layer_job *j)
{
    return j->n * j->y_extent.h * j->y_extent.w * j->y_extent.c;
}

/* 1 / (1 + exp(-b x)) of value @i. */
static float gate(const dt_layer_job *j, int64_t i)
{
    const options *o = j->options;
    const float b = (float)o->slope + j->param[0][i % j->y_extent.c];
    return 1 / (1 + expf(-b * j->x[0][i]));
}

static void forward(const dt_layer_job *j)
{
    for (int64_t i = 0; i < values_of(j); i++)
        j->y[i] = j->x[0][i] * gate(j, i);
}

static void backward(const dt_layer_job *j)
{
    const options *o = j->options;
    const int64_t c = j->y_extent.c;
    memset(j->dparam[0], 0, (size_t)c * sizeof(float));
    for (int64_t i = 0; i < values_of(j); i++) {
        const float x = j->x[0][i], g = gate(j, i), bend = x * g * (1 - g);
        const float b = (float)o->slope + j->param[0][i % c];
        j->dparam[0][i % c] += j->dy[i] * x * bend;
        if (j->dx[0] != NULL)
            j->dx[0][i] = j->dy[i] * (g + b * bend);
    }
}

static const dt_opt rows[] = {{.key = "slope",
    .type = DT_OPT_F64,
    .at = offsetof(options, slope),
    .fallback = "1",
    .min = 0,
    .max = 100,
    .help = "what the learned slopes are added to"}};

static const dt_layer_spec swish = {.name = "swish",
    .summary = "x / (1 + exp(-b x)), b of each channel learned",
    .options = rows,
    .n_options = 1,
    .options_bytes = sizeof(options),
    .min_x = 1,
    .max_x = 1,
    .n_param = 1,
    .keeps_x = true,
    .infer = infer,
    .forward = forward,
    .backward = backward};

/* ---- its gradients ---- */

enum { N = 2, H = 2, W = 1, C = 3, VALUES = N * H * W * C };

/* The loss of the check: a weighted sum of the outputs, whose gradients @dy are the weights. */
static double loss(const dt_layer_job *j)
{
    double sum = 0;
    forward(j);
    for (int i = 0; i < VALUES; i++)
        sum += (double)j->y[i] * (double)j->dy[i];
    return sum;
}

/* Of @n values at @v: how far the gradients @d are from central differences, at most. */
static double farthest(const dt_layer_job *j, float *v, const float *d, int n)
{
    const float step = 1e-2f;
    double most = 0;
    for (int i = 0; i < n; i++) {
        const float was = v[i];
        v[i] = was + step;
        const double above = loss(j);
        v[i] = was - step;
        const double below = loss(j);
        v[i] = was;
        const double off = fabs((above - below) / (2 * (double)step) - (double)d[i]);
        most = off <= most ? most : off; /* a NaN is kept */
    }
    return most;
}

static bool gradients_hold(void)
{
    const options o = {.slope = 1.5};
    const dt_extent e = {H, W, C};
    float x[VALUES], y[VALUES], dy[VALUES], dx[VALUES], b[C] = {-0.5f, 0, 0.7f}, db[C];
    for (int i = 0; i < VALUES; i++) {
        x[i] = 0.37f * (float)(i - VALUES / 2);
        dy[i] = 0.2f + 0.1f * (float)(i % 5);
    }
    const dt_layer_job j = {.options = &o,
        .n = N,
        .n_x = 1,
        .extent = &e,
        .y_extent = e,
        .x = {x},
        .dx = {dx},
        .param = {b},
        .dparam = {db},
        .y = y,
        .dy = dy};
    backward(&j);
    const double of_x = farthest(&j, x, dx, VALUES), of_b = farthest(&j, b, db, C);
    printf("gradients are within %.0e of x, %.0e of the slopes\n", of_x, of_b);
    return of_x < 1e-3 && of_b < 1e-3;
}

/* ---- and it trains ---- */

static const char config[] =
    "[model]\nimage = 8\nclasses = 4\n[data]\nsource = synthetic\nsamples = 64\n[train]\n"
    "batch = 16\nepochs = 2\nlr = 0.05\nprecision = fp32\n[device]\nkind = cpu\n"
    "[conv c1]\nout = 8\nkernel = 3\npad = 1\n[swish s1]\nslope = 1.5\n[conv c2]\nout = 8\n"
    "kernel = 3\npad = 1\n[swish s2]\n[fc out]\nout = 4\n";

/* The learned slopes of s1, at @to. */
static dt_status train(char **argv, int argc, const char *policy, float to[8], dt_err *err)
{
    char dir[4096], name[64];
    const char *set[16] = {dir, name};
    size_t n = 2;
    dt_run *run = NULL;
    snprintf(dir, sizeof dir, "run.dir=%s/%s", argv[1], policy);
    snprintf(name, sizeof name, "memory.policy=%s", policy);
    for (int i = 2; i < argc; i++)
        set[n++] = argv[i];
    dt_status st = dt_run_open_text(&run, "swish", config, strlen(config), set, n, err);
    if (st == DT_OK)
        st = dt_run_begin(run, NULL, err);
    if (st == DT_OK)
        st = dt_run_end(run, dt_run_train(run, 0, err), err);
    if (st == DT_OK)
        st = dt_run_read_weight(run, "s1.slope", to, 8, err);
    if (st == DT_OK)
        printf("%-10s device %8llu  slope of channel 0: %.9g\n", policy,
            (unsigned long long)dt_run_memory(run).device, (double)to[0]);
    dt_run_close(run);
    return st;
}

int main(int argc, char **argv)
{
    static dt_err err;
    float kept[8], again[8];
    if (argc < 2 || argc > 15) {
        fprintf(stderr, "usage: layer FOLDER [SECTION.KEY=VALUE]..., at most 13 of them\n");
        return DT_E_CONFIG;
    }
    if (!gradients_hold())
        return 1;
    dt_status st = dt_register_layer(&swish, &err);
    if (st == DT_OK)
        st = train(argv, argc, "keep_all", kept, &err);
    if (st == DT_OK)
        st = train(argv, argc, "chen_sqrt", again, &err);
    if (st != DT_OK)
        fprintf(stderr, "%s", err.text);
    else if (memcmp(kept, again, sizeof kept) != 0)
        return 1;
    return (int)st;
}
