/* Runs on tensors whose labels have another form than most: one for each pixel of a picture of one
 * column, and one for a whole sequence of tokens. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/checkpoint/safetensors.h"
#include "session/run.h"
#include "tests/fixture/check.h"
#include "tests/fixture/data_files.h"
#include "tests/fixture/workspace.h"

enum { STEPS = 2, BATCH = 4, LONG = 8, CLASSES = 5, SAMPLES = STEPS * BATCH };

#define RUN                                                                                        \
    "[data]\nsource = tensors\npath = own.st\n[train]\nbatch = 4\nsteps = 2\n"                     \
    "[device]\nthreads = 1\nkind = cpu\n[run]\noverwrite = on\ndir = out\n"
#define COLUMN(channels)                                                                           \
    RUN "[model]\nimage = 8x1\nchannels = " channels "\n[conv c]\nout = 5\nkernel = 3x1\n"         \
        "pad = 1x0\n"
#define SEQUENCE                                                                                   \
    RUN "[model]\ncontext = 8\n[embedding e]\nvocab = 6\nout = 4\n[mean m]\nover = height\n"       \
        "[fc p]\nout = 5\n"

typedef struct own {
    float value[SAMPLES * LONG * 3];
    int64_t token[SAMPLES * LONG], label[SAMPLES * LONG];
    bool of_tokens;
} own;

static dt_status own_bytes(
    void *arg, size_t i, size_t at, const void **bytes, size_t *n, dt_err *err)
{
    const own *o = arg;
    (void)n, (void)err;
    const void *x = o->of_tokens ? (const void *)o->token : o->value;
    *bytes = (const char *)(i == 0 ? x : o->label) + at;
    return DT_OK;
}

static dt_status try_train(const char *text, const dt_st_out entries[2], dt_err *err)
{
    static own o;
    dt_run *run = NULL;
    for (int i = 0; i < SAMPLES * LONG; i++)
        o.token[i] = o.label[i] = i % CLASSES;
    o.of_tokens = entries[0].type == DT_ST_I64;
    assert_ok(
        dt_st_write(in_workspace("own.st"), entries, 2, NULL, 0, own_bytes, &o, NULL, err), err);
    dt_status st = dt_run_open_text(&run, "net", text, strlen(text), NULL, 0, err);
    if (st == DT_OK)
        st = dt_run_begin(run, NULL, err);
    if (st == DT_OK)
        st = dt_run_end(run, dt_run_train(run, 0, err), err);
    dt_run_close(run);
    return st;
}

/* Of one channel it might be taken for a sequence, but for what it is called. */
static void a_picture_of_one_column_has_a_label_a_pixel(void **state)
{
    (void)state;
    static const dt_st_out colours[2] = {{"x", DT_ST_F32, 5, {STEPS, BATCH, 3, LONG, 1}},
        {"y", DT_ST_I64, 4, {STEPS, BATCH, LONG, 1}}},
                           grey[2] = {{"x", DT_ST_F32, 5, {STEPS, BATCH, 1, LONG, 1}},
                               {"y", DT_ST_I64, 4, {STEPS, BATCH, LONG, 1}}},
                           tokens[2] = {{"x", DT_ST_I64, 3, {STEPS, BATCH, LONG}},
                               {"y", DT_ST_I64, 3, {STEPS, BATCH, LONG}}};
    dt_err err = {0};
    assert_ok(try_train(COLUMN("3"), colours, &err), &err);
    assert_ok(try_train(COLUMN("1"), grey, &err), &err);
    assert_fails(
        try_train(COLUMN("1"), tokens, &err), DT_E_DATA, &err, "'x' is I64 [2, 4, 8], must be F32");
}

static void a_sequence_of_tokens_has_one_label(void **state)
{
    (void)state;
    static const dt_st_out one[2] = {{"x", DT_ST_I64, 3, {STEPS, BATCH, LONG}},
        {"y", DT_ST_I64, 2, {STEPS, BATCH}}},
                           values[2] = {{"x", DT_ST_F32, 5, {STEPS, BATCH, 1, LONG, 1}},
                               {"y", DT_ST_I64, 2, {STEPS, BATCH}}},
                           wide[2] = {{"x", DT_ST_F32, 3, {STEPS, BATCH, LONG}},
                               {"y", DT_ST_I64, 2, {STEPS, BATCH}}};
    dt_err err = {0};
    assert_ok(try_train(SEQUENCE, one, &err), &err);
    assert_ok(try_train(SEQUENCE, values, &err), &err);
    assert_fails(
        try_train(SEQUENCE, wide, &err), DT_E_DATA, &err, "'x' is F32 [2, 4, 8], must be I64");
}

static int go_there(void **state)
{
    (void)state;
    return chdir(in_workspace("."));
}

DT_TEST_GROUP(label_forms)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_picture_of_one_column_has_a_label_a_pixel),
        cmocka_unit_test(a_sequence_of_tokens_has_one_label),
    };
    return cmocka_run_group_tests(tests, go_there, NULL);
}
