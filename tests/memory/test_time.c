/* Costs and the simulator: equal to a stepper that knows nothing of events in time, never slower
 * for a faster part, numbers worked by hand, and profiles that come back as they were or are
 * refused. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/base/philox.h"
#include "engine/base/text.h"
#include "layers/weighted/conv.h"
#include "memory/codec.h"
#include "memory/time/card_costs.h"
#include "memory/time/cost_file.h"
#include "memory/time/simulate.h"
#include "tests/fixture/check.h"
#include "tests/fixture/random_graph.h"

enum { ROWS = 40, NETS = 1000, PARTS = 256, OPS = ROWS };

/* A plan of rows alone, which is all that the simulator reads. One second is one tick: ops by their
 * operations, copies by their bytes. */
typedef struct rows {
    dt_plan p;
    dt_row row[ROWS];
    dt_plan_op op[OPS];
    dt_plan_tensor tensor[1];
    uint64_t seed, drawn;
} rows;

static int draw(rows *r, int n)
{
    const dt_u32x4 x = dt_random(r->seed, DT_RANDOM_TEST, 1, 2, r->drawn++);
    return (int)(x.v[0] % (uint32_t)n);
}

/* Ticks a second, so that numbers are small and whole. */
static dt_costs ticks(void)
{
    dt_costs c = dt_costs_default;
    for (int w = 0; w < DT_WORKS; w++)
        c.flops[w][DT_F32] = 1;
    for (int t = 0; t < DT_TIERS; t++)
        for (int d = 0; d < DT_TIER_DIRECTIONS; d++)
            c.link[t][d] = c.thread_link[t][d] = (dt_link){0, 1};
    return c;
}

static void add_compute(rows *r, int stream, int ticks_)
{
    const int32_t op = (int32_t)r->p.n_op++;
    r->op[op] = (dt_plan_op){.layer = "relu", .node = -1, .flops = ticks_};
    r->row[r->p.n_row++] = (dt_row){.kind = DT_ROW_COMPUTE,
        .stream = (uint8_t)stream,
        .op = op,
        .tensor = -1,
        .event = r->p.n_event++};
}

static void add_copy(rows *r, int stream, int ticks_)
{
    const bool out = stream == DT_USUAL_OUT || stream == DT_USUAL_WRITE;
    const bool disk = stream == DT_USUAL_WRITE || stream == DT_USUAL_READ;
    r->row[r->p.n_row++] = (dt_row){.kind = out ? DT_ROW_COPY_OUT : DT_ROW_COPY_IN,
        .stream = (uint8_t)stream,
        .tier = disk ? DT_TIER_DISK : DT_TIER_HOST,
        .op = -1,
        .bytes = (uint64_t)ticks_,
        .event = r->p.n_event++};
}

static void add_wait(rows *r, int stream, int32_t event)
{
    r->row[r->p.n_row++] = (dt_row){
        .kind = DT_ROW_WAIT, .stream = (uint8_t)stream, .op = -1, .tensor = -1, .event = event};
}

static void begin(rows *r, uint64_t seed)
{
    memset(r, 0, sizeof *r);
    r->seed = seed;
    r->p.row = r->row;
    r->p.op = r->op;
    r->p.tensor = r->tensor;
    r->p.n_tensor = 1;
    r->p.n_stream = dt_usual_streams(r->p.stream, true);
}

static void random_rows(rows *r, uint64_t seed)
{
    begin(r, seed);
    while (r->p.n_row < ROWS) {
        const int s = draw(r, DT_USUAL_STREAMS);
        if (r->p.n_event > 0 && draw(r, 3) == 0)
            add_wait(r, s, draw(r, r->p.n_event));
        else if (s == DT_USUAL_COMPUTE || s == DT_USUAL_HOST)
            add_compute(r, s, draw(r, 9));
        else
            add_copy(r, s, draw(r, 9));
    }
}

/* The same by small steps of time: in each, every stream whose row may run gets on by its rate. */
static double stepped(const rows *r, const dt_costs *c, bool inline_copies)
{
    size_t at[DT_USUAL_STREAMS] = {0};
    double left[ROWS];
    bool happened[ROWS] = {false}, waited[ROWS] = {false};
    const double dt = 1.0 / PARTS;
    int64_t t = 0;
    for (size_t i = 0; i < r->p.n_row; i++)
        left[i] = r->row[i].kind == DT_ROW_COMPUTE ? r->op[r->row[i].op].flops
                  : r->row[i].kind == DT_ROW_WAIT  ? 0
                                                   : (double)r->row[i].bytes;
    for (;; t++) {
        bool busy[DT_USUAL_STREAMS] = {false}, waits[DT_USUAL_STREAMS], moved = true, any = false;
        size_t now[DT_USUAL_STREAMS];
        while (moved) {
            moved = false;
            for (int k = 0; k < DT_USUAL_STREAMS; k++) {
                size_t i = at[k];
                const bool shared = k == DT_USUAL_OUT || k == DT_USUAL_IN;
                busy[k] = waits[k] = false;
                if (inline_copies && shared)
                    continue;
                while (i < r->p.n_row) {
                    const int s = r->row[i].stream;
                    const bool host = s == DT_USUAL_OUT || s == DT_USUAL_IN;
                    if (s == k || (inline_copies && host && k == DT_USUAL_COMPUTE))
                        break;
                    i++;
                }
                at[k] = i;
                if (i == r->p.n_row)
                    continue;
                const bool wait = r->row[i].kind == DT_ROW_WAIT;
                if (wait && !happened[r->row[i].event]) {
                    now[k] = i;
                    waits[k] = true;
                } else if (left[i] <= 1e-9) {
                    if (!wait)
                        happened[r->row[i].event] = true;
                    at[k] = i + 1;
                    moved = true;
                } else {
                    busy[k] = true;
                    now[k] = i;
                }
            }
        }
        for (int k = 0; k < DT_USUAL_STREAMS; k++) {
            any = any || busy[k];
            if (waits[k]) {
                waited[now[k]] = true;
                left[now[k]] = c->wake;
            }
        }
        if (!any)
            return (double)t * dt;
        for (int k = 0; k < DT_USUAL_STREAMS; k++) {
            double by = 1;
            if (!busy[k])
                continue;
            for (int m = 0; m < DT_USUAL_STREAMS && !waited[now[k]]; m++)
                if (m != k && busy[m] && !waited[now[m]])
                    by *= c->slow[r->row[now[k]].stream][r->row[now[m]].stream];
            left[now[k]] -= dt / by;
        }
    }
}

static double simulated(const rows *r, const dt_costs *c, bool inline_copies)
{
    dt_timeline t;
    dt_err err = {0};
    const dt_simulate_opts o = {.inline_copies = inline_copies};
    assert_ok(dt_simulate(&t, &r->p, c, &o, &err), &err);
    double ends = 0, longest = 0;
    for (size_t i = 0; i < t.n; i++) {
        assert_true(t.end[i] >= t.begin[i]);
        ends = t.end[i] > ends ? t.end[i] : ends;
    }
    for (int k = 0; k < DT_USUAL_STREAMS; k++)
        longest = t.alone[k] > longest ? t.alone[k] : longest;
    assert_true(fabs(ends - t.seconds) <= 1e-9 && t.seconds >= longest - 1e-9);
    const double seconds = t.seconds;
    dt_timeline_deinit(&t);
    return seconds;
}

/* Whether a hair more or less decides if somebody waits, who then has to be woken: steps of time
 * cannot tell. */
static bool tied(const rows *r, const dt_costs *c, bool inline_copies, double got)
{
    static const double hair[] = {1 - 1e-7, 1 + 1e-7};
    for (size_t i = 0; i < DT_COUNT(hair); i++) {
        dt_costs near = *c;
        for (int k = 0; k < DT_USUAL_STREAMS * DT_USUAL_STREAMS; k++) {
            double *slow = &near.slow[k / DT_USUAL_STREAMS][k % DT_USUAL_STREAMS];
            *slow *= *slow > 1 ? hair[i] : 1;
        }
        if (!(fabs(simulated(r, &near, inline_copies) - got) < 1e-3))
            return true;
    }
    return false;
}

static void it_is_what_a_stepper_finds(void **state)
{
    (void)state;
    int slowed = 0, waited = 0, ties = 0;
    for (uint64_t seed = 0; seed < NETS; seed++) {
        rows r;
        dt_costs c = ticks();
        random_rows(&r, seed);
        if (seed % 3 == 1)
            c.slow[DT_USUAL_COMPUTE][DT_USUAL_OUT] = c.slow[DT_USUAL_READ][DT_USUAL_WRITE] = 2;
        c.wake = (double)(seed / 3 % 3);
        if (seed % 3 == 2)
            c.slow[DT_USUAL_COMPUTE][DT_USUAL_READ] = c.slow[DT_USUAL_READ][DT_USUAL_COMPUTE] = 1.5;
        const bool inl = seed % 2 == 0;
        const double want = stepped(&r, &c, inl), got = simulated(&r, &c, inl);
        const double slack = seed % 3 == 0 ? 1e-9 : (double)ROWS * 2 / PARTS;
        const bool tie = c.wake > 0 && seed % 3 != 0 && tied(&r, &c, inl, got);
        ties += tie;
        if (!(fabs(got - want) <= slack) && !tie)
            fail_msg("seed %d: %g by steps, %g simulated", (int)seed, want, got);
        const dt_costs even = ticks();
        slowed += got > simulated(&r, &even, inl) + 1e-9;
        double all = 0;
        for (size_t i = 0; i < r.p.n_op; i++)
            all += r.op[i].flops;
        waited += got > all + 1e-9;
    }
    assert_true(slowed > NETS / 10 && waited > NETS / 4); /* the cases are cases */
    assert_true(ties < NETS / 10);
}

static void a_faster_part_makes_nothing_slower(void **state)
{
    (void)state;
    const dt_costs c = ticks();
    for (uint64_t seed = 0; seed < NETS; seed++) {
        rows r;
        random_rows(&r, seed);
        const double before = simulated(&r, &c, false);
        const int i = draw(&r, ROWS);
        if (r.row[i].kind == DT_ROW_COMPUTE)
            r.op[r.row[i].op].flops /= 2;
        else if (r.row[i].kind != DT_ROW_WAIT)
            r.row[i].bytes /= 2;
        assert_true(simulated(&r, &c, false) <= before + 1e-9);
    }
}

/* Three ops of 4, a copy out of 6 after the first, a copy in of 5 after it, which the third waits
 * for: 4 + 6 + 5 = 15, and the third ends at 19. The second ends at 8, so 7 are waited. */
static void a_stall_is_told(void **state)
{
    (void)state;
    rows r;
    dt_timeline t;
    dt_err err = {0};
    dt_costs c = ticks();
    const dt_simulate_opts o = {.inline_copies = false};
    begin(&r, 0);
    add_compute(&r, DT_USUAL_COMPUTE, 4);
    add_wait(&r, DT_USUAL_OUT, 0);
    add_copy(&r, DT_USUAL_OUT, 6);
    add_compute(&r, DT_USUAL_COMPUTE, 4);
    add_wait(&r, DT_USUAL_IN, 1);
    add_copy(&r, DT_USUAL_IN, 5);
    add_wait(&r, DT_USUAL_COMPUTE, 3);
    add_compute(&r, DT_USUAL_COMPUTE, 4);
    assert_ok(dt_simulate(&t, &r.p, &c, &o, &err), &err);
    assert_true(fabs(t.seconds - 19) < 1e-9 && fabs(t.stalled - 7) < 1e-9);
    assert_true(fabs(t.begin[6] - 8) < 1e-9 && fabs(t.end[6] - 15) < 1e-9);
    assert_true(fabs(t.alone[DT_USUAL_COMPUTE] - 12) < 1e-9);
    int32_t signal[8];
    assert_true(r.p.n_event <= 8);
    dt_timeline_signals(&r.p, signal);
    assert_int_equal(signal[r.p.row[6].event], 5);
    dt_timeline_deinit(&t);
    /* each of the three waits takes 0.5 longer */
    c.wake = 0.5;
    assert_true(fabs(simulated(&r, &c, false) - 20.5) < 1e-9);
    /* made between the ops, all is one after the other */
    assert_true(fabs(simulated(&r, &c, true) - 23) < 1e-9);
}

/* What the host computes beside the device takes its memory's rate, and hides: the second op of the
 * device goes on beside the gradient's way out and the update, which ends 2 later. */
static void the_host_computes_beside_the_device(void **state)
{
    (void)state;
    rows r;
    dt_costs c = ticks();
    char on_host[DT_SIGNATURE_BYTES], on_device[DT_SIGNATURE_BYTES];
    int64_t samples;
    dt_plan_arg arg[] = {{.mode = DT_READ, .port = DT_DP, .to = 4},
        {.mode = DT_UPDATES, .port = DT_P, .to = 4}, {.mode = DT_UPDATES, .port = DT_M, .to = 4}};
    begin(&r, 0);
    r.p.arg = arg;
    add_compute(&r, DT_USUAL_COMPUTE, 4);
    add_wait(&r, DT_USUAL_OUT, 0);
    add_copy(&r, DT_USUAL_OUT, 3);
    add_compute(&r, DT_USUAL_COMPUTE, 11);
    add_wait(&r, DT_USUAL_HOST, 1);
    add_compute(&r, DT_USUAL_HOST, 100);
    dt_plan_op *update = &r.op[r.p.n_op - 1];
    update->on_host = true;
    update->n = 3;
    c.host = 2; /* of 4 + 8 + 8 bytes */
    assert_true(fabs(simulated(&r, &c, false) - 17) < 1e-9);
    c.host = 20;
    assert_true(fabs(simulated(&r, &c, false) - 15) < 1e-9);
    /* and it has an entry of its own in a table of costs */
    dt_cost_signature(&r.p, update, on_host, &samples);
    r.p.n_stream = dt_usual_streams(r.p.stream, false);
    dt_cost_signature(&r.p, update, on_device, &samples);
    assert_string_not_equal(on_host, on_device);
    assert_non_null(strstr(on_host, " host "));
}

static void who_waits_for_ever_is_named(void **state)
{
    (void)state;
    rows r;
    dt_timeline t;
    dt_err err = {0};
    const dt_costs c = ticks();
    const dt_simulate_opts o = {.inline_copies = false};
    begin(&r, 0);
    r.p.n_event = 1;
    add_wait(&r, DT_USUAL_COMPUTE, 0);
    assert_int_equal(dt_simulate(&t, &r.p, &c, &o, &err), DT_E_DATA);
    assert_non_null(strstr(err.text, "row 0 of the plan waits"));
    dt_timeline_deinit(&t);
}

/* ---- costs ---- */

static dti_cost ask(
    const dt_costs *c, int64_t n, const char *layer, double flops_a_sample, bool pieces)
{
    dt_plan_arg arg[2] = {{.port = DT_X, .mode = DT_READ, .to = (uint64_t)(64 * n)},
        {.port = DT_Y, .mode = DT_WRITE, .to = (uint64_t)(64 * n)}};
    char opts[] = "";
    dt_plan_node node = {.name = "a"};
    dt_plan p = {.arg = arg, .n_arg = 2, .node = &node, .n_node = 1, .text = opts, .n_text = 1};
    dt_plan_op op = {.node = 0, .n = 2, .n1 = n, .flops = flops_a_sample * (double)n};
    snprintf(op.layer, sizeof op.layer, "%s", layer);
    return pieces ? (dti_cost){.seconds = dti_costs_op_in_pieces(c, &p, &op)}
                  : dti_costs_op(c, &p, &op);
}

static dti_cost cost_at(const dt_costs *c, int64_t n, const char *layer, double flops_a_sample)
{
    return ask(c, n, layer, flops_a_sample, false);
}

static double in_pieces(const dt_costs *c, int64_t n)
{
    return ask(c, n, "relu", 10, true).seconds;
}

static void learn(dt_costs *c, int64_t n, double seconds, double floor)
{
    dt_err err = {0};
    char signature[] = "relu.f fp32 alt0   x64 y64";
    const dt_cost_entry e = {
        .signature = signature, .samples = n, .seconds = seconds, .floor = floor};
    assert_ok(dt_costs_add(c, &e, &err), &err);
    assert_ok(dt_costs_seal(c, &err), &err);
}

static void a_cost_says_where_it_is_from(void **state)
{
    (void)state;
    dt_costs c = ticks();
    c.bytes = 1e30;
    dti_cost at = cost_at(&c, 4, "relu", 10);
    assert_true(at.source == DT_COST_FLOOR && fabs(at.seconds - 40) < 1e-9);
    learn(&c, 4, 60, 40);
    at = cost_at(&c, 4, "relu", 10);
    assert_true(at.source == DT_COST_MEASURED && fabs(at.seconds - 60) < 1e-9);
    at = cost_at(&c, 8, "relu", 10);
    assert_true(at.source == DT_COST_SCALED && fabs(at.seconds - 120) < 1e-9);
    at = cost_at(&c, 4, "dropout", 10);
    assert_true(at.source == DT_COST_KIND && fabs(at.seconds - 60) < 1e-9);
    learn(&c, 16, 180, 160);
    at = cost_at(&c, 8, "relu", 10);
    assert_true(at.source == DT_COST_BETWEEN && fabs(at.seconds - 100) < 1e-9);
    at = cost_at(&c, 32, "relu", 10);
    assert_true(at.source == DT_COST_BETWEEN && fabs(at.seconds - 340) < 1e-9);
    c.scale = 2;
    assert_true(fabs(cost_at(&c, 4, "relu", 10).seconds - 120) < 1e-9);
    dt_costs_deinit(&c);
}

/* What fits in a cache in halves may take less in halves, which measured numbers alone tell. */
static void pieces_take_no_less_than_is_said(void **state)
{
    (void)state;
    dt_costs c = ticks();
    c.bytes = 1e30;
    assert_true(fabs(in_pieces(&c, 32) - 320) < 1e-9);
    learn(&c, 32, 704, 320);
    assert_true(fabs(in_pieces(&c, 32) - 704) < 1e-9);
    learn(&c, 16, 320, 160);
    assert_true(fabs(cost_at(&c, 32, "relu", 10).seconds - 704) < 1e-9);
    for (int64_t n = 1; n < 32; n++)
        assert_true(
            in_pieces(&c, 32) <= cost_at(&c, n, "relu", 10).seconds * 32 / (double)n + 1e-9);
    assert_true(in_pieces(&c, 32) <= 640 + 1e-9);
    dt_costs_deinit(&c);
}

static double convolutions(const dt_card_speed *of, dt_dtype type)
{
    dt_costs c;
    dt_costs_of_card(&c, of);
    return c.flops[DT_WORK_CONV][type];
}

/* It took what fp32 takes. */
static void tf32_is_faster_where_tensor_cores_are(void **state)
{
    (void)state;
    size_t n;
    const dt_card_speed *all = dt_card_speed_all(&n);
    for (size_t i = 0; i < n; i++) {
        dt_card_speed at = all[i];
        dt_card_take_tf32(&at);
        const double fp32 = convolutions(&all[i], DT_F32), tf32 = convolutions(&at, DT_F32);
        const double wanted = 1e12 * all[i].tf32;
        assert_true(fabs(tf32 - (wanted > fp32 ? wanted : fp32)) <= 1e-9 * tf32);
        assert_true(fabs(convolutions(&at, DT_BF16) / convolutions(&all[i], DT_BF16) - 1) < 1e-9);
        assert_true(fabs(at.depthwise - all[i].depthwise) < 1e-9);
    }
    assert_true(fabs(dt_card_speed_find("a100")->tf32 - 78) < 1e-9);
    assert_true(dt_card_speed_find("a100")->tf32 > dt_card_speed_find("a100")->conv);
}

/* Half of them took longer than as many in fp32. */
static void a_sheet_makes_16_bits_no_slower_than_it_says(void **state)
{
    (void)state;
    const double half[] = {100, 50, 125, 400}, wanted[] = {75, 25, 75, 200};
    for (size_t i = 0; i < DT_COUNT(half); i++) {
        dt_card_speed own = {.title = ""}, like = own;
        dt_card_take_sheet(&own, &(dt_card_sheet){.fp32 = 100, .half = half[i]});
        dt_card_take_sheet(&like, &(dt_card_sheet){.fp32 = 100});
        dt_card_take_sheet(&like, &(dt_card_sheet){.half = half[i]});
        assert_true(fabs(own.half - wanted[i]) < 1e-9 && fabs(like.half - wanted[i]) < 1e-9);
        assert_true(fabs(own.tf32 - half[i] / 4) < 1e-9);
    }
}

static void every_card_has_numbers(void **state)
{
    (void)state;
    size_t n;
    const dt_card_speed *all = dt_card_speed_all(&n);
    assert_true(n >= 18);
    for (size_t i = 0; i < n; i++) {
        dt_costs c;
        dt_costs_of_card(&c, &all[i]);
        assert_ptr_equal(dt_card_speed_find(all[i].name), &all[i]);
        assert_true(c.simulated && c.bytes > 1e11 && c.flops[DT_WORK_CONV][DT_F32] > 1e12);
        assert_true(c.flops[DT_WORK_CONV][DT_F32] > c.flops[DT_WORK_CONV_SMALL][DT_F32]);
        assert_true(c.flops[DT_WORK_CONV_POINTWISE][DT_F32] >= c.flops[DT_WORK_CONV_SMALL][DT_F32]);
        assert_true(c.flops[DT_WORK_CONV_DEPTHWISE][DT_F32] > 1e10);
        assert_true(c.flops[DT_WORK_CONV_DEPTHWISE][DT_F32] < c.flops[DT_WORK_CONV_SMALL][DT_F32]);
        assert_true(c.flops[DT_WORK_CONV_DEPTHWISE][DT_BF16] <=
                    c.flops[DT_WORK_CONV_DEPTHWISE][DT_F32]); /* no tensor core hastens them */
        assert_true(c.flops[DT_WORK_MATRIX][DT_BF16] >= c.flops[DT_WORK_MATRIX][DT_F32]);
        assert_true(all[i].source[0] != '\0' && all[i].mib > 10000);
        const double disk = all[i].disk_out > 0 ? all[i].disk_out * 1e9 : 1.6e9;
        assert_true(fabs(c.link[DT_TIER_DISK][DT_TO_TIER].rate - disk) < 1);
    }
    const dt_card_speed *ssd = dt_card_speed_find("v100-ssd");
    assert_true(ssd != NULL && ssd->disk_out > 3 && ssd->disk_in > ssd->disk_out);
    assert_null(dt_card_speed_find("nosuch"));
}

/* What arithmetic a card's table takes a convolution for. */
static void convolutions_have_rates_by_their_kernels(void **state)
{
    (void)state;
    const struct {
        int64_t out, kernel, groups;
        bool small;
        dt_work work;
    } ops[] = {
        {64, 3, 1, false, DT_WORK_CONV},
        {64, 1, 1, false, DT_WORK_CONV_POINTWISE},
        {64, dt_sides(1, 7), 1, false, DT_WORK_CONV},
        {64, 11, 1, false, DT_WORK_CONV},
        {64, 3, 64, false, DT_WORK_CONV_DEPTHWISE},
        {64, 3, 32, false, DT_WORK_CONV},
        {1, 3, 1, false, DT_WORK_CONV},
        {64, 1, 1, true, DT_WORK_CONV_SMALL},
        {64, 3, 1, true, DT_WORK_CONV_SMALL},
        {64, 3, 64, true, DT_WORK_CONV_DEPTHWISE},
    };
    dt_costs c;
    dt_err err = {0};
    dt_costs_of_card(&c, dt_card_speed_find("titanx"));
    for (int w = 0; w < DT_WORKS; w++)
        c.flops[w][DT_F32] = 1e12 * (w + 1);
    for (size_t i = 0; i < DT_COUNT(ops); i++) {
        const dt_conv o = {ops[i].out, ops[i].kernel, 1, 0, 1, ops[i].groups, false};
        const dt_shape x = {1, 16, 16, 64};
        dt_layer_info info = {0};
        assert_ok(dt_layer_conv.infer(&o, &x, 1, &info, &err), &err);
        dt_plan_node node = {.name = "a", .work = info.work};
        const dt_plan p = {.node = &node, .n_node = 1};
        dt_plan_op op = {.node = 0, .n1 = 1, .flops = 1e12, .dtype = DT_F32};
        op.limit = ops[i].small ? DT_LIMIT_LEAST : op.limit;
        if (!(fabs(dt_costs_floor(&c, &p, &op) * (ops[i].work + 1) - 1) <= 1e-9))
            fail_msg("convolution %zu: %g s", i, dt_costs_floor(&c, &p, &op));
    }
    dt_plan_node none = {.name = "a"};
    const dt_plan plain = {.node = &none, .n_node = 1};
    const dt_plan_op least = {.n1 = 1, .flops = 1e12, .dtype = DT_F32, .limit = DT_LIMIT_LEAST};
    assert_true(fabs(dt_costs_floor(&c, &plain, &least) - 1) < 1e-9);
    dt_costs_deinit(&c);
    assert_true(fabs(c.flops[DT_WORK_CONV][DT_F32] / c.flops[DT_WORK_CONV_SMALL][DT_F32] - 1.5) <
                1e-9); /* the defaults */
}

/* Of options that are longer than there is room for, too. */
static void signatures_tell_ops_apart(void **state)
{
    (void)state;
    char text[2][DT_SIGNATURE_BYTES + 1], signature[2][DT_SIGNATURE_BYTES];
    int64_t samples;
    for (size_t i = 0; i < 2; i++) {
        memset(text[i], 'x', sizeof text[i]);
        text[i][DT_SIGNATURE_BYTES - 1] = (char)('0' + i);
        text[i][DT_SIGNATURE_BYTES] = '\0';
        dt_plan_node node = {.name = "a"};
        const dt_plan p = {.node = &node, .n_node = 1, .text = text[i]};
        const dt_plan_op op = {.layer = "conv", .node = 0, .n1 = 1};
        dt_cost_signature(&p, &op, signature[i], &samples);
    }
    assert_string_not_equal(signature[0], signature[1]);
}

/* ---- profiles ---- */

static char path[4096];

static void put_file(const char *text, size_t n)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static dt_status read_back(dt_costs *c, dt_densities *d, dt_origin *o, dt_err *err)
{
    bool measured = false;
    *d = (dt_densities){0};
    const dt_status st = dt_profile_read(c, d, o, &measured, path, err);
    assert_true(st != DT_OK || measured);
    return st;
}

/* Which has no address that a codec could write to, as the host has. */
static void what_is_packed_for_the_disk_is_written_behind_that(void **state)
{
    (void)state;
    enum { WORDS = 1024 };
    const dt_codec *zvc = dti_codec_find("zvc");
    const dt_codec_rate rate = {.codec = "zvc", .density = 0.5, .pack = 2, .unpack = 8};
    dt_row r = {.bytes = WORDS * sizeof(float),
        .stored = WORDS * sizeof(float),
        .codec = dti_codec_number(zvc)};
    const double moving = (double)dt_packed_bytes(zvc, WORDS, 0.5), bytes = (double)r.bytes;
    dt_costs c = ticks();
    dt_err err = {0};
    assert_ok(dt_costs_add_rate(&c, &rate, &err), &err);
    for (int tier = DT_TIER_HOST; tier <= DT_TIER_DISK; tier++)
        for (int out = 0; out < 2; out++) {
            const double packing = bytes / (out ? rate.pack : rate.unpack);
            r.kind = out ? DT_ROW_COPY_OUT : DT_ROW_COPY_IN;
            r.tier = (uint8_t)tier;
            const double is = dti_costs_copy(&c, &r, 0.5, false);
            const double want = tier == DT_TIER_DISK ? moving + packing : fmax(moving, packing);
            assert_true(fabs(is - want) < 1e-6);
        }
    dt_costs_deinit(&c);
}

static char *whole(size_t *n)
{
    dt_costs c = ticks();
    dt_densities d = {0};
    dt_err err = {0};
    const dt_origin o = {.machine = "m", .isa = "i", .precision = "fp32", .threads = 2};
    const dt_codec_rate rate = {.codec = "zvc", .density = 0.5, .pack = 3, .unpack = 4};
    const dt_codec_rate far = {
        .codec = "zvc", .density = 0.5, .pack = 1, .unpack = 2, .across = true};
    char *text = NULL;
    learn(&c, 4, 60, 40);
    learn(&c, 2, 0.1, 40);
    c.slow[DT_USUAL_COMPUTE][DT_USUAL_WRITE] = 1.25;
    c.rest = 0.5;
    c.wake = 0.25;
    c.link[DT_TIER_DISK][DT_TO_TIER] = (dt_link){0.001, 123456.789};
    assert_ok(dt_costs_add_rate(&c, &far, &err), &err);
    assert_ok(dt_costs_add_rate(&c, &rate, &err), &err);
    assert_ok(dt_densities_add(&d, "a.y", 0.25, 0.125, &err), &err);
    assert_ok(dt_costs_seal(&c, &err), &err);
    assert_ok(dt_profile_text(&text, n, &c, &d, &o, &err), &err);
    dt_costs_deinit(&c);
    dt_densities_close(&d);
    return text;
}

static void a_profile_comes_back_as_it_was(void **state)
{
    (void)state;
    size_t n, again;
    dt_costs c;
    dt_densities d;
    dt_origin o;
    dt_err err = {0};
    char *text = whole(&n), *second = NULL;
    put_file(text, n);
    assert_ok(read_back(&c, &d, &o, &err), &err);
    assert_int_equal(strlen(c.hash), 64);
    assert_true(c.n_entry == 2 && c.n_rate == 2 && d.n == 1 && o.threads == 2);
    assert_true(!c.rate[0].across && c.rate[1].across);
    assert_true(fabs(dt_costs_rate(&c, "zvc", 0.5, true) - 3) < 1e-12);
    assert_true(fabs(dt_densities_of(&d, "a.y") - 0.25) < 1e-12);
    assert_true(fabs(dt_densities_mean(&d, "a.y") - 0.125) < 1e-12);
    assert_true(dt_densities_mean(&d, "b.y") < 0);
    assert_ok(dt_profile_text(&second, &again, &c, &d, &o, &err), &err);
    assert_string_equal(text, second);
    dt_free(text);
    dt_free(second);
    dt_costs_deinit(&c);
    dt_densities_close(&d);
}

/* As dt_densities_of says: the last line that matches. */
static double share_by_definition(const dt_densities *d, const char *name)
{
    for (size_t i = d->n; i-- > 0;)
        if (dt_glob(d->line[i].glob, name))
            return d->line[i].share;
    return -1;
}

/* Names and patterns in any order, said again and replaced. */
static void the_last_line_that_matches_holds(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "a", "b", "ab", "ba", "abc", "a*", "*b", "?b", "a?*", "*", "", "c?"};
    static const char *const names[] = {"a", "b", "ab", "ba", "abc", "", "c", "cb", "a*", "?b"};
    for (uint64_t seed = 0; seed < 300; seed++) {
        dt_dice dice = {seed, 0};
        dt_densities d = {0};
        dt_err err = {0};
        for (int i = 0; i < 20; i++) {
            const double share = dt_roll(&dice, 1000) / 1000.0;
            const bool put = dt_roll(&dice, 3) == 0;
            const char *name = put ? names[dt_roll(&dice, DT_COUNT(names))]
                                   : texts[dt_roll(&dice, DT_COUNT(texts))];
            const size_t had = d.n;
            assert_ok(put ? dt_densities_put(&d, name, share, share / 2, &err)
                          : dt_densities_add(&d, name, share, share / 2, &err),
                &err);
            assert_true(put ? d.n <= had + 1 : d.n == had + 1);
            assert_true(!put || fabs(dt_densities_of(&d, name) - share) < 1e-12);
            for (size_t k = 0; k < DT_COUNT(names); k++) {
                const double want = share_by_definition(&d, names[k]);
                const double mean = want < 0 ? want : want / 2;
                assert_memory_equal(&(double){dt_densities_of(&d, names[k])}, &want, sizeof want);
                assert_memory_equal(&(double){dt_densities_mean(&d, names[k])}, &mean, sizeof mean);
            }
        }
        dt_densities_close(&d);
    }
}

/* As many as the largest networks have: in a moment, where looking at each line takes minutes. */
static void many_names_are_found_at_once(void **state)
{
    (void)state;
    enum { MANY = 200000 };
    dt_densities d = {0};
    dt_err err = {0};
    char name[32];
    for (int round = 1; round <= 2; round++)
        for (int i = 0; i < MANY; i++) {
            snprintf(name, sizeof name, "tensor%d.y", i);
            assert_ok(dt_densities_put(&d, name, i * 1e-6 * round, 0, &err), &err);
        }
    assert_int_equal(d.n, MANY);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "tensor%d.y", i);
        assert_true(fabs(dt_densities_of(&d, name) - i * 2e-6) < 1e-12);
    }
    dt_densities_close(&d);
}

/* As some editors begin what they have written. */
static void a_profile_may_begin_with_a_byte_order_mark(void **state)
{
    (void)state;
    size_t n;
    dt_costs c;
    dt_densities d;
    dt_origin o;
    dt_err err = {0};
    char *text = whole(&n), *marked = dt_alloc(n + 3, 1);
    assert_non_null(marked);
    memcpy(marked, "\xEF\xBB\xBF", 3);
    memcpy(marked + 3, text, n);
    put_file(marked, n + 3);
    assert_ok(read_back(&c, &d, &o, &err), &err);
    assert_true(c.n_entry == 2 && d.n == 1);
    dt_free(text);
    dt_free(marked);
    dt_costs_deinit(&c);
    dt_densities_close(&d);
}

/* A default in the file would look as if it had been measured; of what it leaves out, or says to be
 * as by default, nothing is known. */
static void links_that_nobody_measured_are_left_out(void **state)
{
    (void)state;
    dt_costs c = dt_costs_default, back;
    dt_densities d = {0}, read;
    dt_origin o = {.machine = "m", .threads = 2};
    dt_err err = {0};
    char *text = NULL;
    size_t n;
    learn(&c, 4, 60, 40);
    c.link[DT_TIER_HOST][DT_FROM_TIER] = (dt_link){0, 7e9};
    c.thread_link[DT_TIER_DISK][DT_TO_TIER].latency = 0.5;
    assert_ok(dt_costs_seal(&c, &err), &err);
    assert_ok(dt_profile_text(&text, &n, &c, &d, &o, &err), &err);
    put_file(text, n);
    dt_free(text);
    assert_ok(read_back(&back, &read, &o, &err), &err);
    for (int tier = 0; tier < DT_TIERS; tier++)
        for (int way = 0; way < DT_TIER_DIRECTIONS; way++) {
            assert_memory_equal(&back.link[tier][way], &c.link[tier][way], sizeof(dt_link));
            assert_memory_equal(
                &back.thread_link[tier][way], &c.thread_link[tier][way], sizeof(dt_link));
            const bool host = tier == DT_TIER_HOST && way == DT_FROM_TIER;
            const bool disk = tier == DT_TIER_DISK && way == DT_TO_TIER;
            assert_int_equal(dti_costs_has_link(&back, tier, way, true), host);
            assert_int_equal(dti_costs_has_link(&back, tier, way, false), disk);
        }
    dt_costs_deinit(&back);
    dt_densities_close(&read);
    dt_costs_deinit(&c);
    text = NULL;
    assert_ok(dt_read_file(&text, &n, path, 1 << 20, DT_E_DATA, &err), &err);
    int links = 0;
    for (const char *at = text; (at = strstr(at, "\"direction\"")) != NULL; at++)
        links++;
    assert_int_equal(links, 2);
    dt_free(text);
}

/* Every file that ends too early is refused, and none is believed. */
static void a_cut_profile_is_refused(void **state)
{
    (void)state;
    size_t n;
    char *text = whole(&n);
    for (size_t cut = 1; cut + 1 < n; cut += 7) {
        dt_costs c;
        dt_densities d;
        dt_origin o;
        dt_err err = {0};
        put_file(text, cut);
        assert_int_equal(read_back(&c, &d, &o, &err), DT_E_DATA);
        assert_non_null(strstr(err.text, path));
        dt_costs_deinit(&c);
        dt_densities_close(&d);
    }
    dt_free(text);
}

/* The file becomes @text with what stands there once replaced. */
static void put_changed(const char *text, const char *from, const char *to)
{
    char changed[8192];
    const char *at = strstr(text, from);
    if (at == NULL)
        fail_msg("the profile has no %s", from);
    const int length = snprintf(
        changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    assert_true(length > 0 && (size_t)length < sizeof changed);
    put_file(changed, (size_t)length);
}

/* What a card of some day may reach, or an op of whose floor nothing is known. */
static void the_most_that_can_be_is_read(void **state)
{
    (void)state;
    static const char *const right[][2] = {
        {"\"samples\":\t4", "\"samples\":\t1e9"},
        {"\"seconds\":\t60", "\"seconds\":\t1e7"},
        {"\"floor\":\t40", "\"floor\":\t0"},
        {"\"floor\":\t40", "\"floor\":\t7e-8"},
        {"\"rate\":\t1\n", "\"rate\":\t1e21\n"},
        {"\"latency\":\t0.001", "\"latency\":\t1e7"},
        {"\"density\":\t0.5", "\"density\":\t1"},
        {"\"room\":\t0.25", "\"room\":\t1"},
    };
    size_t n;
    char *text = whole(&n);
    for (size_t i = 0; i < DT_COUNT(right); i++) {
        dt_costs c;
        dt_densities d;
        dt_origin o;
        dt_err err = {0};
        put_changed(text, right[i][0], right[i][1]);
        assert_ok(read_back(&c, &d, &o, &err), &err);
        dt_costs_deinit(&c);
        dt_densities_close(&d);
    }
    dt_free(text);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[][3] = {
        {"\"samples\":\t4", "\"samples\":\t-4", "'samples' is -4, must be from 0 to 1e+09"},
        {"\"samples\":\t4", "\"samples\":\t2e9", "'samples' is 2e+09, must be from 0 to 1e+09"},
        {"\"seconds\":\t60", "\"seconds\":\t-60", "'seconds' is -60, must be from 0 to 1e+07"},
        {"\"seconds\":\t60", "\"seconds\":\t1e308", "'seconds' is 1e+308, must be from 0 to 1e+07"},
        {"\"floor\":\t40", "\"floor\":\t1e-300", "no less than a billionth of the seconds"},
        {"\"floor\":\t40", "\"floor\":\t1e308", "'floor' is 1e+308, must be"},
        {"\"seconds\":\t60", "\"seconds\":\t1e999", ""},
        {"\"seconds\":\t60", "\"seconds\":\tNaN", ""},
        {"\"seconds\":\t60", "\"seconds\":\tnull", "'seconds' must be a number"},
        {"\"times\":\t1.25", "\"times\":\t0.5", "'times' is 0.5, must be from 1 to"},
        {"\"rest\":\t0.5", "\"rest\":\t-0.5", "'rest' is -0.5, must be"},
        {"\"wake\":\t0.25", "\"wake\":\t-0.25", "'wake' is -0.25, must be"},
        {"\"room\":\t0.25", "\"room\":\t1.25", "'room' is 1.25, must be from 0 to 1"},
        {"\"room\":\t0.25", "\"room\":\t0.1", "'a.y' must be shares"}, /* below the mean */
        {"\"mean\":\t0.125", "\"mean\":\t-0.125", "'mean' is -0.125, must be from 0 to 1"},
        {"\"mean\":\t0.125", "\"most\":\t0.125",
            "'most' is nothing that a density has; there are: room, mean"},
        {"\"mean\":\t0.125", "\"mean\":\tnull", "'mean' must be a number"},
        {"\"threads\":\t2", "\"threads\":\t2.5", "'threads' is 2.5, must be a whole number"},
        {"\"across\":\ttrue", "\"across\":\tfalse", "are of 'zvc' at density 0.5; leave one"},
        {"profile 3", "profile 2", "this program reads 'dnntrain-profile 3'; profile anew"},
        {"\"roof\"", "\"reef\"", "'reef' is nothing that a profile has"},
        {"\"rate\":\t1\n", "\"rate\":\t0\n", "'rate' is 0, must be from 1 to 1e+21"},
        {"\"rate\":\t1\n", "\"rate\":\t0.5\n", "'rate' is 0.5, must be from 1 to 1e+21"},
        {"\"rate\":\t1\n", "\"rate\":\t1e30\n", "'rate' is 1e+30, must be from 1 to 1e+21"},
        {"\"latency\":\t0.001", "\"latency\":\t1e9", "'latency' is 1e+09, must be from 0 to 1e+07"},
        {"\"fp32\":\t1", "\"fp32\":\t1e30", "'fp32' is 1e+30, must be from 1 to 1e+21"},
        {"\"density\":\t0.5", "\"density\":\t1.5", "'density' is 1.5, must be from 0 to 1"},
        {"\"pack\":\t3", "\"pack\":\t1e30", "'pack' is 1e+30, must be from 1 to 1e+21"},
        {"\"unpack\":\t4", "\"unpack\":\t0.5", "'unpack' is 0.5, must be from 1 to 1e+21"},
        {"\"compute\"", "\"sideways\"", "must be compute, out, in, write, read or host"},
    };
    size_t n;
    char *text = whole(&n);
    for (size_t i = 0; i < DT_COUNT(wrong); i++) {
        dt_costs c;
        dt_densities d;
        dt_origin o;
        dt_err err = {0};
        put_changed(text, wrong[i][0], wrong[i][1]);
        assert_fails(read_back(&c, &d, &o, &err), DT_E_DATA, &err, wrong[i][2]);
        dt_costs_deinit(&c);
        dt_densities_close(&d);
    }
    dt_free(text);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of what entries took over their floors: of a layer ("": all) and a form (NULL: all).
 */
static double median_over(const dt_costs *c, const char *layer, const char *form)
{
    double v[256];
    size_t n = 0;
    for (size_t i = 0; i < c->n_entry; i++) {
        const char *s = c->entry[i].signature, *dot = strchr(s, '.');
        const bool of_layer =
            strlen(layer) == (size_t)(dot - s) && strncmp(s, layer, strlen(layer)) == 0;
        const bool of_form = form == NULL || (strncmp(dot + 1, form, strlen(form)) == 0 &&
                                                 dot[1 + strlen(form)] == ' ');
        if ((layer[0] == '\0' || of_layer) && of_form)
            v[n++] = c->entry[i].seconds / c->entry[i].floor;
    }
    assert_true(n > 0);
    qsort(v, n, sizeof *v, by_size);
    return n % 2 == 1 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* Names of which one begins another, and forms of which one begins another. */
static void each_kind_of_op_has_its_median(void **state)
{
    (void)state;
    static const char *const layers[] = {"add", "add-x", "add_relu", "conv", "conv2"};
    static const char *const forms[] = {"f", "b", "b2", "update"};
    enum { ENTRIES = 200 };
    dt_costs c = dt_costs_default;
    dt_dice d = {17, 0};
    dt_err err = {0};
    for (int i = 0; i < ENTRIES; i++) {
        char text[64];
        snprintf(
            text, sizeof text, "%s.%s fp32 %d", layers[dt_roll(&d, 5)], forms[dt_roll(&d, 4)], i);
        const dt_cost_entry e = {.signature = text,
            .samples = 1,
            .seconds = 1 + dt_roll(&d, 1000),
            .floor = 1 + dt_roll(&d, 10)};
        assert_ok(dt_costs_add(&c, &e, &err), &err);
    }
    assert_ok(dt_costs_seal(&c, &err), &err);
    assert_int_equal(c.n_kind, 5 + 5 * 4 + 1);
    for (size_t i = 0; i < c.n_kind; i++) {
        static const char *const known[DT_FORMS] = {
            [DT_FORWARD] = "f", [DT_BACKWARD] = "b", [DT_BACKWARD2] = "b2", [DT_UPDATE] = "update"};
        const dt_kind_ratio *k = &c.kind[i];
        const double want = median_over(&c, k->layer, k->form < DT_FORMS ? known[k->form] : NULL);
        if (!(fabs(k->ratio - want) <= 1e-12 * want))
            fail_msg("%s, form %d: %g, not %g", k->layer, k->form, k->ratio, want);
    }
    dt_costs_deinit(&c);
}

/* A file of a few megabytes may have so many; for each all others were looked at, for hours. */
static void a_profile_of_many_layers_is_read(void **state)
{
    (void)state;
    enum { MANY = 200000 };
    dt_costs c = dt_costs_default;
    dt_err err = {0};
    for (int i = 0; i < MANY; i++) {
        char text[32];
        snprintf(text, sizeof text, "l%06d.f fp32", i);
        const dt_cost_entry e = {.signature = text, .samples = 1, .seconds = i + 1, .floor = 1};
        assert_ok(dt_costs_add(&c, &e, &err), &err);
    }
    assert_ok(dt_costs_seal(&c, &err), &err);
    assert_int_equal(c.n_kind, 2 * MANY + 1);
    assert_true(c.kind[0].ratio == 1 && c.kind[2 * MANY - 1].ratio == MANY);
    dt_costs_deinit(&c);
}

static void another_machines_profile_is_told_apart(void **state)
{
    (void)state;
    dt_err err = {0};
    const dt_origin a = {.machine = "m", .isa = "i", .precision = "fp32", .threads = 2};
    dt_origin b = a;
    snprintf(b.network, sizeof b.network, "another");
    assert_ok(dt_origin_same(&a, &b, "f", &err), &err);
    snprintf(b.precision, sizeof b.precision, "bf16");
    b.threads = 4;
    assert_int_equal(dt_origin_same(&a, &b, "f", &err), DT_E_CONFIG);
    assert_non_null(strstr(err.text, "the precision is 'fp32' there and 'bf16' here"));
    assert_non_null(strstr(err.text, "the number of threads is '2' there and '4' here"));
    assert_non_null(strstr(err.text, "memory.any_profile"));
    b = a;
    snprintf(b.build, sizeof b.build, "1");
    assert_false(dt_origin_other_build(&a, &b)); /* that of one is not known */
    dt_origin c = b;
    assert_false(dt_origin_other_build(&b, &c));
    snprintf(c.build, sizeof c.build, "2");
    assert_true(dt_origin_other_build(&b, &c));
    assert_ok(dt_origin_same(&b, &c, "f", &err), &err); /* it is no reason to refuse */
    snprintf(c.version, sizeof c.version, "another");
    assert_false(dt_origin_other_build(&b, &c));
}

static int name_path(void **state)
{
    (void)state;
    const int n = snprintf(path, sizeof path, "%s", dt_temp_path("profile"));
    return n > 0 && (size_t)n < sizeof path ? 0 : -1;
}

/* Figure 1 of SwapAdvisor (Huang et al., ASPLOS 2020), as plans by hand: W1..W4 come from the host,
 * A0 is there; conv1(A0, W1) -> A1 is the left branch, conv2(A0, W2) -> A2, conv3(A2, W3) -> A3 and
 * conv4(A3, W4) -> A4 the right one, and concat(A1, A4) -> A5 ends it. All have 1 MB but A2 and A5,
 * which have 2; a MB and an op take a second. What forward made is for backward: it is copied out
 * before its object of the pool is another's, once its last reader is done. Weights are dropped. */
static int32_t op_after(rows *r, int32_t first, int32_t second)
{
    if (first >= 0)
        add_wait(r, DT_MAIN_STREAM, first);
    if (second >= 0)
        add_wait(r, DT_MAIN_STREAM, second);
    add_compute(r, DT_USUAL_COMPUTE, 1);
    return r->p.n_event - 1;
}

static int32_t copy_after(rows *r, int stream, int32_t event, int mb)
{
    if (event >= 0)
        add_wait(r, stream, event);
    add_copy(r, stream, mb);
    return r->p.n_event - 1;
}

/* Five objects of 2 MB. A1, which is needed last, makes room for W4, and A0 for A1. */
static void left_first_in_five(rows *r)
{
    const int32_t w1 = copy_after(r, DT_STREAM_IN, -1, 1), w2 = copy_after(r, DT_STREAM_IN, -1, 1);
    const int32_t conv1 = op_after(r, w1, -1);
    const int32_t w3 = copy_after(r, DT_STREAM_IN, conv1, 1); /* over W1 */
    const int32_t a1_out = copy_after(r, DT_STREAM_OUT, conv1, 1);
    const int32_t conv2 = op_after(r, w2, -1);
    const int32_t w4 = copy_after(r, DT_STREAM_IN, a1_out, 1);
    const int32_t a0_out = copy_after(r, DT_STREAM_OUT, conv2, 1);
    (void)op_after(r, w3, -1);
    const int32_t a1 = copy_after(r, DT_STREAM_IN, a0_out, 1);
    (void)op_after(r, w4, -1);
    (void)op_after(r, a1, -1); /* A5 over W4 */
}

/* W1 finds room when W4 is done with, and A1 when A2 is out. */
static void right_first_in_five(rows *r)
{
    const int32_t w2 = copy_after(r, DT_STREAM_IN, -1, 1), w3 = copy_after(r, DT_STREAM_IN, -1, 1);
    const int32_t w4 = copy_after(r, DT_STREAM_IN, -1, 1);
    (void)op_after(r, w2, -1);
    const int32_t conv3 = op_after(r, w3, -1);
    const int32_t a2_out = copy_after(r, DT_STREAM_OUT, conv3, 2);
    const int32_t conv4 = op_after(r, w4, -1);
    const int32_t w1 = copy_after(r, DT_STREAM_IN, conv4, 1);
    (void)op_after(r, w1, a2_out);
    (void)op_after(r, -1, -1);
}

/* One object of 2 MB, which A5 takes over from A2, and eight of 1 MB, which hold all else. */
static void right_first_in_nine(rows *r)
{
    int32_t w[4];
    for (int i = 0; i < 4; i++)
        w[i] = copy_after(r, DT_STREAM_IN, -1, 1);
    (void)op_after(r, w[0], -1);
    const int32_t conv3 = op_after(r, w[1], -1);
    const int32_t a2_out = copy_after(r, DT_STREAM_OUT, conv3, 2);
    (void)op_after(r, w[2], -1);
    (void)op_after(r, w[3], -1); /* conv1, while A2 leaves */
    (void)op_after(r, a2_out, -1);
}

static void left_first_in_nine(rows *r)
{
    int32_t w[4];
    for (int i = 0; i < 4; i++)
        w[i] = copy_after(r, DT_STREAM_IN, -1, 1);
    (void)op_after(r, w[0], -1);
    (void)op_after(r, w[1], -1);
    const int32_t conv3 = op_after(r, w[2], -1);
    const int32_t a2_out = copy_after(r, DT_STREAM_OUT, conv3, 2);
    (void)op_after(r, w[3], -1); /* conv4 alone */
    (void)op_after(r, a2_out, -1);
}

static void swapadvisors_figure_1_takes_6_7_6_and_7(void **state)
{
    (void)state;
    static const struct {
        void (*plan)(rows *r);
        double makespan;
    } all[] = {{left_first_in_five, 6}, {right_first_in_five, 7}, {right_first_in_nine, 6},
        {left_first_in_nine, 7}};
    const dt_costs c = ticks();
    for (size_t i = 0; i < DT_COUNT(all); i++) {
        rows r;
        begin(&r, 0);
        all[i].plan(&r);
        const double got = simulated(&r, &c, false);
        if (!(fabs(got - all[i].makespan) <= 1e-9))
            fail_msg("plan %d takes %g", (int)i, got);
    }
}

DT_TEST_GROUP(time)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(swapadvisors_figure_1_takes_6_7_6_and_7),
        cmocka_unit_test(it_is_what_a_stepper_finds),
        cmocka_unit_test(a_faster_part_makes_nothing_slower),
        cmocka_unit_test(a_stall_is_told),
        cmocka_unit_test(the_host_computes_beside_the_device),
        cmocka_unit_test(who_waits_for_ever_is_named),
        cmocka_unit_test(a_cost_says_where_it_is_from),
        cmocka_unit_test(pieces_take_no_less_than_is_said),
        cmocka_unit_test(every_card_has_numbers),
        cmocka_unit_test(tf32_is_faster_where_tensor_cores_are),
        cmocka_unit_test(a_sheet_makes_16_bits_no_slower_than_it_says),
        cmocka_unit_test(convolutions_have_rates_by_their_kernels),
        cmocka_unit_test(signatures_tell_ops_apart),
        cmocka_unit_test(what_is_packed_for_the_disk_is_written_behind_that),
        cmocka_unit_test(a_profile_comes_back_as_it_was),
        cmocka_unit_test(the_last_line_that_matches_holds),
        cmocka_unit_test(many_names_are_found_at_once),
        cmocka_unit_test(a_profile_may_begin_with_a_byte_order_mark),
        cmocka_unit_test(links_that_nobody_measured_are_left_out),
        cmocka_unit_test(a_cut_profile_is_refused),
        cmocka_unit_test(the_most_that_can_be_is_read),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(each_kind_of_op_has_its_median),
        cmocka_unit_test(a_profile_of_many_layers_is_read),
        cmocka_unit_test(another_machines_profile_is_told_apart),
    };
    return cmocka_run_group_tests(tests, name_path, NULL);
}
