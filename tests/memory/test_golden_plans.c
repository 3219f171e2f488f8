/* Plans of a tiny network, worked out by hand from the rules in docs/design.md: each tensor is
 * placed right before the op that first writes it and released right after the op that last uses
 * it; an output lies over an input when layers allow it and nothing reads the input later; a stream
 * waits only for what it does not know to be done. Where tensors lie, and so which copies must wait
 * for which earlier uses of their bytes, was worked out from the rules of the best_fit pool. */

#include <stdlib.h>
#include <string.h>

#include "tests/fixture/check.h"
#include "tests/fixture/planned.h"
#include "tests/fixture/toy.h"
#include "memory/pass.h"

/* The gap of a tensor between two ops. */
static dti_gap gap(const dt_program *p, const char *tensor, const char *from, const char *to)
{
    dti_gap g;
    const int32_t t = dt_toy_tensor(p, tensor);
    for (int32_t i = 0; dti_gap_next(p, t, &i, &g);)
        if (strcmp(p->op[g.from].name, from) == 0 && strcmp(p->op[g.to].name, to) == 0)
            return g;
    fail_msg("%s has no gap from %s to %s", tensor, from, to);
    return g;
}

static void keep_all(void **state)
{
    (void)state;
    dt_toy t = dt_toy_open(false);
    dt_assert_golden(t.first, "keep_all", 8128, 0);
    dt_toy_close(&t);
}

/* As vDNN does it: the copy out is waited for at the end of the layer, and the copy back begins a
 * layer before the reader. */
static void moving_the_input_of_conv2(void **state)
{
    (void)state;
    dt_toy t = dt_toy_open(false);
    dt_err err = {0};
    const dti_gap g = gap(t.first, "relu1.y", "conv2.f", "conv2.bw");
    const dti_offload_opt o = {
        .release_after = g.from, .fetch_before = dt_toy_op(t.first, "loss.b")};
    assert_true(g.crosses_loss);
    assert_ok(dti_offload(t.first, &g, &o, &err), &err);
    dt_assert_golden(t.first, "move_conv2_input", 9856, 2048);
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
    dti_gap g = gap(t.first, "relu1.y", "conv2.f", "conv2.bw");
    assert_ok(dti_recompute(t.first, &g, dropped, &err), &err);
    g = gap(t.first, "conv1.y", "bn1.f", "bn1.b");
    assert_ok(dti_recompute(t.first, &g, dropped, &err), &err);
    dt_assert_golden(t.first, "recompute_all_but_two", 7808, 0);
    free(dropped);
    dt_toy_close(&t);
}

DT_TEST_GROUP(golden_plans)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keep_all),
        cmocka_unit_test(moving_the_input_of_conv2),
        cmocka_unit_test(recomputing_all_but_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
