/* Plans of a tiny network, worked out by hand from the rules in docs/design.md: each tensor is
 * placed right before the op that first writes it and released right after the op that last uses
 * it; an output lies over an input when layers allow it and nothing reads the input later; a stream
 * waits only for what it does not know to be done. Where tensors lie, and so which copies must wait
 * for which earlier uses of their bytes, was worked out from the rules of the best_fit pool. */
#include <stdlib.h>
#include <string.h>

#include "memory/lower.h"
#include "memory/plan_text.h"
#include "memory/verify.h"
#include "tests/check.h"
#include "tests/toy.h"
#include "memory/pass.h"

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        fail_msg("cannot open %s", path);
    char *text = calloc(1, 1 << 16);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 16) - 1, f) > 0);
    assert_int_equal(fclose(f), 0);
    return text;
}

static char *printed(const dt_plan *p)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    assert_non_null(f);
    dt_plan_print_short(p, f);
    assert_int_equal(fclose(f), 0);
    return text;
}

/* The program's plan is the golden one, and takes so many bytes besides the persistent ones. */
static void is_golden(dt_toy *t, const char *name, uint64_t transient, uint64_t host)
{
    char below[64];
    dt_plan *plan;
    dt_err err = {0};
    const dt_lower_opts o = {.pool = dt_pool_find("best_fit"), .policy = name};
    assert_ok(dt_lower(&plan, t->first, &o, &err), &err);
    assert_ok(dt_verify(plan, &err), &err);
    snprintf(below, sizeof below, "tests/plans/golden/%s.txt", name);
    char *want = read_file(dt_source_path(below)), *got = printed(plan);
    assert_string_equal(got, want);
    assert_int_equal(plan->peak - plan->persistent, transient);
    assert_int_equal(plan->host_peak, host);
    free(want);
    free(got);
    dt_plan_destroy(plan);
}

/* The gap of a tensor between two ops. */
static dt_gap gap(const dt_program *p, const char *tensor, const char *from, const char *to)
{
    dt_gap g;
    const int32_t t = dt_toy_tensor(p, tensor);
    for (int32_t i = 0; dt_gap_next(p, t, &i, &g);)
        if (strcmp(p->op[g.from].name, from) == 0 && strcmp(p->op[g.to].name, to) == 0)
            return g;
    fail_msg("%s has no gap from %s to %s", tensor, from, to);
    return g;
}

static void keep_all(void **state)
{
    (void)state;
    dt_toy t = dt_toy_open(false);
    is_golden(&t, "keep_all", 8128, 0);
    dt_toy_close(&t);
}

/* As vDNN does it: the copy out is waited for at the end of the layer, and the copy back begins a
 * layer before the reader. */
static void moving_the_input_of_conv2(void **state)
{
    (void)state;
    dt_toy t = dt_toy_open(false);
    dt_err err = {0};
    const dt_gap g = gap(t.first, "relu1.y", "conv2.f", "conv2.bw");
    const dt_move_opt o = {g.from, dt_toy_op(t.first, "loss.b")};
    assert_true(g.crosses_loss);
    assert_ok(dt_move(t.first, &g, &o, &err), &err);
    is_golden(&t, "move_conv2_input", 9856, 2048);
    dt_toy_close(&t);
}

/* Of the values backward reads all but the statistics of bn1 and the probabilities are made again,
 * from the image and from bn1.y. */
static void recomputing_all_but_two(void **state)
{
    (void)state;
    dt_toy t = dt_toy_open(false);
    dt_err err = {0};
    bool *dropped = calloc(t.first->n_tensor, sizeof *dropped);
    assert_non_null(dropped);
    dropped[dt_toy_tensor(t.first, "conv1.y")] = dropped[dt_toy_tensor(t.first, "relu1.y")] = true;
    dt_gap g = gap(t.first, "relu1.y", "conv2.f", "conv2.bw");
    assert_ok(dt_recompute(t.first, &g, dropped, &err), &err);
    g = gap(t.first, "conv1.y", "bn1.f", "bn1.b");
    assert_ok(dt_recompute(t.first, &g, dropped, &err), &err);
    is_golden(&t, "recompute_all_but_two", 7808, 0);
    free(dropped);
    dt_toy_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keep_all),
        cmocka_unit_test(moving_the_input_of_conv2),
        cmocka_unit_test(recomputing_all_but_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
