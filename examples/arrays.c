/* Samples in memory: a network learns to tell upright bars from level ones, and then answers.
 * arrays FOLDER [SET]... */
#include <dnntrain.h>
#include <dnntrain/source.h>

#include <stdio.h>
#include <string.h>

enum { SIDE = 8, SAMPLES = 320, HELD_OUT = 64, TRAIN = SAMPLES - HELD_OUT };

typedef struct table {
    float x[SAMPLES][SIDE][SIDE];
    int32_t label[SAMPLES];
} table;

static dt_status count(void *self, const dt_samples *s, int64_t *n, dt_err *err)
{
    (void)self;
    if (s->h != SIDE || s->w != SIDE || s->c != 1)
        return DT_FAIL(err, DT_E_CONFIG, "bars are of 8x8x1: set model.image=8, model.channels=1");
    *n = s->held_out ? HELD_OUT : TRAIN; /* 0 of those held out: nothing is evaluated */
    return DT_OK;
}

static dt_status read(
    void *self, const dt_samples *s, int64_t i, float *x, int32_t *label, dt_err *err)
{
    const table *t = self;
    const int64_t at = s->held_out ? TRAIN + i : i;
    (void)err;
    memcpy(x, t->x[at], sizeof t->x[at]);
    *label = t->label[at];
    return DT_OK;
}

/* Noise from a counter, and a bar. */
static void draw(table *t)
{
    uint32_t noise = 1;
    for (int i = 0; i < SAMPLES; i++) {
        t->label[i] = i % 2;
        for (int k = 0; k < SIDE * SIDE; k++) {
            noise = noise * 1664525u + 1013904223u;
            t->x[i][k / SIDE][k % SIDE] = (float)(noise >> 8) / (float)(1 << 24) - 0.5f;
        }
        for (int k = 0; k < SIDE; k++)
            t->x[i][i % 2 == 0 ? k : i / 2 % SIDE][i % 2 == 0 ? i / 2 % SIDE : k] += 1;
    }
}

static const char config[] =
    "[model]\nimage = 8\nchannels = 1\n[data]\nsource = bars\n[train]\nbatch = 16\nepochs = 6\n"
    "lr = 0.02\n[conv c1]\nout = 8\nkernel = 5\npad = 2\n[relu r1]\n[maxpool p]\nkernel = 8\n"
    "[fc out]\nout = 2\n";

/* Of the first filter: a bar that is upright. It learns on from there. */
static dt_status write_bar(dt_run *run, dt_err *err)
{
    float filter[8 * 5 * 5];
    DT_CHECK(dt_run_read_weight(run, "c1.weight", filter, 200, err));
    for (int k = 0; k < 25; k++)
        filter[k] = k % 5 == 2 ? 0.2f : -0.05f;
    return dt_run_write_weight(run, "c1.weight", filter, 200, err);
}

static dt_status print_weights(dt_run *run, dt_err *err)
{
    dt_weight w;
    float v[256];
    for (size_t i = 0; dt_run_weight(run, i, &w); i++) {
        DT_CHECK(dt_run_read_weight(run, w.name, v, (size_t)w.count, err));
        printf("%-10s %3lld values, the first %.4f\n", w.name, (long long)w.count, (double)v[0]);
    }
    return DT_OK;
}

static dt_status answer(dt_run *run, const table *t, dt_err *err)
{
    float score[HELD_OUT][2];
    int right = 0;
    DT_CHECK(dt_run_scores(run, &t->x[TRAIN][0][0], HELD_OUT, &score[0][0], 2 * HELD_OUT, err));
    for (int i = 0; i < HELD_OUT; i++)
        right += (score[i][1] > score[i][0]) == t->label[TRAIN + i];
    printf("%d of %d are answered rightly\n", right, HELD_OUT);
    return DT_OK;
}

static dt_status learn(dt_run *run, const table *t, dt_err *err)
{
    DT_CHECK(dt_run_begin(run, NULL, err));
    DT_CHECK(write_bar(run, err));
    DT_CHECK(dt_run_end(run, dt_run_train(run, 0, err), err));
    DT_CHECK(print_weights(run, err));
    return answer(run, t, err);
}

int main(int argc, char **argv)
{
    static dt_err err;
    static table data;
    const dt_source_spec bars = {.name = "bars",
        .summary = "bars, upright or level",
        .self = &data,
        .count = count,
        .read = read};
    char dir[4096];
    const char *set[16] = {dir};
    size_t n = 1;
    dt_run *run = NULL;
    if (argc < 2 || argc > 16 ||
        snprintf(dir, sizeof dir, "run.dir=%s", argv[1]) >= (int)sizeof dir) {
        fprintf(stderr, "usage: arrays FOLDER [SECTION.KEY=VALUE]..., at most 14 of them\n");
        return DT_E_CONFIG;
    }
    for (int i = 2; i < argc; i++)
        set[n++] = argv[i];
    draw(&data);
    dt_status st = dt_register_source(&bars, &err);
    if (st == DT_OK)
        st = dt_run_open_text(&run, "bars", config, strlen(config), set, n, &err);
    if (st == DT_OK)
        st = learn(run, &data, &err);
    if (st != DT_OK)
        fprintf(stderr, "%s", err.text);
    dt_run_close(run);
    return (int)st;
}
