/* [memory.layers]: each fate does what it says, policies leave it alone, and no result changes. */
#include <stdlib.h>
#include <string.h>

#include <dnntrain.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/base/text.h"
#include "memory/codec.h"
#include "memory/lower/lower.h"
#include "memory/policies/layer_fates.h"
#include "memory/remat/remat.h"
#include "memory/verify/verify.h"
#include "tests/fixture/parse_config.h"
#include "tests/fixture/planned.h"
#include "tests/fixture/profile_file.h"
#include "tests/fixture/run_cli.h"
#include "session/open.h"
#include "session/run_plans.h"
#include "session/session.h"

static const char head[] = "[model]\nimage = 16\nclasses = 4\n"
                           "fuse = off\n[data]\nsamples = 24\naugment = off\n"
                           "[train]\nbatch = 8\nsteps = 3\n";
static const char layers[] = "[conv c1]\nout = 8\nkernel = 3\npad = 1\n[batchnorm b1]\n[relu r1]\n"
                             "[conv c2]\nout = 8\nkernel = 3\npad = 1\n[batchnorm b2]\n[relu r2]\n"
                             "[conv c3]\nout = 8\nkernel = 3\npad = 1\n[add sum]\ninput = r1, c3\n"
                             "[relu r3]\n[maxpool mp]\nkernel = 2\n[dropout d1]\nrate = 0.3\n"
                             "[global_avgpool pool]\n[fc out]\nout = 4\n";

/* A configuration whose section holds these lines, from line 12 of the file. */
static const char *with(const char *fates)
{
    char text[2048];
    snprintf(text, sizeof text, "%s[memory.layers]\n%s%s", head, fates, layers);
    return cli_file("layers.ini", text);
}

static dt_session *open_with(const char *fates, const char *policy)
{
    dt_session *s = NULL;
    dt_err err = {0};
    char set[96];
    snprintf(set, sizeof set, "memory.policy=%s", policy);
    const char *sets[] = {set, "memory.device_budget=1"}; /* which takes a ladder's last rung */
    const size_t n = strcmp(policy, "vdnn_dyn") == 0 ? 2 : 1;
    assert_ok(dt_session_open(&s, with(fates), sets, n, &err), &err);
    return s;
}

static const dt_planned *plan(dt_session *s, dt_program_kind kind)
{
    const dt_planned *p = NULL;
    dt_err err = {0};
    assert_ok(dti_session_plan(s, kind, 8, &p, &err), &err);
    return p;
}

static int recomputes(const dt_plan *p, const char *op)
{
    int n = 0;
    for (size_t i = 0; i < p->n_op; i++)
        n += p->op[i].kind == DT_OP_RECOMPUTE &&
             (op == NULL || strncmp(p->op[i].name, op, strlen(op)) == 0);
    return n;
}

static void globs_match_whole_names(void **state)
{
    (void)state;
    static const struct {
        const char *glob, *name;
        bool yes;
    } cases[] = {
        {"c1", "c1", true},
        {"c1", "c10", false},
        {"c1", "c", false},
        {"c?", "c1", true},
        {"c?", "c", false},
        {"?", "", false},
        {"*", "", true},
        {"*", "layer1.0.conv1", true},
        {"layer1.*", "layer1.0.conv1", true},
        {"layer1.*", "layer10.0.conv1", false},
        {"*.conv1", "layer1.0.conv1", true},
        {"*.conv1", "layer1.0.conv10", false},
        {"l*.?.*2", "layer1.0.conv2", true},
        {"*a*b", "aab", true},
        {"*a*b", "aba", false},
        {"**", "x", true},
        {"[a]", "a", false},
        {"", "a", false},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++)
        if (dt_glob(cases[i].glob, cases[i].name) != cases[i].yes)
            fail_msg("'%s' and '%s'", cases[i].glob, cases[i].name);
}

/* A glob that was cut would be another one. */
static void globs_of_a_list_may_be_long(void **state)
{
    (void)state;
    static const size_t stars[] = {1, 64, 255, 256, 1000};
    for (size_t i = 0; i < DT_COUNT(stars); i++) {
        char list[1100] = "a.* ,\t";
        memset(list + strlen(list), '*', stars[i]);
        strcat(list, "b , c?,");
        assert_true(dti_glob_any(list, "a.x") && dti_glob_any(list, "xb"));
        assert_true(dti_glob_any(list, "c1") && !dti_glob_any(list, "c"));
        assert_false(dti_glob_any(list, "x") || dti_glob_any(list, "b ") || dti_glob_any(list, ""));
    }
    assert_false(dti_glob_any(NULL, "a") || dti_glob_any("", "") || dti_glob_any(" ,\t,", ""));
}

static void without_lines_nothing_changes(void **state)
{
    (void)state;
    dt_session *s = open_with("", "keep_all");
    const dt_plan *p = plan(s, DT_PROGRAM_FIRST)->plan;
    assert_int_equal(p->out_bytes, 0);
    assert_int_equal(recomputes(p, NULL), 0);
    dt_session_close(s);
}

/* The first row of a kind and tensor, or the first op that reads it behind that row. */
static size_t row_of(const dt_plan *p, dt_row_kind kind, const char *tensor)
{
    for (size_t i = 0; i < p->n_row; i++)
        if (p->row[i].kind == kind && strcmp(p->tensor[p->row[i].tensor].name, tensor) == 0)
            return i;
    fail_msg("no such row of %s", tensor);
    return 0;
}

static size_t compute_row(const dt_plan *p, const char *op)
{
    for (size_t i = 0; i < p->n_row; i++)
        if (p->row[i].kind == DT_ROW_COMPUTE && strcmp(p->op[p->row[i].op].name, op) == 0)
            return i;
    fail_msg("no such op: %s", op);
    return 0;
}

/* A copy back begins before the op in front of its reader, as far before as it takes, but never
 * more than four values wait. */
static void what_is_moved_comes_back_before_it_is_read(void **state)
{
    (void)state;
    dt_session *s = open_with("c1 = offload\n", "keep_all");
    const dt_plan *p = plan(s, DT_PROGRAM_FIRST)->plan;
    const size_t in = row_of(p, DT_ROW_COPY_IN, "c1.y"), reader = compute_row(p, "b1.b");
    assert_true(in < reader);
    int between = 0;
    for (size_t i = in; i < reader; i++)
        between += p->row[i].kind == DT_ROW_COMPUTE;
    assert_true(between >= 1);
    dt_session_close(s);
}

/* ResNet-50 with its first two stages on the host, by the numbers of a P100: 2.47 s when copies
 * began at their readers, and 1.7 s of the links alone. */
static void copies_back_hide_behind_backward(void **state)
{
    (void)state;
    static const char text[] = "[model]\nname = resnet50\n[data]\nsamples = 320\n[train]\n"
                               "batch = 190\nprecision = fp32\n[memory]\nsimulate = p100\n"
                               "[memory.layers]\nlayer1.* = offload\nlayer2.* = offload\n";
    dt_session *s = NULL;
    dt_err err = {0};
    dt_prediction t;
    assert_ok(dt_session_open(&s, cli_file("offload.ini", text), NULL, 0, &err), &err);
    assert_ok(dt_session_plan_run(s, false, 0, 0, &err), &err);
    assert_ok(dt_plan_set_predict(s->plans, &t, &err), &err);
    print_message("%.3f s, %.3f of it waiting; %.1f MiB\n", t.seconds, t.stalled,
        (double)dt_plan_set_peak(s->plans) / (1 << 20));
    assert_true(t.seconds < 2.3);
    assert_true(dt_plan_set_peak(s->plans) < (uint64_t)6500 << 20);
    dt_session_close(s);
}

/* Ops that run beside the copy back of one value of ResNet-50 on a P100. */
static int ops_beside(const char *fate)
{
    char text[256];
    int n = 0;
    dt_err err = {0};
    const dt_planned *p = NULL;
    snprintf(text, sizeof text,
        "[model]\nname = resnet50\n[data]\nsamples = 320\n[train]\nbatch = 190\n"
        "precision = fp32\n[memory]\nsimulate = p100\n[memory.layers]\nlayer1.0.conv3 = %s\n",
        fate);
    dt_session *s = dt_session_planned(text);
    assert_ok(dti_session_plan(s, DT_PROGRAM_FIRST, 190, &p, &err), &err);
    const size_t reader = compute_row(p->plan, "layer1.0.bn3.b");
    for (size_t i = row_of(p->plan, DT_ROW_COPY_IN, "layer1.0.conv3.y"); i < reader; i++)
        n += p->plan->row[i].kind == DT_ROW_COMPUTE;
    dt_session_close(s);
    return n;
}

static void what_travels_packed_comes_back_later(void **state)
{
    (void)state;
    const int packed = ops_beside("offload fp16"), whole = ops_beside("offload");
    assert_true(packed > 0 && packed < whole * 2 / 3);
}

static void move_takes_a_value_to_the_host_and_back(void **state)
{
    (void)state;
    dt_session *s = open_with("c1 = offload\n", "keep_all");
    const dt_plan *p = plan(s, DT_PROGRAM_FIRST)->plan;
    assert_int_equal(dt_rows_of(p, DT_ROW_COPY_OUT, "c1.y"), 1);
    assert_int_equal(dt_rows_of(p, DT_ROW_COPY_IN, "c1.y"), 1);
    assert_int_equal(p->out_bytes, 8 * 8 * 16 * 16 * sizeof(float));
    assert_int_equal(recomputes(p, NULL), 0);
    dt_session_close(s);
}

static void recompute_runs_a_layer_again(void **state)
{
    (void)state;
    dt_session *s = open_with("r2 = recompute\n", "keep_all");
    const dt_plan *p = plan(s, DT_PROGRAM_FIRST)->plan;
    assert_int_equal(recomputes(p, "r2.f'"), 1);
    assert_int_equal(recomputes(p, "b2.f'"), 1); /* what it reads is not there either */
    assert_int_equal(recomputes(p, NULL), 2);
    assert_int_equal(p->out_bytes, 0);
    dt_session_close(s);
}

static void keep_holds_what_a_recompute_needs(void **state)
{
    (void)state;
    dt_session *s = open_with("r2 = recompute\nb2 = keep\n", "keep_all");
    const dt_plan *p = plan(s, DT_PROGRAM_FIRST)->plan;
    assert_int_equal(recomputes(p, "r2.f'"), 1);
    assert_int_equal(recomputes(p, NULL), 1);
    dt_session_close(s);
}

static void a_moved_value_is_back_for_recomputes(void **state)
{
    (void)state;
    dt_session *s = open_with("r2 = recompute\nb2 = offload\n", "keep_all");
    const dt_plan *p = plan(s, DT_PROGRAM_FIRST)->plan;
    assert_int_equal(dt_rows_of(p, DT_ROW_COPY_OUT, "b2.y"), 1);
    assert_int_equal(recomputes(p, NULL), 1);
    dt_session_close(s);
}

static void neighbours_are_made_again_once(void **state)
{
    (void)state;
    dt_session *s = open_with("* = recompute\n", "keep_all");
    const dt_plan *p = plan(s, DT_PROGRAM_FIRST)->plan;
    assert_true(recomputes(p, NULL) > 8);
    for (size_t i = 0; i < p->n_op; i++)
        assert_null(strstr(p->op[i].name, "''"));
    dt_session_close(s);
}

static void the_last_line_that_matches_holds(void **state)
{
    (void)state;
    dt_session *s = open_with("c* = offload\nc2 = keep\n", "keep_all");
    const dt_plan *p = plan(s, DT_PROGRAM_FIRST)->plan;
    assert_int_equal(dt_rows_of(p, DT_ROW_COPY_OUT, "c1.y"), 1);
    assert_int_equal(dt_rows_of(p, DT_ROW_COPY_OUT, "c2.y"), 0);
    dt_session_close(s);
    s = open_with("c2 = keep\nc* = offload\n", "keep_all");
    p = plan(s, DT_PROGRAM_FIRST)->plan;
    assert_int_equal(dt_rows_of(p, DT_ROW_COPY_OUT, "c2.y"), 1);
    dt_session_close(s);
}

static void stashes_share_the_fate_of_their_layer(void **state)
{
    (void)state;
    dt_session *s = open_with("b1 = offload\n", "keep_all");
    const dt_plan *p = plan(s, DT_PROGRAM_FIRST)->plan;
    assert_int_equal(dt_rows_of(p, DT_ROW_COPY_OUT, "b1.mean"), 1);
    assert_int_equal(dt_rows_of(p, DT_ROW_COPY_OUT, "b1.istd"), 1);
    dt_session_close(s);
}

static void evaluation_is_left_alone(void **state)
{
    (void)state;
    dt_session *s = open_with("* = recompute\nc1 = offload\n", "keep_all");
    const dt_plan *p = plan(s, DT_PROGRAM_EVAL)->plan;
    assert_int_equal(p->out_bytes, 0);
    assert_int_equal(recomputes(p, NULL), 0);
    dt_session_close(s);
}

static const char mix[] =
    "c1 = offload\nr2 = recompute\nc2 = keep\nsum = recompute\nb2 = offload\n";

/* Under every policy that there is, by turns. */
static void policies_leave_pinned_gaps_alone(void **state)
{
    (void)state;
    size_t n;
    const dt_policy *const *all = dt_policy_all(&n);
    for (size_t i = 0; i < n; i++) {
        if ((all[i]->solver && dt_solver_name() == NULL) || !dt_picked(i, 6, 3, 1))
            continue;
        dt_session *s = open_with(mix, all[i]->name);
        const dt_plan *p = plan(s, DT_PROGRAM_FIRST)->plan;
        if (dt_rows_of(p, DT_ROW_COPY_OUT, "c1.y") != 1 ||
            dt_rows_of(p, DT_ROW_COPY_OUT, "b2.y") != 1 ||
            dt_rows_of(p, DT_ROW_COPY_OUT, "c2.y") != 0 ||
            dt_rows_of(p, DT_ROW_COPY_OUT, "r2.y") != 0 ||
            dt_rows_of(p, DT_ROW_COPY_OUT, "r2.y'") != 0 || recomputes(p, "r2.f'") != 1 ||
            recomputes(p, "c2.f") != 0)
            fail_msg("%s changed a pinned gap", all[i]->name);
        dt_session_close(s);
    }
}

/* The first gap of a tensor from forward to backward, pinned or not. */
static bool crossing(dt_program *p, int32_t tensor, dti_gap *g)
{
    const dt_pin pin = p->tensor[tensor].pin;
    bool found = false;
    p->tensor[tensor].pin = DT_PIN_NONE;
    for (int32_t i = 0; !found && dti_gap_next(p, tensor, &i, g);)
        found = g->crosses_loss;
    p->tensor[tensor].pin = pin;
    return found;
}

static int32_t find(const dt_program *p, const char *name)
{
    for (size_t t = 0; t < p->n_tensor; t++)
        if (strcmp(p->tensor[t].name, name) == 0)
            return (int32_t)t;
    fail_msg("no tensor '%s'", name);
    return DT_NONE;
}

static void pinned_gaps_are_not_shown(void **state)
{
    (void)state;
    dt_session *s = open_with("c1 = keep\n", "keep_all");
    dt_program *p = plan(s, DT_PROGRAM_FIRST)->program;
    const int32_t c1 = find(p, "c1.y"), c2 = find(p, "c2.y");
    dti_gap g;
    int32_t i = 0;
    assert_true(crossing(p, c1, &g));
    assert_false(dti_gap_next(p, c1, &i, &g));
    i = 0;
    assert_true(dti_gap_next(p, c2, &i, &g));
    dt_session_close(s);
}

/* A policy that comes by a gap in another way changes nothing either. */
static void rewrites_leave_pinned_gaps_alone(void **state)
{
    (void)state;
    dt_session *s = open_with("c1 = keep\nb1 = offload\n", "keep_all");
    dt_program *p = plan(s, DT_PROGRAM_FIRST)->program;
    dt_err err = {0};
    dti_gap g;
    const size_t before = p->n_order;
    assert_true(crossing(p, find(p, "c1.y"), &g));
    assert_ok(dti_offload(p, &g, NULL, &err), &err);
    assert_ok(dti_recompute(p, &g, NULL, &err), &err);
    assert_int_equal(p->n_order, before);
    dt_session_close(s);
}

/* Recomputes that a later policy makes go back to what is pinned to stay, even if it drops all. */
static void later_clones_stop_at_what_is_kept(void **state)
{
    (void)state;
    dt_session *s = open_with("c2 = keep\n", "keep_all");
    dt_program *p = plan(s, DT_PROGRAM_FIRST)->program;
    dt_err err = {0};
    dti_gap g;
    bool dropped[1024];
    assert_true(p->n_tensor < DT_COUNT(dropped));
    memset(dropped, 1, sizeof dropped);
    assert_true(crossing(p, find(p, "r2.y"), &g));
    assert_ok(dti_recompute(p, &g, dropped, &err), &err);
    int made = 0;
    for (size_t i = 0; i < p->n_order; i++) {
        const dt_op *op = &p->op[p->order[i]];
        made += op->kind == DT_OP_RECOMPUTE;
        assert_false(op->kind == DT_OP_RECOMPUTE && strncmp(op->name, "c2.f", 4) == 0);
    }
    assert_int_equal(made, 2); /* r2 and b2 */
    const dt_lower_opts l = {.pool = dt_pool_find("greedy"), .policy = "test"};
    dt_plan *lowered = NULL;
    assert_ok(dt_lower(&lowered, p, &l, &err), &err);
    assert_ok(dt_verify(lowered, &err), &err);
    dt_plan_destroy(lowered);
    dt_session_close(s);
}

static int32_t node(const dt_program *p, const char *name)
{
    return dt_graph_find(p->graph, name);
}

static void choosing_leaves_pinned_values_alone(void **state)
{
    (void)state;
    dt_session *s = open_with("mp = keep\nr2 = recompute\n", "keep_all");
    dt_program *p = plan(s, DT_PROGRAM_FIRST)->program;
    dt_err err = {0};
    assert_ok(dti_choose(p, node(p, "mp"), 1, 0, &err), &err); /* y is pinned */
    assert_int_equal(p->alt[node(p, "mp")], 0);
    assert_ok(dti_choose(p, node(p, "r2"), 1, 0, &err), &err); /* and recomputed */
    assert_int_equal(p->alt[node(p, "r2")], 0);
    dt_session_close(s);
    s = open_with("c1 = keep\n", "keep_all");
    p = plan(s, DT_PROGRAM_FIRST)->program;
    assert_ok(dti_choose(p, node(p, "mp"), 1, 0, &err), &err); /* others are free */
    assert_int_equal(p->alt[node(p, "mp")], 1);
    dt_session_close(s);
}

/* --- encoding --- */

static int ops(const dt_plan *p, dt_op_kind kind, const char *name)
{
    int n = 0;
    for (size_t i = 0; i < p->n_op; i++)
        n += p->op[i].kind == kind && strcmp(p->op[i].name, name) == 0;
    return n;
}

static void encode_packs_and_move_packs_on_the_way(void **state)
{
    (void)state;
    dt_session *s = open_with("r1 = encode fp16\nr2 = offload disk zvc\n", "keep_all");
    const dt_plan *p = plan(s, DT_PROGRAM_FIRST)->plan;
    assert_int_equal(ops(p, DT_OP_ENCODE, "r1.y.enc"), 1);
    assert_int_equal(ops(p, DT_OP_DECODE, "r1.y.dec"), 1);
    assert_int_equal(dt_rows_of(p, DT_ROW_COPY_OUT, "r2.y"), 1);
    assert_true(p->tier_peak[DT_TIER_DISK] > 0 && p->tier_peak[DT_TIER_HOST] == 0);
    assert_false(dt_plan_set_exact(s->plans)); /* fp16 rounds */
    dt_session_close(s);
}

static const char *reason_of(const dt_plan *p, dt_row_kind kind, const char *name)
{
    for (size_t i = 0; i < p->n_row; i++) {
        const dt_row *r = &p->row[i];
        const char *is = r->op >= 0 ? p->op[r->op].name : "";
        is = r->tensor >= 0 ? p->tensor[r->tensor].name : is;
        if (r->kind == kind && strcmp(is, name) == 0)
            return r->reason < 0 ? "none" : p->reason[r->reason];
    }
    return "no row";
}

static void rows_name_the_line_that_decided(void **state)
{
    (void)state;
    dt_session *s =
        open_with("r1 = encode fp16 offload\nr2 = offload disk zvc\n?3 = recompute\n", "keep_all");
    const dt_plan *p = plan(s, DT_PROGRAM_FIRST)->plan;
    const char *r1 = "[memory.layers] r1 = encode fp16 offload";
    const char *r2 = "[memory.layers] r2 = offload disk zvc";
    assert_string_equal(reason_of(p, DT_ROW_COMPUTE, "r1.y.enc"), r1);
    assert_string_equal(reason_of(p, DT_ROW_COMPUTE, "r1.y.dec"), r1);
    assert_string_equal(reason_of(p, DT_ROW_COPY_OUT, "r1.y.fp16"), r1);
    assert_string_equal(reason_of(p, DT_ROW_COPY_OUT, "r2.y"), r2);
    assert_string_equal(reason_of(p, DT_ROW_COPY_IN, "r2.y"), r2);
    assert_string_equal(reason_of(p, DT_ROW_COMPUTE, "r3.f'"), "[memory.layers] ?3 = recompute");
    dt_session_close(s);
}

static void set_takes_globs_with_dots(void **state)
{
    (void)state;
    const char *const sets[] = {"memory.layers.*1.conv2=recompute", "model.fuse=off"};
    dt_err err = {0};
    dt_session *s;
    const char *ini = cli_file("named.ini", "[model]\nname = resnet18\nwidth = 8\nimage = 32\n"
                                            "[train]\nbatch = 8\n");
    assert_ok(dt_session_open(&s, ini, sets, 2, &err), &err);
    const dt_plan *p = plan(s, DT_PROGRAM_FIRST)->plan;
    assert_int_equal(recomputes(p, "layer1.1.conv2.f'"), 1);
    assert_int_equal(recomputes(p, "layer1.0.conv2.f'"), 0);
    dt_session_close(s);
}

static void a_fused_layer_goes_by_both_names(void **state)
{
    (void)state;
    const char *const fuse[] = {"model.fuse=on"};
    dt_err err = {0};
    dt_session *s;
    assert_ok(dt_session_open(&s, with("r2 = recompute\n"), fuse, 1, &err), &err);
    assert_int_equal(recomputes(plan(s, DT_PROGRAM_FIRST)->plan, "b2.f'"), 1);
    dt_session_close(s);
}

/* --- from outside --- */

static void wrong_lines_are_named_with_their_place(void **state)
{
    NEED_BINARY();
    static const struct {
        const char *lines, *want[2];
    } wrong[] = {
        {"c1 = squash\n",
            {"layers.ini:12: [memory.layers] c1 = squash: 'squash' must be one of keep, offload, "
             "recompute, encode",
                NULL}},
        {"c1 = keep\nc2 = offlaod\n", {"layers.ini:13: ", "did you mean 'offload'?"}},
        {"c1 = \n", {"layers.ini:12: ", "must be one of keep, offload, recompute, encode"}},
        {"c1 = offload tape\n", {"'tape' must be one of host, disk, zvc", NULL}},
        {"c1 = offload host zcv\n", {"did you mean 'zvc'?", NULL}},
        {"c1 = offload int2\n",
            {"layers.ini:12: [memory.layers] c1 = offload int2: a copy does not round at random",
                "write encode int2 offload"}},
        {"c1 = encode fp15\n", {"'fp15' must be one of zvc, csr", "did you mean 'fp16'?"}},
        {"c1 = recompute zvc\n", {"'zvc' is too much", NULL}},
        {"c1 = offload disk zvc now\n", {"'now' is too much", NULL}},
        {"poll = keep\n",
            {"layers.ini:12: [memory.layers] 'poll' matches no layer, did you mean 'pool'?", NULL}},
        {"layer7.* = keep\n", {"layers.ini:12: [memory.layers] 'layer7.*' matches no layer",
                                  "the 14 layers are 'c1' to 'loss'"}},
        {"x9* = keep\nc1 = squash\n",
            {"layers.ini:12: [memory.layers] 'x9*'", "layers.ini:13: [memory.layers] c1"}},
    };
    for (size_t i = 0; i < DT_COUNT(wrong); i++) {
        ran r = cli_run("plan FILE", with(wrong[i].lines));
        assert_code(&r, DT_E_CONFIG);
        assert_string_equal(r.out, "");
        for (int k = 0; k < 2 && wrong[i].want[k] != NULL; k++)
            assert_has(r.err, wrong[i].want[k]);
        cli_done(&r);
    }
}

/* So many lines, each wrong: what there is room for is told, with the nearest word; the rest is
 * counted, and no names are made for it. */
static void of_thousands_of_wrong_lines_some_are_told(void **state)
{
    (void)state;
    static const char *const wrong[] = {".* = keep", "* = squash", "d = home host"};
    enum { LINES = 60000, LINE = 32 };
    dt_session *s = open_with("", "keep_all");
    for (size_t k = 0; k < DT_COUNT(wrong); k++) {
        char *text = dt_alloc(LINES + 2, LINE);
        size_t n = (size_t)snprintf(text, LINE, "[memory.layers]\npol = keep\n");
        for (int i = 0; i < LINES; i++)
            n += (size_t)snprintf(text + n, LINE, "x%d%s\n", i, wrong[k]);
        dt_config *c = NULL;
        dt_layer_fates f;
        static dt_err err;
        dt_err_clear(&err);
        assert_ok(parse_config(&c, "many.ini", text, n, &err), &err);
        const long calls = dt_alloc_calls();
        assert_int_equal(dt_layer_fates_open(&f, c, s->graph, DT_CPU, false, &err), DT_E_CONFIG);
        assert_true(dt_alloc_calls() - calls < 1000);
        assert_has(err.text, "many.ini:2: [memory.layers] 'pol' matches no layer, did you mean");
        assert_has(err.text, "many.ini:52: ");
        assert_true(err.n > LINES && err.lost > LINES / 2 && err.lost < err.n);
        dt_layer_fates_close(&f);
        dt_config_destroy(c);
        dt_free(text);
    }
    dt_session_close(s);
}

/* A codec that a build is without is no misspelling: what it wants is said, wherever one names it.
 */
static void a_codec_that_was_not_built_says_what_it_wants(void **state)
{
    NEED_BINARY();
    static const char *const lines[] = {"c1 = encode lz4\n", "c1 = offload host lz4\n"};
    const bool built = dt_build_facts().lz4;
    assert_int_equal(dt_codec_wants("lz4") == NULL, built);
    assert_null(dt_codec_wants("zvc"));
    assert_null(dt_codec_wants("lz5"));
    for (size_t i = 0; i < DT_COUNT(lines); i++) {
        ran r = cli_run("plan FILE", with(lines[i]));
        assert_code(&r, built ? DT_OK : DT_E_CONFIG);
        if (!built)
            assert_has(r.err, "this program was built without liblz4");
        cli_done(&r);
    }
    ran r = cli_run(
        "plan FILE --set memory.policy=cswap --set policy.cswap.codec=lz4", with("c1 = keep\n"));
    assert_code(&r, built ? DT_OK : DT_E_CONFIG);
    if (!built)
        assert_has(r.err, "take another, as zvc");
    cli_done(&r);
}

/* They round values of 32 bits. What a run wrote that had one, and packed nothing, is taken. */
static void a_lossy_codec_is_refused_where_values_are_bf16(void **state)
{
    (void)state;
    static const char *const lossy[] = {"c1 = encode fp8\n", "c1 = offload host csr_fp16\n"};
    const char *const fp32[] = {"train.precision=fp32"}, *const bf16[] = {"train.precision=bf16"};
    for (size_t i = 0; i < 2; i++) {
        dt_session *s = NULL;
        dt_err err = {0};
        assert_fails(dt_session_open(&s, with(lossy[i]), bf16, 1, &err), DT_E_CONFIG, &err,
            "layers.ini:12: [memory.layers] c1 = ");
        assert_non_null(strstr(err.text, i == 0 ? "fp8 rounds values" : "csr_fp16 rounds values"));
        assert_non_null(strstr(err.text, "train.precision is bf16 here"));
        dt_session_close(s);
        memset(&err, 0, sizeof err);
        assert_ok(dt_session_open(&s, with(lossy[i]), fp32, 1, &err), &err);
        dt_session_close(s);
        assert_ok(dt_session_open(&s, with("c1 = encode zvc\n"), bf16, 1, &err), &err);
        char section[128];
        dt_config *c;
        dt_layer_fates f;
        snprintf(section, sizeof section, "[memory.layers]\n%s", lossy[i]);
        assert_ok(parse_config(&c, "config.ini", section, strlen(section), &err), &err);
        assert_ok(dt_layer_fates_open(&f, c, s->graph, DT_CPU, true, &err), &err);
        dt_layer_fates_close(&f);
        dt_config_destroy(c);
        dt_session_close(s);
    }
}

/* By plan, sweep and the run; what a recompute holds until backward is not in vain. */
static void lines_that_save_nothing_are_told(void **state)
{
    NEED_BINARY();
    static const char lines[] = "sum = offload\nout = encode\nc1 = offload\nr* = recompute\n"
                                "r3 = keep\nb2 = offload\nmp = offload\nm* = encode\n";
    char words[3][2048];
    snprintf(words[0], sizeof *words, "plan FILE");
    snprintf(words[1], sizeof *words,
        "sweep FILE --policies chen_sqrt --json --set memory.device_budget=1MiB");
    snprintf(words[2], sizeof *words, "FILE --set run.dir=%s", dt_temp_path("idle"));
    for (size_t i = 0; i < DT_COUNT(words); i++) {
        ran r = cli_run(words[i], with(lines));
        assert_code(&r, 0);
        assert_has(r.err, "layers.ini:12: [memory.layers] sum = offload saves nothing: nothing of");
        assert_has(r.err,
            "layers.ini:13: [memory.layers] out = encode saves nothing: nothing of what "
            "it names waits for backward and can be packed");
        assert_has(
            r.err, "layers.ini:18: [memory.layers] mp = offload saves nothing: of each layer");
        for (int line = 14; line < 18; line++) {
            char place[32];
            snprintf(place, sizeof place, "layers.ini:%d: ", line);
            assert_has_not(r.err, place);
        }
        cli_done(&r);
    }
    ran r = cli_run("plan FILE --set memory.layers.sum=offload", with(""));
    assert_has(r.err, "--set: [memory.layers] sum = offload saves nothing");
    cli_done(&r);
}

/* Codecs that leave zeros out make nothing smaller of values of which nobody knows any. */
static void a_codec_without_zeros_saves_nothing_and_says_so(void **state)
{
    NEED_BINARY();
    static const struct {
        const char *share, *says; /* NULL: that it saves nothing is not said */
    } counted[] = {{"", "packs by zeros, which nobody has counted"},
        {"1", "makes nothing of that smaller by the zeros that were counted"}, {"0.1", NULL}};
    static const char *const codecs[] = {"csr", "rle", "zvc"};
    for (size_t i = 0; i < DT_COUNT(counted); i++)
        for (size_t k = 0; k < DT_COUNT(codecs); k++) {
            char shares[PROFILE_WORDS] = "", words[PROFILE_WORDS + 16], text[64], line[64];
            char says[160];
            snprintf(text, sizeof text, "[density]\n* = %s\n", counted[i].share);
            snprintf(words, sizeof words, "plan FILE %s",
                counted[i].share[0] != '\0' ? profile_words("shares.ini", text, shares) : "");
            snprintf(line, sizeof line, "r* = encode %s\n", codecs[k]);
            snprintf(says, sizeof says,
                "layers.ini:12: [memory.layers] r* = encode %s saves nothing: %s %s", codecs[k],
                codecs[k], counted[i].says != NULL ? counted[i].says : "");
            ran r = cli_run(words, with(line));
            assert_code(&r, 0);
            if (counted[i].says != NULL)
                assert_has(r.err, says);
            else
                assert_has_not(r.err, "saves nothing");
            cli_done(&r);
        }
}

static void lines_that_save_nothing_are_not_laid_at_keep_all(void **state)
{
    NEED_BINARY();
    ran r = cli_run("plan FILE", with("r1 = encode csr\n"));
    assert_code(&r, 0);
    assert_has(r.out, "[memory.layers] saves nothing here: keep_all without it takes ");
    assert_has_not(r.out, "keep_all saves nothing");
    cli_done(&r);
    r = cli_run("plan FILE --set memory.policy=network_wide", with("r1 = encode csr\n"));
    assert_code(&r, 0);
    assert_has(r.out, "network_wide with [memory.layers] saves nothing here: keep_all without");
    cli_done(&r);
    r = cli_run("plan FILE --json", with("d1 = keep\npool = recompute\n"));
    assert_code(&r, 0);
    assert_has(r.out, "[memory.layers] saves nothing here: keep_all without it takes ");
    assert_has(r.out, "; it runs 1 op again");
    cli_done(&r);
    r = cli_run("plan FILE --set memory.policy=keep_all,keep_all", with(""));
    assert_code(&r, 0);
    assert_has_not(r.out, "saves nothing");
    cli_done(&r);
}

static void of_many_lines_that_save_nothing_some_are_told(void **state)
{
    NEED_BINARY();
    char lines[1024] = "";
    for (int i = 1; i <= 12; i++) {
        sprintf(lines + strlen(lines), "%.*ssum = offload\n", i, "************");
        if (i != 9 && i != 12)
            continue;
        ran r = cli_run("plan FILE", with(lines));
        assert_code(&r, 0);
        assert_has(r.err, "layers.ini:19: [memory.layers] ");
        assert_has_not(r.err, "layers.ini:20: ");
        assert_has(r.err, i == 9 ? "[memory.layers]: 1 more line saves nothing"
                                 : "[memory.layers]: 4 more lines save nothing");
        cli_done(&r);
    }
}

static void fates_can_be_set_on_the_command_line(void **state)
{
    NEED_BINARY();
    ran r = cli_run("plan FILE --rows --set memory.layers.c1=offload", with(""));
    assert_code(&r, 0);
    assert_has(r.out, "O c1.y");
    cli_done(&r);
    r = cli_run("plan FILE --set memory.layers.zz9=offload", with(""));
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "--set: [memory.layers] 'zz9' matches no layer");
    cli_done(&r);
}

static void networks_with_a_name_have_layers_too(void **state)
{
    NEED_BINARY();
    ran r = cli_run("plan FILE --rows",
        cli_file("named.ini", "[model]\nname = resnet20\n[train]\nbatch = 2\n"
                              "[memory.layers]\nlayer1.* = recompute\nlayer1.1.* = keep\n"));
    assert_code(&r, 0);
    assert_has(r.out, "layer1.0.conv1.f'");
    assert_has_not(r.out, "layer1.1.conv1.f'");
    assert_has_not(r.out, "layer2.0.conv1.f'");
    cli_done(&r);
}

/* The weights after a run, in a folder of the run's own. */
static char *trained(const char *fates, const char *policy, size_t *bytes)
{
    static int runs;
    char name[32], path[4096], words[4600], *weights = NULL;
    dt_err err = {0};
    snprintf(name, sizeof name, "run%d", ++runs);
    const char *dir = dt_temp_path(name);
    snprintf(words, sizeof words, "FILE --set memory.policy=%s --set run.dir=%.3500s", policy, dir);
    snprintf(path, sizeof path, "%.3500s/checkpoints/model.safetensors", dir);
    ran r = cli_run(words, with(fates));
    assert_code(&r, 0);
    cli_done(&r);
    assert_ok(dt_read_file(&weights, bytes, path, 1 << 24, DT_E_IO, &err), &err);
    return weights;
}

static void no_fate_changes_a_bit_of_the_weights(void **state)
{
    NEED_BINARY();
    static const char *const fates[] = {mix, "* = recompute\n", "* = offload\n",
        "* = recompute\nc? = offload\nr1 = keep\nd1 = keep\n"};
    size_t want_bytes, bytes;
    char *want = trained("", "keep_all", &want_bytes);
    for (size_t i = 0; i < DT_COUNT(fates); i++) {
        char *got = trained(fates[i], i % 2 == 0 ? "keep_all" : "network_wide", &bytes);
        assert_int_equal(bytes, want_bytes);
        assert_memory_equal(got, want, bytes);
        dt_free(got);
    }
    dt_free(want);
    want = trained("", "keep_all", &want_bytes);
    char *other = trained("c1 = keep\n", "keep_all --set train.seed=2", &bytes);
    assert_int_equal(bytes, want_bytes);
    assert_memory_not_equal(other, want, bytes); /* the comparison can tell */
    dt_free(other);
    dt_free(want);
}

DT_TEST_GROUP(memory_layers)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(globs_match_whole_names),
        cmocka_unit_test(globs_of_a_list_may_be_long),
        cmocka_unit_test(without_lines_nothing_changes),
        cmocka_unit_test(what_travels_packed_comes_back_later),
        cmocka_unit_test(move_takes_a_value_to_the_host_and_back),
        cmocka_unit_test(what_is_moved_comes_back_before_it_is_read),
        cmocka_unit_test(copies_back_hide_behind_backward),
        cmocka_unit_test(recompute_runs_a_layer_again),
        cmocka_unit_test(keep_holds_what_a_recompute_needs),
        cmocka_unit_test(a_moved_value_is_back_for_recomputes),
        cmocka_unit_test(neighbours_are_made_again_once),
        cmocka_unit_test(the_last_line_that_matches_holds),
        cmocka_unit_test(stashes_share_the_fate_of_their_layer),
        cmocka_unit_test(evaluation_is_left_alone),
        cmocka_unit_test(policies_leave_pinned_gaps_alone),
        cmocka_unit_test(pinned_gaps_are_not_shown),
        cmocka_unit_test(rewrites_leave_pinned_gaps_alone),
        cmocka_unit_test(later_clones_stop_at_what_is_kept),
        cmocka_unit_test(choosing_leaves_pinned_values_alone),
        cmocka_unit_test(encode_packs_and_move_packs_on_the_way),
        cmocka_unit_test(rows_name_the_line_that_decided),
        cmocka_unit_test(set_takes_globs_with_dots),
        cmocka_unit_test(a_fused_layer_goes_by_both_names),
        cmocka_unit_test(a_codec_that_was_not_built_says_what_it_wants),
        cmocka_unit_test(wrong_lines_are_named_with_their_place),
        cmocka_unit_test(of_thousands_of_wrong_lines_some_are_told),
        cmocka_unit_test(a_lossy_codec_is_refused_where_values_are_bf16),
        cmocka_unit_test(lines_that_save_nothing_are_told),
        cmocka_unit_test(a_codec_without_zeros_saves_nothing_and_says_so),
        cmocka_unit_test(lines_that_save_nothing_are_not_laid_at_keep_all),
        cmocka_unit_test(of_many_lines_that_save_nothing_some_are_told),
        cmocka_unit_test(fates_can_be_set_on_the_command_line),
        cmocka_unit_test(networks_with_a_name_have_layers_too),
        cmocka_unit_test(no_fate_changes_a_bit_of_the_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
