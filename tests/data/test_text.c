/* Sources of sequences: text, and tensors of tokens; and the loader with several labels a sample.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/loader.h"
#include "data/text.h"
#include "engine/base/alloc.h"
#include "engine/checkpoint/safetensors.h"
#include "tests/fixture/check.h"
#include "tests/fixture/data_files.h"

enum { CONTEXT = 8, BYTES = 200, HELD = BYTES / 10 };

/* "the_end" and bytes above 127, over and over. */
static void fill(uint8_t *bytes)
{
    static const uint8_t some[] = {'t', 'h', 'e', '_', 'e', 'n', 'd', 0xC3, 0xA4, '\n', 0};
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = some[(i * 7 + i / 11) % sizeof some];
}

static const char *put_text(const char *name, const void *bytes, size_t n)
{
    const char *path = dt_temp_path(name);
    put_folder(dt_temp_path("."));
    put_file(path, bytes, n);
    return path;
}

static dt_source_opts text_opts(const char *path)
{
    return (dt_source_opts){.path = path,
        .shape = {1, CONTEXT, 1, 1},
        .classes = 20,
        .labels = CONTEXT,
        .tokens = true,
        .ignore_label = -100};
}

static dt_source *opened(const char *name, const dt_source_opts *o)
{
    dt_err err = {0};
    dt_source *s = NULL;
    assert_ok(dt_source_find(name)->open(dt_source_find(name), &s, o, &err), &err);
    return s;
}

static void read_sample(const dt_source *s, int64_t i, uint64_t key, float *x, int32_t *label)
{
    dt_err err = {0};
    assert_ok(s->desc->read(s, i, key, x, label, &err), &err);
}

static void tokens_are_the_distinct_bytes_in_rising_order(void **state)
{
    (void)state;
    dt_vocabulary v;
    dt_vocabulary_of(&v, (const uint8_t *)"zaz\xFFm", 5);
    assert_int_equal(v.n, 4);
    assert_memory_equal(v.byte, "amz\xFF", 4);
    assert_int_equal(v.token['a'], 0);
    assert_int_equal(v.token[0xFF], 3);
    assert_int_equal(v.token['b'], -1);
    for (int i = 0; i < v.n; i++)
        assert_int_equal(v.token[v.byte[i]], i);
}

/* What a run writes down of its text is enough to read and write by. */
static void names_of_tokens_make_the_same_vocabulary(void **state)
{
    (void)state;
    uint8_t all[256];
    char name[256][DTI_BYTE_NAME];
    const char *names[257];
    dt_vocabulary v, again;
    dt_err err = {0};
    for (int i = 0; i < 256; i++)
        all[i] = (uint8_t)i;
    for (int step = 1; step < 5; step++) { /* every byte, every second one, ... */
        uint8_t some[256];
        size_t n = 0;
        for (int i = 0; i < 256; i += step)
            some[n++] = all[i];
        dt_vocabulary_of(&v, some, n);
        for (size_t i = 0; i < n; i++) {
            dti_byte_name(name[i], v.byte[i]);
            names[i] = name[i];
        }
        names[n] = "";
        assert_ok(dt_vocabulary_named(&again, names, (int64_t)n + 1, &err), &err);
        assert_int_equal(again.n, v.n);
        assert_memory_equal(again.byte, v.byte, n);
        assert_memory_equal(again.token, v.token, sizeof v.token);
    }
    dti_byte_name(name[0], '\\');
    assert_string_equal(name[0], "\\x5C");
    dti_byte_name(name[0], ' ');
    assert_string_equal(name[0], "\\x20");
    const char *const wrong[][2] = {
        {"b", "a"}, {"a", "a"}, {"a", "bc"}, {"a", "\\x7f"}, {"a", "\xC3\xA4"}};
    for (size_t i = 0; i < DT_COUNT(wrong); i++) {
        assert_fails(
            dt_vocabulary_named(&v, wrong[i], 2, &err), DT_E_DATA, &err, "the name of class 1");
        err = (dt_err){0};
    }
}

/* Characters of the file, each labelled with the one behind it; never across the border between
 * what is trained on and what is held out. */
static void a_sample_is_a_piece_of_the_file_and_its_labels_one_further(void **state)
{
    (void)state;
    uint8_t bytes[BYTES];
    dt_vocabulary v;
    fill(bytes);
    dt_vocabulary_of(&v, bytes, BYTES);
    for (int eval = 0; eval < 2; eval++) {
        dt_source_opts o = text_opts(put_text("pieces.txt", bytes, BYTES));
        o.eval = eval == 1;
        dt_source *s = opened("text", &o);
        const int64_t first = eval ? BYTES - HELD : 0, end = eval ? BYTES : BYTES - HELD;
        assert_int_equal(s->desc->count(s), (end - first - 1) / CONTEXT);
        for (int64_t i = 0; i < s->desc->count(s); i++)
            for (uint64_t key = 0; key < 2 * CONTEXT; key++) {
                float x[CONTEXT];
                int32_t label[CONTEXT];
                int64_t at = first + i * CONTEXT;
                read_sample(s, i, key, x, label);
                at += eval ? 0 : (int64_t)key % CONTEXT;
                at = at < end - CONTEXT - 1 ? at : end - CONTEXT - 1;
                for (int64_t k = 0; k < CONTEXT; k++) {
                    assert_true(x[k] == (float)v.token[bytes[at + k]]);
                    assert_int_equal(label[k], v.token[bytes[at + k + 1]]);
                }
            }
        s->desc->close(s);
    }
}

static void text_that_does_not_fit_is_refused_with_the_remedy(void **state)
{
    (void)state;
    uint8_t bytes[BYTES];
    fill(bytes);
    dt_source_opts o = text_opts(put_text("fit.txt", bytes, BYTES));
    o.classes = 9;
    open_fails("text", &o, DT_E_DATA, "set model.vocab = 10 or more");
    o = text_opts(put_text("short.txt", bytes, CONTEXT));
    open_fails("text", &o, DT_E_DATA, "to train on, and a sample takes 9");
    o = text_opts(put_text("held.txt", bytes, 5 * CONTEXT));
    o.eval = true;
    open_fails("text", &o, DT_E_DATA, "to evaluate on");
    o = text_opts(put_text("empty.txt", bytes, 0));
    open_fails("text", &o, DT_E_DATA, "and a sample takes 9; take a longer file");
    o.path = dt_temp_path("none.txt");
    open_fails("text", &o, DT_E_DATA, "none.txt");
    o.path = NULL;
    open_fails("text", &o, DT_E_CONFIG, "data.path");
    o = text_opts(dt_temp_path("fit.txt"));
    o.shape = (dt_shape){1, 8, 8, 3};
    open_fails("text", &o, DT_E_CONFIG, "8x8x3 values and 8 labels");
    o = text_opts(dt_temp_path("fit.txt"));
    o.classes = 0;
    open_fails("text", &o, DT_E_CONFIG, "0 classes");
    o = text_opts(dt_temp_path("fit.txt"));
    o.labels = 1;
    open_fails("text", &o, DT_E_CONFIG, "8x1x1 values and 1 label ");
    o = text_opts(dt_temp_path("fit.txt"));
    open_fails("synthetic", &o, DT_E_CONFIG, "use data.source = text");
}

static void text_to_evaluate_on_is_taken_whole_in_the_vocabulary_of_training(void **state)
{
    (void)state;
    uint8_t bytes[BYTES];
    fill(bytes);
    dt_source_opts o = text_opts(put_text("own.txt", "hee\nteh__t", 10));
    o.eval = true;
    o.shape.h = o.labels = 4;
    o.train_path = put_text("learned.txt", bytes, BYTES);
    dt_vocabulary v;
    dt_vocabulary_of(&v, bytes, BYTES);
    dt_source *s = opened("text", &o);
    assert_int_equal(s->desc->count(s), 2);
    for (int64_t i = 0; i < 2; i++) {
        float x[4];
        int32_t label[4];
        read_sample(s, i, 3, x, label);
        for (int64_t k = 0; k < 4; k++) {
            assert_int_equal((int)x[k], v.token[(uint8_t) "hee\nteh__t"[4 * i + k]]);
            assert_int_equal(label[k], v.token[(uint8_t) "hee\nteh__t"[4 * i + k + 1]]);
        }
    }
    s->desc->close(s);
}

static void text_to_evaluate_on_may_hold_no_other_characters(void **state)
{
    (void)state;
    uint8_t bytes[BYTES];
    fill(bytes);
    dt_source_opts o = text_opts(put_text("other.txt", "the\nthe\nthQ the end\n", 20));
    o.eval = true;
    o.train_path = put_text("trained.txt", bytes, BYTES);
    open_fails("text", &o, DT_E_DATA, "other.txt: line 3, offset 10: byte 0x51 does not occur in");
    open_fails("text", &o, DT_E_DATA, "trained.txt, whose bytes are the vocabulary; remove it");
    o.train_path = "";
    open_fails("text", &o, DT_E_CONFIG, "data.path is missing: text takes its vocabulary");
    o.train_path = dt_temp_path("gone.txt");
    open_fails("text", &o, DT_E_DATA, "gone.txt");
    o.train_path = dt_temp_path("trained.txt");
    o.classes = 9;
    open_fails("text", &o, DT_E_DATA, "trained.txt: has 10 different bytes");
}

/* That of a run, by which tokens keep their meaning in a text that lacks some of them. */
static void text_may_be_read_in_a_vocabulary_that_was_learned(void **state)
{
    (void)state;
    static const struct {
        const char *lines, *told;
    } wrong[] = {{"c\nb\n", "vocab.txt"}, {"a\nword\n", "the name of class 1"},
        {"a\nb", "vocab.txt:2: this last line of the vocabulary does not end; put a newline"},
        {"a\nA line of a text\nb", "vocab.txt:2: a line of 16 bytes, and one that names a byte ha"},
        {"", "vocab.txt: names no byte"},
        {"a\nb\n", "line 1, offset 1: byte 0x63 does not occur in"},
        {"0\n1\n2\n3\na\nb\nc\n", "set model.vocab = 7 or more"}};
    uint8_t bytes[BYTES];
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (uint8_t) "aca"[i % 3];
    char path[1024], vocab[1024];
    snprintf(path, sizeof path, "%s", put_text("later.txt", bytes, BYTES));
    snprintf(vocab, sizeof vocab, "%s", put_text("vocab.txt", "\\x0A\na\nb\nc\n\n", 12));
    dt_source_opts o = text_opts(path);
    o.classes = 6;
    o.vocab = vocab;
    for (int eval = 0; eval < 2; eval++) { /* the latter a file of its own, beside none */
        float x[CONTEXT];
        int32_t label[CONTEXT];
        o.eval = eval == 1;
        o.train_path = eval ? "" : NULL;
        dt_source *s = opened("text", &o);
        read_sample(s, 0, 0, x, label);
        assert_true(x[0] == 1 && x[1] == 3 && label[0] == 3 && label[1] == 1);
        assert_string_equal(s->desc->class_name(s, 2), "b");
        s->desc->close(s);
    }
    for (size_t i = 0; i < DT_COUNT(wrong); i++) {
        put_text("vocab.txt", wrong[i].lines, strlen(wrong[i].lines));
        open_fails("text", &o, DT_E_DATA, wrong[i].told);
    }
    o.vocab = dt_temp_path("gone.txt");
    open_fails("text", &o, DT_E_DATA, "data.vocab takes the classes.txt of a run");
}

static void every_allocation_of_text_may_fail(void **state)
{
    (void)state;
    uint8_t bytes[BYTES];
    fill(bytes);
    dt_source_opts o = text_opts(put_text("faults.txt", bytes, BYTES));
    o.batch = 4;
    open_with_faults(dt_source_find("text"), &o);
    o = text_opts(put_text("faults.txt", "abcabcabcabcabcabcabcabc", 24));
    o.batch = 2;
    o.vocab = put_text("vocab.txt", "a\nb\nc\n", 6);
    open_with_faults(dt_source_find("text"), &o);
}

static void the_loader_keeps_labels_beside_their_samples(void **state)
{
    (void)state;
    uint8_t bytes[BYTES];
    fill(bytes);
    const dt_source_opts o = text_opts(put_text("loader.txt", bytes, BYTES));
    dt_source *s = opened("text", &o);
    const dt_loader_opts lo = {.batch = 5, .shuffle = true, .ahead = 2, .threads = 2, .seed = 3};
    dt_loader *l;
    dt_err err = {0};
    assert_ok(dt_loader_create(&l, s, &lo, &err), &err);
    for (int i = 0; i < 12; i++) {
        dt_batch b;
        assert_ok(dt_loader_feed(l)->next(dt_loader_feed(l)->self, &b, &err), &err);
        for (int64_t n = 0; n < b.n; n++)
            for (int64_t k = 0; k + 1 < CONTEXT; k++)
                assert_true(b.x[n * CONTEXT + k + 1] == (float)b.labels[n * CONTEXT + k]);
    }
    dt_loader_destroy(l);
    s->desc->close(s);
}

/* --- tensors of tokens --- */

enum { STEPS = 2, BATCH = 3, ALL = STEPS * BATCH * CONTEXT };

typedef struct token_file {
    int64_t x[ALL], y[ALL];
} token_file;

static dt_status token_bytes(
    void *arg, size_t i, size_t at, const void **bytes, size_t *n, dt_err *err)
{
    (void)at, (void)n, (void)err; /* at once */
    const token_file *f = arg;
    *bytes = i == 0 ? f->x : f->y;
    return DT_OK;
}

/* @labels: of a sequence. */
static const char *put_tokens(token_file *f, int64_t labels)
{
    const dt_st_out entries[2] = {{"x", DT_ST_I64, 3, {STEPS, BATCH, CONTEXT}},
        {"y", DT_ST_I64, labels > 1 ? 3 : 2, {STEPS, BATCH, labels}}};
    const char *path = dt_temp_path("tokens.safetensors");
    dt_err err = {0};
    put_folder(dt_temp_path("."));
    assert_ok(dt_st_write(path, entries, 2, NULL, 0, token_bytes, f, NULL, &err), &err);
    return path;
}

static void tensors_of_tokens_come_in_file_order(void **state)
{
    (void)state;
    token_file f;
    for (int i = 0; i < ALL; i++) {
        f.x[i] = i % 20;
        f.y[i] = (i + 1) % 20;
    }
    dt_source_opts o = text_opts(put_tokens(&f, CONTEXT));
    o.batch = BATCH;
    dt_source *s = opened("tensors", &o);
    assert_int_equal(s->desc->count(s), STEPS * BATCH);
    for (int64_t i = 0; i < STEPS * BATCH; i++) {
        float x[CONTEXT];
        int32_t label[CONTEXT];
        read_sample(s, i, 1, x, label);
        for (int64_t k = 0; k < CONTEXT; k++) {
            assert_true(x[k] == (float)((i * CONTEXT + k) % 20));
            assert_int_equal(label[k], (i * CONTEXT + k + 1) % 20);
        }
    }
    s->desc->close(s);
    o.shape.h = o.labels = CONTEXT / 2;
    open_fails("tensors", &o, DT_E_DATA, "the network takes [N, 4] or [steps, N, 4]");
    f.y[CONTEXT * BATCH + 2] = 20;
    o = text_opts(put_tokens(&f, CONTEXT));
    o.batch = BATCH;
    open_fails("tensors", &o, DT_E_DATA, "y[1][0][2] is 20, must be in [0, 20)");
}

/* Before a run begins, as the number that it is. */
static void tokens_that_no_layer_knows_are_named_with_their_place(void **state)
{
    (void)state;
    static const struct {
        int64_t token;
        const char *told;
    } all[] = {{20, "x[1][0][2] is 20, must be in [0, 20)"}, {-1, "x[1][0][2] is -1, must"},
        {(int64_t)1 << 40, "x[1][0][2] is 1099511627776, must"}};
    for (size_t i = 0; i < DT_COUNT(all); i++) {
        token_file f = {0};
        f.x[CONTEXT * BATCH + 2] = all[i].token;
        dt_source_opts o = text_opts(put_tokens(&f, 1));
        o.batch = BATCH;
        o.labels = 1;
        o.vocabulary = 20;
        open_fails("tensors", &o, DT_E_DATA, all[i].told);
        o.vocabulary = 0; /* no layer looks them up */
        dt_source *s = opened("tensors", &o);
        s->desc->close(s);
    }
}

static void tokens_may_have_one_label_or_some(void **state)
{
    (void)state;
    token_file f;
    for (int i = 0; i < ALL; i++)
        f.x[i] = f.y[i] = i % 20;
    for (int64_t labels = 1; labels <= CONTEXT; labels *= 2) {
        dt_source_opts o = text_opts(put_tokens(&f, labels));
        o.batch = BATCH;
        o.labels = labels;
        dt_source *s = opened("tensors", &o);
        for (int64_t i = 0; i < STEPS * BATCH; i++) {
            float x[CONTEXT];
            int32_t label[CONTEXT];
            read_sample(s, i, 1, x, label);
            for (int64_t k = 0; k < CONTEXT; k++)
                assert_true(x[k] == (float)((i * CONTEXT + k) % 20));
            for (int64_t k = 0; k < labels; k++)
                assert_int_equal(label[k], (i * labels + k) % 20);
        }
        s->desc->close(s);
        o.labels = 3;
        open_fails("tensors", &o, DT_E_DATA, "the network takes [steps, N, 3]");
    }
}

DT_TEST_GROUP(text)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_the_distinct_bytes_in_rising_order),
        cmocka_unit_test(names_of_tokens_make_the_same_vocabulary),
        cmocka_unit_test(a_sample_is_a_piece_of_the_file_and_its_labels_one_further),
        cmocka_unit_test(text_that_does_not_fit_is_refused_with_the_remedy),
        cmocka_unit_test(text_to_evaluate_on_is_taken_whole_in_the_vocabulary_of_training),
        cmocka_unit_test(text_to_evaluate_on_may_hold_no_other_characters),
        cmocka_unit_test(text_may_be_read_in_a_vocabulary_that_was_learned),
        cmocka_unit_test(every_allocation_of_text_may_fail),
        cmocka_unit_test(the_loader_keeps_labels_beside_their_samples),
        cmocka_unit_test(tensors_of_tokens_come_in_file_order),
        cmocka_unit_test(tokens_that_no_layer_knows_are_named_with_their_place),
        cmocka_unit_test(tokens_may_have_one_label_or_some),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
