/* The shortcut without parameters: what goes where, forward and backward. */
#include "tests/fixture/check.h"

#include <stdlib.h>
#include <string.h>

#include "engine/kernels.h"
#include "layers/shape/shortcut.h"

enum { MOST = 4096 };

static const struct row {
    int64_t n, h, w, c, out, stride;
} rows[] = {
    {1, 1, 1, 1, 1, 1},   /* smallest: a copy */
    {2, 4, 4, 16, 32, 2}, /* as in resnet20 */
    {3, 5, 7, 3, 8, 2},   /* odd sizes, an odd number of new channels: 2 in front, 3 behind */
    {2, 7, 5, 4, 4, 3}, {1, 3, 2, 2, 5, 9}, /* one pixel is left */
};

typedef struct fixture {
    dt_graph *g;
    dt_call call;
    dt_shape x, y; /* with n samples */
} fixture;

static int64_t count(const dt_shape *s)
{
    return s->n * dt_shape_sample(s);
}

static fixture open_row(const struct row *r)
{
    fixture f = {.g = NULL};
    dt_err err = {0};
    const dt_shortcut o = {.out = r->out, .stride = r->stride};
    const int32_t image = DT_GRAPH_INPUT;
    int32_t id;
    assert_ok(dt_graph_create(&f.g, "t", (dt_shape){1, r->h, r->w, r->c}, 1, &err), &err);
    assert_ok(dt_graph_add(f.g, &dt_layer_shortcut, "s", &o, &image, 1, &id, &err), &err);
    f.call = (dt_call){.node = &f.g->node[0], .graph = f.g, .n = r->n, .home_n = r->n};
    f.x = f.g->input;
    f.y = dt_graph_shape(f.g, id);
    f.x.n = f.y.n = r->n;
    assert_true(count(&f.x) <= MOST && count(&f.y) <= MOST);
    return f;
}

static void run(const fixture *f, dt_form_kind form, float *from, float *to)
{
    dt_err err = {0};
    dt_call c = f->call;
    c.form = form;
    c.needs_dx = true;
    dt_args a = {.n = c.n};
    a.port[form == DT_BACKWARD ? DT_DY : DT_X] = from;
    a.port[form == DT_BACKWARD ? DT_DX : DT_Y] = to;
    assert_ok(dt_layer_shortcut.cpu->run(&c, NULL, &a, &err), &err);
}

static size_t at(const dt_shape *s, int64_t n, int64_t h, int64_t w, int64_t c)
{
    return (size_t)(((n * s->h + h) * s->w + w) * s->c + c);
}

/* Where an element of y comes from, or false for a zero. */
static bool source(const fixture *f, const struct row *r, const int64_t q[4], size_t *from)
{
    const int64_t c = q[3] - (r->out - r->c) / 2;
    if (c < 0 || c >= r->c)
        return false;
    *from = at(&f->x, q[0], q[1] * r->stride, q[2] * r->stride, c);
    return true;
}

/* Numbers that tell every element apart, after a pattern that a missed write would leave. */
static void fill(float *x, const dt_shape *s, float *result)
{
    for (int64_t i = 0; i < count(s); i++)
        x[i] = (float)(i + 1);
    memset(result, 0xff, MOST * sizeof *result);
}

static void forward_takes_every_stride_th_pixel_between_zero_channels(void **state)
{
    (void)state;
    static float x[MOST], y[MOST];
    for (size_t i = 0; i < DT_COUNT(rows); i++) {
        const fixture f = open_row(&rows[i]);
        fill(x, &f.x, y);
        run(&f, DT_FORWARD, x, y);
        assert_int_equal(f.y.h, (rows[i].h + rows[i].stride - 1) / rows[i].stride);
        assert_int_equal(f.y.w, (rows[i].w + rows[i].stride - 1) / rows[i].stride);
        int64_t q[4];
        for (q[0] = 0; q[0] < f.y.n; q[0]++)
            for (q[1] = 0; q[1] < f.y.h; q[1]++)
                for (q[2] = 0; q[2] < f.y.w; q[2]++)
                    for (q[3] = 0; q[3] < f.y.c; q[3]++) {
                        size_t from = 0;
                        const float want = source(&f, &rows[i], q, &from) ? x[from] : 0.0f;
                        assert_true(y[at(&f.y, q[0], q[1], q[2], q[3])] == want);
                    }
        dt_graph_destroy(f.g);
    }
}

static void backward_scatters_to_the_pixels_taken_and_is_zero_elsewhere(void **state)
{
    (void)state;
    static float dy[MOST], dx[MOST], want[MOST];
    for (size_t i = 0; i < DT_COUNT(rows); i++) {
        const fixture f = open_row(&rows[i]);
        fill(dy, &f.y, dx);
        memset(want, 0, sizeof want);
        int64_t q[4];
        for (q[0] = 0; q[0] < f.y.n; q[0]++)
            for (q[1] = 0; q[1] < f.y.h; q[1]++)
                for (q[2] = 0; q[2] < f.y.w; q[2]++)
                    for (q[3] = 0; q[3] < f.y.c; q[3]++) {
                        size_t from = 0;
                        if (source(&f, &rows[i], q, &from))
                            want[from] = dy[at(&f.y, q[0], q[1], q[2], q[3])];
                    }
        run(&f, DT_BACKWARD, dy, dx);
        assert_memory_equal(dx, want, (size_t)count(&f.x) * sizeof *dx);
        dt_graph_destroy(f.g);
    }
}

static void fewer_channels_than_the_input_are_refused(void **state)
{
    (void)state;
    dt_graph *g = NULL;
    dt_err err = {0};
    const int32_t image = DT_GRAPH_INPUT;
    int32_t id;
    assert_ok(dt_graph_create(&g, "t", (dt_shape){1, 4, 4, 8}, 1, &err), &err);
    const dt_shortcut o = {.out = 7, .stride = 2};
    assert_fails(dt_graph_add(g, &dt_layer_shortcut, "s", &o, &image, 1, &id, &err), DT_E_CONFIG,
        &err, "out = 7 is below the 8 channels");
    dt_graph_destroy(g);
}

DT_TEST_GROUP(shortcut)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_takes_every_stride_th_pixel_between_zero_channels),
        cmocka_unit_test(backward_scatters_to_the_pixels_taken_and_is_zero_elsewhere),
        cmocka_unit_test(fewer_channels_than_the_input_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
