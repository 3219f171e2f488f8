/* Plans as text: what is printed, what is refused, what differs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "memory/plan_text/plan_text.h"
#include "tests/fixture/check.h"

static dt_err err;

/* ---- helpers ---- */

static char *print_with(void (*how)(const dt_plan *p, FILE *f), const dt_plan *p)
{
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    assert_non_null(f);
    how(p, f);
    assert_int_equal(fclose(f), 0);
    return text;
}

static void assert_prints(
    void (*how)(const dt_plan *p, FILE *f), const dt_plan *p, const char *want)
{
    char *got = print_with(how, p);
    assert_string_equal(got, want);
    free(got);
}

static dt_plan *parse(const char *text)
{
    dt_plan *p = NULL;
    memset(&err, 0, sizeof err);
    assert_ok(dti_plan_parse(&p, "a.plan", text, strlen(text), &err), &err);
    return p;
}

static void assert_refused(const char *text, size_t n, const char *says)
{
    static char other;
    dt_plan *p = (dt_plan *)(void *)&other;
    memset(&err, 0, sizeof err);
    assert_fails(dti_plan_parse(&p, "a.plan", text, n, &err), DT_E_DATA, &err, says);
    assert_null(p);
}

static bool same_tensor(const dt_plan_tensor *a, const dt_plan_tensor *b)
{
    return strcmp(a->name, b->name) == 0 && a->role == b->role && a->persistent == b->persistent &&
           a->bytes == b->bytes && a->home == b->home && a->tier == b->tier;
}

static bool same_node(const dt_plan *a, const dt_plan *b, size_t i)
{
    return strcmp(a->node[i].name, b->node[i].name) == 0 &&
           strcmp(a->text + a->node[i].opts, b->text + b->node[i].opts) == 0;
}

static bool same_op(const dt_plan_op *a, const dt_plan_op *b)
{
    bool same = strcmp(a->name, b->name) == 0 && a->kind == b->kind && a->first == b->first &&
                a->n == b->n && a->n_safe == b->n_safe && a->flops == b->flops &&
                strcmp(a->algorithm, b->algorithm) == 0 && a->work == b->work &&
                strcmp(a->layer, b->layer) == 0 && a->node == b->node && a->form == b->form &&
                a->alt == b->alt && a->dtype == b->dtype && a->needs_dx == b->needs_dx &&
                a->vector == b->vector && a->on_host == b->on_host && a->codec == b->codec &&
                a->packed == b->packed && a->n0 == b->n0 && a->n1 == b->n1 &&
                a->count == b->count && a->limit == b->limit;
    for (int i = 0; same && i < a->n_safe; i++)
        same = a->safe[i].out == b->safe[i].out && a->safe[i].in == b->safe[i].in;
    return same;
}

static bool same_arg(const dt_plan_arg *a, const dt_plan_arg *b)
{
    return a->tensor == b->tensor && a->mode == b->mode && a->port == b->port &&
           a->from == b->from && a->to == b->to;
}

static bool same_row(const dt_row *a, const dt_row *b)
{
    return a->kind == b->kind && a->stream == b->stream && a->tier == b->tier && a->op == b->op &&
           a->tensor == b->tensor && a->over == b->over && a->event == b->event &&
           a->reason == b->reason && a->off == b->off && a->slot == b->slot &&
           a->bytes == b->bytes && a->codec == b->codec && a->stored == b->stored;
}

static void assert_same_plan(const dt_plan *a, const dt_plan *b)
{
    assert_string_equal(a->net, b->net);
    assert_string_equal(a->policy, b->policy);
    assert_string_equal(a->pool, b->pool);
    assert_string_equal(a->device, b->device);
    assert_string_equal(a->program, b->program);
    assert_true(a->batch == b->batch && a->budget == b->budget && a->persistent == b->persistent);
    assert_true(a->peak == b->peak && a->bound == b->bound &&
                a->tier_peak[DT_TIER_HOST] == b->tier_peak[DT_TIER_HOST]);
    assert_true(a->out_bytes == b->out_bytes && a->in_bytes == b->in_bytes);
    assert_true(a->n_stream == b->n_stream && memcmp(a->stream, b->stream, sizeof a->stream) == 0);
    assert_true(a->home_n == b->home_n && a->threads == b->threads &&
                a->tier_peak[DT_TIER_DISK] == b->tier_peak[DT_TIER_DISK]);
    assert_int_equal(a->n_event, b->n_event);
    assert_int_equal(a->n_refused, b->n_refused);
    for (size_t i = 0; i < a->n_refused; i++)
        assert_memory_equal(&a->refused[i], &b->refused[i], sizeof a->refused[i]);
    assert_int_equal(a->n_node, b->n_node);
    assert_int_equal(a->n_tensor, b->n_tensor);
    assert_int_equal(a->n_op, b->n_op);
    assert_int_equal(a->n_arg, b->n_arg);
    assert_int_equal(a->n_row, b->n_row);
    assert_int_equal(a->n_reason, b->n_reason);
    for (size_t i = 0; i < a->n_node; i++)
        assert_true(same_node(a, b, i));
    for (size_t i = 0; i < a->n_tensor; i++)
        assert_true(same_tensor(&a->tensor[i], &b->tensor[i]));
    for (size_t i = 0; i < a->n_op; i++)
        assert_true(same_op(&a->op[i], &b->op[i]));
    for (size_t i = 0; i < a->n_arg; i++)
        assert_true(same_arg(&a->arg[i], &b->arg[i]));
    for (size_t i = 0; i < a->n_row; i++)
        assert_true(same_row(&a->row[i], &b->row[i]));
    for (size_t i = 0; i < a->n_reason; i++)
        assert_string_equal(a->reason[i], b->reason[i]);
}

static void assert_round_trip(const dt_plan *p)
{
    char *text = print_with(dt_plan_print, p);
    dt_plan *q = parse(text);
    assert_same_plan(p, q);
    assert_prints(dt_plan_print, q, text);
    dt_plan_destroy(q);
    free(text);
}

/* ---- a plan in code, with something of every kind ---- */

typedef struct sample {
    dt_plan p;
    dt_plan_node node[2];
    char text[32];
    dt_plan_refusal refused[1];
    dt_plan_tensor tensor[4];
    dt_plan_op op[2];
    dt_plan_arg arg[5];
    dt_row row[9];
    char reason[2][DT_REASON_BYTES];
} sample;

static const sample sample_start = {
    .p = {.net = "tiny",
        .policy = "vdnn_conv",
        .pool = "greedy",
        .device = "cpu",
        .program = "first",
        .batch = 2,
        .budget = 4096,
        .persistent = 64,
        .peak = 320,
        .bound = 256,
        .tier_peak[DT_TIER_HOST] = 128,
        .out_bytes = 128,
        .in_bytes = 64,
        .n_event = 3,
        .home_n = 2,
        .threads = 4,
        .n_stream = 3,
        .stream = {{DT_STREAM_COMPUTE, 0, 'c'}, {DT_STREAM_OUT, DT_TIER_HOST, 'o'},
            {DT_STREAM_IN, DT_TIER_HOST, 'i'}},
        .n_refused = 1,
        .n_node = 2,
        .n_text = 11,
        .n_tensor = 4,
        .n_op = 2,
        .n_arg = 5,
        .n_row = 9,
        .n_reason = 2},
    .node = {{"c1", 0}, {"r1", 10}},
    .text = "out=4 k=3",
    .refused = {{"keep_all", "fast", "the device needs 2.00 GiB"}},
    .tensor = {{"c1.weight", DT_ROLE_WEIGHTS, true, 64, 0}, {"x", DT_ROLE_INPUT, false, 64, 0},
        {"c1.y", DT_ROLE_ACTIVATIONS, false, 128, 0}, {"r1.y", DT_ROLE_ACTIVATIONS, false, 128, 0}},
    .op = {{.name = "c1.f",
               .kind = DT_OP_FORWARD,
               .first = 0,
               .n = 3,
               .flops = 4096,
               .layer = "conv",
               .node = 0,
               .form = DT_FORWARD,
               .alt = 1,
               .dtype = DT_BF16,
               .needs_dx = true,
               .vector = true,
               .codec = 1,
               .packed = 77,
               .n0 = 1,
               .n1 = 2,
               .count = 12,
               .limit = 5,
               .algorithm = "engine 2/3 #1",
               .work = 64},
        {.name = "r1.f",
            .kind = DT_OP_FORWARD,
            .first = 3,
            .n = 2,
            .n_safe = 1,
            .safe = {{3, 2}},
            .flops = 0.5,
            .node = -1}},
    .arg = {{1, DT_READ, DT_X, 0, 64}, {0, DT_READ, DT_P, 0, 64}, {2, DT_WRITE, DT_Y, 0, 128},
        {2, DT_READ, DT_PORTS, 64, 128}, {3, DT_UPDATES, DT_PORTS, 0, 128}},
    /* clang-format off */
    .row = {
        /* kind, stream, tier, op, tensor, over, event, reason, codec, off, slot, bytes, stored */
        {DT_ROW_PLACE, 0, 0, -1, 1, -1, -1, -1, 0, 64, 0, 64, 0},
        {DT_ROW_COPY_IN, 2, 0, -1, 1, -1, 0, -1, 0, 64, 1, 64, 0},
        {DT_ROW_WAIT, 0, 0, -1, -1, -1, 0, -1, 0, 0, 0, 0, 0},
        {DT_ROW_PLACE, 0, 0, -1, 2, -1, -1, -1, 0, 128, 0, 128, 0},
        {DT_ROW_COMPUTE, 0, 0, 0, -1, -1, 1, -1, 0, 0, 0, 0, 0},
        {DT_ROW_WAIT, 1, 0, -1, -1, -1, 1, -1, 0, 0, 0, 0, 0},
        {DT_ROW_COPY_OUT, 1, DT_TIER_HOST, -1, 2, -1, 2, 0, 0, 128, 0, 128, 128},
        {DT_ROW_PLACE, 0, 0, -1, 3, 2, -1, 1, 0, 128, 0, 128, 0},
        {DT_ROW_RELEASE, 0, 0, -1, 1, -1, -1, 0, 0, 64, 0, 64, 0},
    },
    /* clang-format on */
    .reason = {"input of conv2, next read row 21", "r1 in place: c1.y has no later reader"},
};

static const dt_plan *fill(sample *s)
{
    *s = sample_start;
    s->p.node = s->node;
    s->p.text = s->text;
    s->p.refused = s->refused;
    s->p.tensor = s->tensor;
    s->p.op = s->op;
    s->p.arg = s->arg;
    s->p.row = s->row;
    s->p.reason = s->reason;
    return &s->p;
}

static const char sample_text[] =
    "dt-plan 3 net=tiny device=cpu program=first policy=vdnn_conv pool=greedy batch=2 budget=4096 "
    "persistent=64 peak=320 bound=256 host=128 disk=0 out=128 in=64 events=3 "
    "home_n=2 threads=4 streams=c:compute,o:out/host,i:in/host\n"
    "refused keep_all fast the device needs 2.00 GiB\n"
    "node c1 out=4 k=3\n"
    "node r1\n"
    "tensor c1.weight weights 64 0\n"
    "tensor x input 64 -\n"
    "tensor c1.y activations 128 -\n"
    "tensor r1.y activations 128 -\n"
    "op c1.f forward 4096 do:conv/forward of:c1 alt:1 type:bf16 samples:1/2 count:12 codec:zvc/77 "
    "limit:5 dx vector r:x0=x r:p0=c1.weight w:y=c1.y k:engine\\x202\\x2f3\\x20\\x231/64\n"
    "op r1.f forward 0.5 r:c1.y[64,128) u:r1.y s:r1.y/c1.y\n"
    "# row s kind     op   tensor off bytes event over slot    reason\n"
    "    0 c PLACE    -    x       64    64 -     -    -       -\n"
    "    1 i COPY_IN  -    x       64    64 e0    -    input:1 -\n"
    "    2 c WAIT     -    -        -     - e0    -    -       -\n"
    "    3 c PLACE    -    c1.y   128   128 -     -    -       -\n"
    "    4 c COMPUTE  c1.f -        -     - e1    -    -       -\n"
    "    5 o WAIT     -    -        -     - e1    -    -       -\n"
    "    6 o COPY_OUT -    c1.y   128   128 e2    -    host:0  input of conv2, next read row 21\n"
    "    7 c PLACE    -    r1.y   128   128 -     c1.y -       r1 in place: c1.y has no later "
    "reader\n"
    "    8 c RELEASE  -    x       64    64 -     -    -       input of conv2, next read row 21\n";

/* ---- printing and reading back ---- */

static void a_plan_prints_as_aligned_tables(void **state)
{
    (void)state;
    sample s;
    assert_prints(dt_plan_print, fill(&s), sample_text);
}

static void what_was_printed_reads_back_the_same(void **state)
{
    (void)state;
    sample s;
    assert_round_trip(fill(&s));
}

static void lines_may_end_as_other_systems_end_them(void **state)
{
    (void)state;
    char text[2 * sizeof sample_text], *to = text;
    for (const char *at = sample_text; *at != '\0'; *to++ = *at++)
        if (*at == '\n')
            *to++ = '\r';
    *to = '\0';
    dt_plan *p = parse(text);
    assert_prints(dt_plan_print, p, sample_text);
    dt_plan_destroy(p);
    assert_refused("dt-plan 3 \r net=x\n", 18, "a.plan:1: byte 0x0d in column 11");
}

static void good_plans_print_as_they_stand(void **state)
{
    (void)state;
    static const char *const names[] = {"kept", "moved", "two_moved", "split"};
    for (size_t i = 0; i < DT_COUNT(names); i++) {
        char path[256], *text;
        size_t n;
        snprintf(path, sizeof path, "tests/plans/good/%s.plan", names[i]);
        assert_ok(
            dt_read_file(&text, &n, dt_source_path(path), DTI_PLAN_TEXT_BYTES, DT_E_DATA, &err),
            &err);
        dt_plan *p = parse(text);
        assert_prints(dt_plan_print, p, text);
        assert_round_trip(p);
        dt_plan_destroy(p);
        dt_free(text);
    }
}

static void odd_names_come_back_unchanged(void **state)
{
    (void)state;
    static const char *const odd[] = {"-", "", " a  b ", "a#3", "a[0,1)", "a/b", "a\\x41",
        "\n\x7f\xff", "x=y", "\xc3\xa4", "#", "e0"};
    for (size_t i = 0; i < DT_COUNT(odd); i++) {
        sample s;
        fill(&s);
        snprintf(s.tensor[1].name, sizeof s.tensor[1].name, "%s", odd[i]);
        snprintf(s.tensor[2].name, sizeof s.tensor[2].name, "r%s", odd[i]);
        snprintf(s.op[0].name, sizeof s.op[0].name, "%s", odd[i]);
        snprintf(s.p.net, sizeof s.p.net, "%s", odd[i]);
        snprintf(s.p.pool, sizeof s.p.pool, "%s", odd[i]);
        snprintf(s.reason[1], sizeof s.reason[1], "%s", odd[i]);
        assert_round_trip(&s.p);
    }
}

static void the_longest_names_come_back_whole(void **state)
{
    (void)state;
    sample s;
    fill(&s);
    memset(s.tensor[2].name, '\n', sizeof s.tensor[2].name - 1);
    memset(s.op[0].name, 'o', sizeof s.op[0].name - 1);
    memset(s.p.net, ' ', sizeof s.p.net - 1);
    memset(s.p.device, 'd', sizeof s.p.device - 1);
    memset(s.reason[0], '\\', sizeof s.reason[0] - 1);
    assert_round_trip(&s.p);
}

static void extreme_numbers_come_back(void **state)
{
    (void)state;
    static const double flops[] = {
        0, 1, 0.1, 1e15, 1e15 - 1, 123456789012345680.0, 1e300, 5e-324, 1.7976931348623157e308};
    for (size_t i = 0; i < DT_COUNT(flops); i++) {
        sample s;
        fill(&s);
        s.op[0].flops = flops[i];
        s.tensor[0].home = s.p.peak = s.row[0].off = s.row[1].slot = UINT64_MAX;
        s.tensor[3].bytes = s.arg[4].to = UINT64_MAX;
        s.arg[4].from = UINT64_MAX;
        s.p.batch = INT64_MAX;
        s.p.n_event = 9;
        s.row[2].event = 8;
        assert_round_trip(&s.p);
    }
}

static void an_empty_plan_comes_back(void **state)
{
    (void)state;
    dt_plan p = {.net = "n"};
    assert_round_trip(&p);
}

static void shared_names_are_told_apart_by_number(void **state)
{
    (void)state;
    sample s;
    fill(&s);
    memcpy(s.tensor[3].name, s.tensor[2].name, sizeof s.tensor[2].name);
    memcpy(s.op[1].name, s.op[0].name, sizeof s.op[0].name);
    char *text = print_with(dt_plan_print, &s.p);
    assert_non_null(
        strstr(text, "op c1.f#1 forward 0.5 r:c1.y#2[64,128) u:c1.y#3 s:c1.y#3/c1.y#2\n"));
    free(text);
    assert_round_trip(&s.p);
}

static void equal_and_unused_reasons_become_one_and_none(void **state)
{
    (void)state;
    sample s;
    fill(&s);
    memcpy(s.reason[1], s.reason[0], sizeof s.reason[0]);
    char *text = print_with(dt_plan_print, &s.p);
    dt_plan *p = parse(text);
    assert_int_equal(p->n_reason, 1);
    assert_int_equal(p->row[6].reason, 0);
    assert_int_equal(p->row[7].reason, 0);
    assert_prints(dt_plan_print, p, text);
    dt_plan_destroy(p);
    free(text);
}

static void comments_and_empty_lines_are_passed_over(void **state)
{
    (void)state;
    char text[sizeof sample_text + 256];
    const char *cut = strstr(sample_text, "op c1.f");
    snprintf(text, sizeof text, "# first\n\n   # \x01 anything at all \xff\n%.*s   \n# between\n%s",
        (int)(cut - sample_text), sample_text, cut);
    text[strlen(text) - 1] = '\0'; /* no newline at the end */
    dt_plan *p = parse(text);
    assert_prints(dt_plan_print, p, sample_text);
    dt_plan_destroy(p);
}

/* As whoever writes one by hand may leave them out. */
static void rows_without_a_number_are_counted(void **state)
{
    (void)state;
    char text[sizeof sample_text];
    memcpy(text, sample_text, sizeof text);
    for (char *row = strstr(text, "# row s"); (row = strchr(row, '\n')) != NULL && row[1] != '\0';
         row++)
        memcpy(row + 1, "    -", 5);
    dt_plan *p = parse(text);
    assert_prints(dt_plan_print, p, sample_text);
    dt_plan_destroy(p);
}

static void indices_out_of_range_are_printed_as_they_are(void **state)
{
    (void)state;
    sample s;
    fill(&s);
    s.row[0] = (dt_row){.kind = 77,
        .stream = 9,
        .tier = 5,
        .op = 2,
        .tensor = -7,
        .over = 4,
        .event = -2,
        .reason = 6,
        .slot = 3};
    s.op[1].first = 4;
    s.arg[0].tensor = 99;
    char *text = print_with(dt_plan_print, &s.p);
    assert_non_null(strstr(text, "?9 ?77"));
    assert_non_null(strstr(text, "r:x0=?99[0,64)"));
    free(text);
    free(print_with(dt_plan_print_short, &s.p));
}

/* ---- the short form ---- */

static void the_short_form_has_an_op_a_line(void **state)
{
    (void)state;
    sample s;
    assert_prints(dt_plan_print_short, fill(&s),
        "P x; I x e0; W e0; P c1.y; C c1.f e1\n"
        "W(o) e1; O c1.y e2; P r1.y over c1.y; R x"
        "  # input of conv2, next read row 21 | r1 in place: c1.y has no later reader\n");
    char path[] = "tests/plans/good/moved.plan", *text;
    size_t n;
    assert_ok(
        dt_read_file(&text, &n, dt_source_path(path), DTI_PLAN_TEXT_BYTES, DT_E_DATA, &err), &err);
    dt_plan *p = parse(text);
    assert_prints(dt_plan_print_short, p,
        "P x; I x e0; P y; W e0; C l1.f e1; R x\n"
        "W(o) e1; O y e2; P z; C l2.f\n"
        "W e2; R y  # back from the host for l3.b\n"
        "P u; C l3.f e3; R z\n"
        "P y; W(i) e3; I y e4; W e4; C l3.b; R y u\n");
    dt_plan_destroy(p);
    dt_free(text);
}

static void the_short_form_gathers_places_but_not_those_over_others(void **state)
{
    (void)state;
    sample s;
    fill(&s);
    s.row[0] = (dt_row){DT_ROW_PLACE, 0, 0, -1, 1, -1, -1, -1, 0, 0, 0, 0, 0};
    s.row[1] = (dt_row){DT_ROW_PLACE, 0, 0, -1, 2, -1, -1, -1, 0, 0, 0, 0, 0};
    s.row[2] = (dt_row){DT_ROW_PLACE, 0, 0, -1, 3, 1, -1, -1, 0, 0, 0, 0, 0};
    s.row[3] = (dt_row){DT_ROW_PLACE, 0, 0, -1, 0, -1, -1, -1, 0, 0, 0, 0, 0};
    s.row[4] = (dt_row){DT_ROW_COMPUTE, 0, 0, 1, -1, -1, -1, -1, 0, 0, 0, 0, 0};
    s.row[5] = (dt_row){DT_ROW_RELEASE, 0, 0, -1, 2, -1, -1, -1, 0, 0, 0, 0, 0};
    s.row[6] = (dt_row){DT_ROW_RELEASE, 0, 0, -1, 3, -1, -1, -1, 0, 0, 0, 0, 0};
    s.row[7] = (dt_row){DT_ROW_COPY_OUT, 0, 0, -1, 3, -1, -1, -1, 0, 0, 0, 0, 0};
    s.p.n_row = 8;
    assert_prints(dt_plan_print_short, &s.p,
        "P x c1.y; P r1.y over x; P c1.weight; C r1.f; R c1.y r1.y\n"
        "O(c) r1.y\n");
    s.p.n_row = 0;
    assert_prints(dt_plan_print_short, &s.p, "");
}

/* ---- what is refused ---- */

/* One edit of the sample each. */
static const struct refusal {
    const char *from, *to, *says;
} refusals[] = {
    {"dt-plan 3", "dt_plan 3", "a.plan:1: 'dt_plan'"},
    {"dt-plan 3", "dt-plan 2", "a.plan:1: version '2' of the format is not read, only 3: write"},
    {"dt-plan 3", "dt-plan 1", "a.plan:1: version '1'"},
    {"streams=c:compute", "streams=", "a.plan:1: stream '' is not LETTER:KIND/TIER"},
    {"streams=c:compute", "streams=c", "stream 'c' is not LETTER:KIND/TIER"},
    {"streams=c:compute", "streams=co:compute", "stream 'co:compute' is not LETTER:KIND/TIER"},
    {"streams=c:compute", "streams=C:compute", "stream 'C:compute' is not LETTER:KIND/TIER"},
    {"streams=c:compute", "streams=c:compute/disk", "stream 'c:compute/disk' is neither compute"},
    {"o:out/host", "o:out",
        "stream 'o:out' is neither compute, compute/host, nor in or out and a tier"},
    {"o:out/host", "o:sideways/host", "stream 'o:sideways/host' is neither compute"},
    {"o:out/host", "o:out/tape", "stream 'o:out/tape' is neither compute"},
    {"o:out/host", "c:out/host", "two streams are called c"},
    {"i:in/host", "i:in/host,", "stream '' is not"},
    {"i:in/host", "i:in/host,j:in/host,k:in/host,l:in/host,m:in/host,n:in/host,p:in/host",
        "more than 8 streams"},
    {"refused keep_all fast the device needs 2.00 GiB", "refused", "policy is missing"},
    {"fast the device needs 2.00 GiB", "", "algorithms is missing"},
    {" the device needs 2.00 GiB", "", "why is missing"},
    {"node c1", "node c1\nrefused b fast why", "refusals come before nodes"},
    {" threads=4", "",
        "a.plan:1: 'streams=c:compute,o:out/host,i:in/host' stands where threads=... is due"},
    {"threads=4", "threads=-4", "threads '-4'"},
    {"node r1", "node c1", "a.plan:4: node 'c1' is already on line 3"},
    {"node r1", "node", "node is missing"},
    {"node r1",
        "node "
        "r23456789a123456789b123456789c123456789d123456789e123456789f123456789g123456789h123456789"
        "i123456",
        "...' has more than 95 bytes"},
    {"out=4", "out\\4", "a.plan:3: options '\\4"},
    {"out=4 k=3", "out=4\\", "a.plan:3: options 'out=4\\' end in"},
    {"do:conv/forward", "do:conv", "a.plan:9: 'conv' is not LAYER/FORM"},
    {"do:conv/forward", "do:conv/sideways", "form 'sideways' is not known"},
    {"do:conv/forward", "do:\\/forward", "names no layer"},
    {"do:conv/forward", "do:conv/eval do:conv/eval", "a second do:conv/eval"},
    {"do:conv/forward ", "", "'of:c1' does not begin with"},
    {"of:c1", "of:c2", "there is no node 'c2'"},
    {"alt:1", "alt:3", "alternative 3 is larger than 2"},
    {"type:bf16", "type:fp64", "type 'fp64' is not known"},
    {"samples:1/2", "samples:1", "'1' is not FROM/TO"},
    {"samples:1/2", "samples:-1/2", "start of the samples '-1'"},
    {"count:12", "count:x", "count 'x'"},
    {"limit:5", "limit:-5", "limit '-5'"},
    {"codec:zvc/77", "codec:zvc", "'zvc' is not CODEC/BYTES"},
    {"codec:zvc/77", "codec:lzw/77", "codec 'lzw' is not known"},
    {"r:x0=x", "r:x16=x", "port 'x16' is not known"},
    {"r:x0=x", "r:=x", "port '' is not known"},
    {"net=tiny", "name=tiny", "a.plan:1: 'name=tiny' stands where net=... is due"},
    {"net=tiny", "net=", "a.plan:1: net is missing"},
    {"device=cpu ", "", "'program=first' stands where device=... is due"},
    {"device=cpu", "device=sixteen-bytes-oh", "longer than 15 bytes"},
    {"batch=2", "batch=-2", "a.plan:1: batch '-2' is not a decimal number"},
    {"batch=2", "batch=02", "batch '02'"},
    {"batch=2", "batch=2.0", "batch '2.0'"},
    {"batch=2", "batch=9223372036854775808", "larger than 9223372036854775807"},
    {"budget=4096", "budget=18446744073709551616", "larger than 18446744073709551615"},
    {"budget=4096", "budget=99999999999999999999999", "larger than 18446744073709551615"},
    {"budget=4096", "budget=", "budget '' is not a decimal number"},
    {"events=3", "events=2147483648", "larger than 2147483647"},
    {"events=3", "events=10", "events=10, but there are only 9 rows"},
    {"events=3", "events=2", "a.plan:18: event 2, but the header says events=2"},
    {"i:in/host", "i:in/host more=1", "a.plan:1: 'more=1' is one field too many"},
    {"tensor x input", "tensor c1.y input", "a.plan:7: tensor 'c1.y' is already on line 6"},
    {"tensor x input", "tensor x#0 input", "tensor 'x#0' has number 1"},
    {"tensor x input", "tensor x#one input", "tensor 'one' is not a decimal number"},
    {"tensor x input", "tensor x\\ input", "a.plan:6: tensor 'x\\'"},
    {"tensor x input", "tensor x\\x4 input", "\\ is not followed"},
    {"tensor x input", "tensor x\\x00 input", "not 00"},
    {"tensor x input", "tensor x\\xAB input", "\\ is not followed"},
    {"tensor x input", "tensor x picture", "a.plan:6: role 'picture' is not known"},
    {"x input 64 -", "x input 6x4 -", "bytes '6x4'"},
    {"x input 64 -", "x input 64", "home '' is not a decimal number"},
    {"x input 64 -", "x input 64 --", "home '--'"},
    {"x input 64 -", "x input", "bytes '' is not"},
    {"x input 64 -", "x", "role is missing"},
    {"tensor x input 64 -", "tensor", "tensor is missing"},
    {"x input 64 -", "x input 64 - -", "'-' is one field too many"},
    {"op c1.f", "op r1.f", "a.plan:10: op 'r1.f' is already on line 9"},
    {"c1.f forward", "c1.f sideways", "kind of op 'sideways' is not known"},
    {"forward 4096", "forward -1", "flops '-1' is not a finite decimal number"},
    {"forward 4096", "forward 1e999", "flops '1e999'"},
    {"forward 4096", "forward nan", "flops 'nan'"},
    {"forward 4096", "forward 0x10", "flops '0x10'"},
    {"forward 4096", "forward 1e", "flops '1e'"},
    {"r:x0=x ", "x:x ", "a.plan:9: 'x:x' does not begin with do:, r:, w:, u:, s: or k:"},
    {"r:x0=x ", "r:x0=q ", "there is no tensor 'q'"},
    {"k:engine", "k:a/1 k:engine", "a.plan:9: a second k:"},
    {"1/64", "1", "is not ALGORITHM/WORK"},
    {"k:engine\\x202\\x2f3\\x20\\x231/", "k:\\/", "names no algorithm"},
    {"1/64", "1/-64", "scratch of the algorithm '-64'"},
    {"r:x0=x ", "r:x0= ", "tensor is missing"},
    {"[64,128)", "[64,129)", "end of the range 129 is larger than 128"},
    {"[64,128)", "[128,64)", "start of the range 128 is larger than 64"},
    {"[64,128)", "[64,128]", "does not end in [from,to)"},
    {"[64,128)", "[64)", "does not end in [from,to)"},
    {"[64,128)", "[", "does not end in [from,to)"},
    {"[64,128)", "[,)", "end of the range ''"},
    {"s:r1.y/c1.y", "s:r1.y", "'r1.y' is not OUT/IN"},
    {"s:r1.y/c1.y", "s:r1.y/q", "there is no tensor 'q'"},
    {"s:r1.y/c1.y", "s:x/x s:x/x s:x/x s:x/x", "more than 3 safe pairs"},
    {"    1 i COPY_IN ", "    2 i COPY_IN ", "a.plan:13: row 2 stands where row 1 is due"},
    {"    1 i COPY_IN ", "    x i COPY_IN ", "number of the row 'x'"},
    {"i COPY_IN", "q COPY_IN", "a.plan:13: stream 'q' is none of the header's"},
    {"i COPY_IN", "coi COPY_IN", "stream 'coi'"},
    {"i COPY_IN", "i COPY", "kind of row 'COPY' is not known"},
    {"c1.f -        -     - e1", "-    -        -     - e1", "a.plan:16: COMPUTE needs its op"},
    {"c1.f -        -     - e1", "c2.f -        -     - e1", "there is no op 'c2.f'"},
    {"c1.f -        -     - e1", "c1.f x        -     - e1",
        "COMPUTE has no tensor, but here stands 'x'"},
    {"c1.f -        -     - e1", "c1.f -        0     - e1", "COMPUTE has no off"},
    {"PLACE    -    x       64", "PLACE    -    x        -", "a.plan:12: PLACE needs its off"},
    {"PLACE    -    x       64", "PLACE    -    q       64", "there is no tensor 'q'"},
    {"64 e0    -    input:1 -", "64 e0    -    -       -", "COPY_IN needs its slot"},
    {"input:1", "tape:1", "tier 'tape' is not known"},
    {"input:1", "input", "slot 'input' is not TIER:OFFSET"},
    {"input:1", "input:-1", "slot '-1'"},
    {"64 e0    -    input:1 -", "64 e0    x    input:1 -", "COPY_IN has no over"},
    {"64 e0    -    input:1 -", "64 0     -    input:1 -", "event '0' does not begin with e"},
    {"64 e0    -    input:1 -", "64 e3    -    input:1 -", "event 3, but the header says events=3"},
    {"64 e0    -    input:1 -", "64 e0    -    input:1", "reason is missing"},
    {"64 e0    -    input:1 -", "64 e0    -", "a.plan:13: the row ends before its slot"},
    {"128   128 -     c1.y", "128   128 -     c2.y", "there is no tensor 'c2.y'"},
    {"input of conv2", "input\tof conv2", "a.plan:18: byte 0x09 in column"},
    {"input of conv2", "input\r", "byte 0x0d"},
    {"input of conv2", "input of \\conv2", "reason 'input of \\conv2"},
    {"# row s kind ", "tensor z input 64 -\n# row s kind ",
        "a.plan:11: refusals come before nodes, nodes before tensors, tensors before ops, ops "
        "before rows"},
    {"    1 i COPY_IN ", "op z forward 0\n    1 i COPY_IN ",
        "a.plan:13: refusals come before nodes"},
};

static void wrong_values_are_refused_with_line_and_value(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(refusals); i++) {
        const struct refusal *r = &refusals[i];
        char text[sizeof sample_text + 256];
        const char *at = strstr(sample_text, r->from);
        if (at == NULL)
            fail_msg("the sample has no '%s'", r->from);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - sample_text), sample_text, r->to,
            at + strlen(r->from));
        assert_refused(text, strlen(text), r->says);
    }
}

/* The sample with so many refusals; free it. */
static char *with_refusals(int n)
{
    const char *own = strstr(sample_text, "refused"), *rest = strstr(sample_text, "node c1");
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    assert_non_null(f);
    fprintf(f, "%.*s", (int)(own - sample_text), sample_text);
    for (int i = 0; i < n; i++)
        fputs("refused a a a\n", f);
    fputs(rest, f);
    assert_int_equal(fclose(f), 0);
    return text;
}

/* Each has room for a long reason, and a file could say millions of short ones. */
static void more_refusals_than_a_ladder_has_rungs_are_refused(void **state)
{
    (void)state;
    enum { MOST = 64 };
    char *most = with_refusals(MOST), *more = with_refusals(MOST + 1);
    dt_plan *p = parse(most);
    assert_int_equal(p->n_refused, MOST);
    assert_refused(more, strlen(more), "a.plan:66: more than 64 refusals");
    dt_plan_destroy(p);
    free(most);
    free(more);
}

static void text_without_a_plan_is_refused(void **state)
{
    (void)state;
    assert_refused("", 0, "a.plan: there is no plan: it is empty");
    assert_refused("# dt-plan 3\n\n", 13, "there is no plan");
    assert_refused("\0\0", 2, "byte 0x00");
    assert_refused("\x7f"
                   "ELF",
        4, "a.plan:1: byte 0x7f in column 1");
}

static void long_lines_are_refused(void **state)
{
    (void)state;
    const size_t n = DTI_PLAN_LINE_BYTES + 2;
    char *text = dt_alloc(n + 1, 1);
    assert_non_null(text);
    memset(text, 'a', n);
    assert_refused(text, n, "a.plan:1: the line has 65538 bytes");
    assert_refused(text, DTI_PLAN_LINE_BYTES, "begins no plan: a plan begins with 'dt-plan ");
    dt_free(text);
}

static void large_texts_are_refused_before_they_are_read(void **state)
{
    (void)state;
    assert_refused("", (size_t)DTI_PLAN_TEXT_BYTES + 1, "33554433 bytes");
}

/* As some editors write them: one plan, or two behind each other. */
static void a_byte_order_mark_is_passed_over(void **state)
{
    (void)state;
    static const char mark[] = "\xEF\xBB\xBF";
    const size_t n = strlen(mark), one = sizeof sample_text - 1;
    char *text = dt_alloc(n + 2 * one, 1);
    assert_non_null(text);
    memcpy(text, mark, n);
    memcpy(text + n, sample_text, one);
    memcpy(text + n + one, sample_text, one);
    dt_plan *p = NULL;
    dt_plans all;
    memset(&err, 0, sizeof err);
    assert_ok(dti_plan_parse(&p, "a.plan", text, n + one, &err), &err);
    dt_plan_destroy(p);
    assert_ok(dt_plans_parse(&all, "a.plan", text, n + 2 * one, &err), &err);
    assert_int_equal(all.n, 2);
    dt_plans_deinit(&all);
    dt_free(text);
}

/* Blanks before a line say nothing, before that with which a plan begins no more than elsewhere. */
static void plans_behind_blanks_are_told_apart(void **state)
{
    (void)state;
    const size_t one = sizeof sample_text - 1;
    char *text = dt_alloc(2 + 2 * one, 1);
    assert_non_null(text);
    memset(text, ' ', 2 + 2 * one);
    memcpy(text + 1, sample_text, one);
    memcpy(text + 2 + one, sample_text, one);
    dt_plans all;
    memset(&err, 0, sizeof err);
    assert_ok(dt_plans_parse(&all, "a.plan", text, 2 + 2 * one, &err), &err);
    assert_int_equal(all.n, 2);
    dt_plans_deinit(&all);
    dt_free(text);
}

static void every_beginning_of_a_plan_is_read_or_refused(void **state)
{
    (void)state;
    const long live = dti_alloc_live();
    for (size_t n = 0; n < sizeof sample_text; n++) {
        char *exact = dt_alloc(n, 1); /* so that a read behind it is seen */
        assert_non_null(exact);
        memcpy(exact, sample_text, n);
        dt_plan *p = NULL;
        memset(&err, 0, sizeof err);
        const dt_status st = dti_plan_parse(&p, "a.plan", exact, n, &err);
        assert_true(st == DT_OK || st == DT_E_DATA);
        assert_true((st == DT_OK) == (p != NULL) && (st == DT_OK) == (err.n == 0));
        dt_plan_destroy(p);
        dt_free(exact);
        assert_int_equal(dti_alloc_live(), live);
    }
}

static void running_out_of_memory_is_said(void **state)
{
    (void)state;
    const long live = dti_alloc_live();
    for (long k = 1;; k++) {
        dt_plan *p = NULL;
        memset(&err, 0, sizeof err);
        dti_alloc_fail_at(k);
        const dt_status st = dti_plan_parse(&p, "a.plan", sample_text, strlen(sample_text), &err);
        dti_alloc_fail_at(0);
        if (st == DT_OK) {
            assert_true(k > 8);
            dt_plan_destroy(p);
            assert_int_equal(dti_alloc_live(), live);
            break;
        }
        assert_int_equal(st, DT_E_NOMEM);
        assert_int_equal(err.n, 1);
        assert_null(p);
        assert_int_equal(dti_alloc_live(), live);
    }
}

static void printing_needs_no_memory(void **state)
{
    (void)state;
    sample s;
    fill(&s);
    memcpy(s.tensor[3].name, s.tensor[2].name, sizeof s.tensor[2].name);
    char *want = print_with(dt_plan_print, &s.p);
    for (long k = 1; k <= 6; k++) {
        dti_alloc_fail_at(k);
        assert_prints(dt_plan_print, &s.p, want);
        dti_alloc_fail_at(0);
    }
    free(want);
}

/* ---- what differs ---- */

static void assert_diff(const dt_plan *a, const dt_plan *b, const char *want)
{
    char *got = NULL;
    size_t n;
    FILE *f = open_memstream(&got, &n);
    assert_non_null(f);
    const bool differs = dt_plan_diff(a, b, f);
    assert_int_equal(fclose(f), 0);
    assert_string_equal(got, want);
    assert_true(differs == (n > 0));
    free(got);
}

static void a_plan_does_not_differ_from_itself(void **state)
{
    (void)state;
    sample a, b;
    assert_diff(fill(&a), fill(&b), "");
}

static void differences_of_the_header_come_first(void **state)
{
    (void)state;
    sample a, b;
    fill(&a);
    fill(&b);
    b.p.peak = 384;
    snprintf(b.p.policy, sizeof b.p.policy, "keep all");
    b.row[8].off = 128;
    assert_diff(&a.p, &b.p,
        "- policy=vdnn_conv\n+ policy=keep\\x20all\n- peak=320\n+ peak=384\n"
        "- 8 c RELEASE - x 64 64 - - - input of conv2, next read row 21\n"
        "+ 8 c RELEASE - x 128 64 - - - input of conv2, next read row 21\n");
}

static void a_row_more_is_the_only_difference(void **state)
{
    (void)state;
    sample a, b;
    fill(&a);
    fill(&b);
    memmove(b.row + 2, b.row + 3, 6 * sizeof *b.row);
    b.p.n_row = 8;
    assert_diff(&a.p, &b.p, "- 2 c WAIT - - - - e0 - - -\n");
    assert_diff(&b.p, &a.p, "+ 2 c WAIT - - - - e0 - - -\n");
}

static void a_moved_row_leaves_the_longest_rest_in_common(void **state)
{
    (void)state;
    sample a, b;
    fill(&a);
    fill(&b);
    memmove(b.row, b.row + 1, 8 * sizeof *b.row);
    b.row[8] = a.row[0];
    assert_diff(&a.p, &b.p, "- 0 c PLACE - x 64 64 - - - -\n+ 8 c PLACE - x 64 64 - - - -\n");
}

static void tables_are_compared_as_well(void **state)
{
    (void)state;
    sample a, b;
    fill(&a);
    fill(&b);
    b.tensor[0].home = 64;
    b.op[1].n_safe = 0;
    assert_diff(&a.p, &b.p,
        "- tensor c1.weight weights 64 0\n+ tensor c1.weight weights 64 64\n"
        "- op r1.f forward 0.5 r:c1.y[64,128) u:r1.y s:r1.y/c1.y\n"
        "+ op r1.f forward 0.5 r:c1.y[64,128) u:r1.y\n");
}

static void without_memory_a_section_that_differs_is_printed_whole(void **state)
{
    (void)state;
    sample a, b;
    fill(&a);
    fill(&b);
    b.row[0].off = 0;
    const long live = dti_alloc_live();
    for (long k = 1; k < 40; k++) {
        char *got = NULL;
        size_t n;
        FILE *f = open_memstream(&got, &n);
        assert_non_null(f);
        dti_alloc_fail_at(k);
        assert_true(dt_plan_diff(&a.p, &b.p, f));
        dti_alloc_fail_at(0);
        assert_int_equal(fclose(f), 0);
        assert_non_null(strstr(got, "- 0 c PLACE - x 64 64 - - - -\n"));
        assert_non_null(strstr(got, "+ 0 c PLACE - x 0 64 - - - -\n"));
        assert_int_equal(dti_alloc_live(), live);
        free(got);
    }
}

/* Names, reasons and rows by the ten thousand: nothing may take the square of that. */
static void large_plans_take_no_square_time(void **state)
{
    (void)state;
    enum { N = 20000 };
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    assert_non_null(f);
    fprintf(f, "%.*s", (int)(strchr(sample_text, '\n') - sample_text + 1), sample_text);
    for (int i = 0; i < N; i++)
        fprintf(f, "tensor t%d input 64 -\n", i);
    for (int i = 0; i < N; i++)
        fprintf(f, "op o%d forward 1 r:t%d\n", i, N - 1 - i);
    for (int i = 0; i < N; i++)
        fprintf(f, "%d c PLACE - t%d %d 64 - - - because of %d\n", i, i, i, i);
    fclose(f);
    dt_plan *p = parse(text), *q = parse(text);
    assert_int_equal(p->n_reason, N);
    for (size_t i = 0; i < N; i++)
        q->row[i].off++;
    f = fopen("/dev/null", "w");
    assert_non_null(f);
    assert_true(dt_plan_diff(p, q, f));
    dt_plan_print(p, f);
    fclose(f);
    dt_plan_destroy(p);
    dt_plan_destroy(q);
    free(text);
}

DT_TEST_GROUP(plan_text)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_prints_as_aligned_tables),
        cmocka_unit_test(what_was_printed_reads_back_the_same),
        cmocka_unit_test(lines_may_end_as_other_systems_end_them),
        cmocka_unit_test(good_plans_print_as_they_stand),
        cmocka_unit_test(odd_names_come_back_unchanged),
        cmocka_unit_test(the_longest_names_come_back_whole),
        cmocka_unit_test(extreme_numbers_come_back),
        cmocka_unit_test(an_empty_plan_comes_back),
        cmocka_unit_test(shared_names_are_told_apart_by_number),
        cmocka_unit_test(equal_and_unused_reasons_become_one_and_none),
        cmocka_unit_test(comments_and_empty_lines_are_passed_over),
        cmocka_unit_test(rows_without_a_number_are_counted),
        cmocka_unit_test(indices_out_of_range_are_printed_as_they_are),
        cmocka_unit_test(the_short_form_has_an_op_a_line),
        cmocka_unit_test(the_short_form_gathers_places_but_not_those_over_others),
        cmocka_unit_test(wrong_values_are_refused_with_line_and_value),
        cmocka_unit_test(more_refusals_than_a_ladder_has_rungs_are_refused),
        cmocka_unit_test(text_without_a_plan_is_refused),
        cmocka_unit_test(long_lines_are_refused),
        cmocka_unit_test(large_texts_are_refused_before_they_are_read),
        cmocka_unit_test(a_byte_order_mark_is_passed_over),
        cmocka_unit_test(plans_behind_blanks_are_told_apart),
        cmocka_unit_test(every_beginning_of_a_plan_is_read_or_refused),
        cmocka_unit_test(running_out_of_memory_is_said),
        cmocka_unit_test(printing_needs_no_memory),
        cmocka_unit_test(a_plan_does_not_differ_from_itself),
        cmocka_unit_test(differences_of_the_header_come_first),
        cmocka_unit_test(a_row_more_is_the_only_difference),
        cmocka_unit_test(a_moved_row_leaves_the_longest_rest_in_common),
        cmocka_unit_test(tables_are_compared_as_well),
        cmocka_unit_test(without_memory_a_section_that_differs_is_printed_whole),
        cmocka_unit_test(large_plans_take_no_square_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
