/* dnntrain bench: how long a step takes, where the time goes, and how far from the machine's own
 * limits that is. One made-up batch is trained on again and again, so no data is read. */
#include "tools/bench_parts.h"

#include "engine/base/alloc.h"
#include "engine/config/options.h"
#include "engine/base/philox.h"
#include "tools/args.h"
#include "session/budget.h"

/* ---- the batch ---- */

static dt_status next_batch(void *self, dt_batch *out, dt_err *err)
{
    const dti_bench *b = self;
    (void)err;
    *out = (dt_batch){.x = b->x, .labels = b->labels, .n = b->s->opts.train.batch};
    return DT_OK;
}

static dt_status seek(void *self, int64_t epoch, dt_err *err)
{
    (void)self, (void)epoch, (void)err;
    return DT_OK;
}

static dt_status make_batch(dti_bench *b, dt_err *err)
{
    const dt_graph *g = b->s->graph;
    const int64_t n = b->s->opts.train.batch, labels = n * dt_graph_labels(g);
    const int64_t values = n * dt_shape_sample(&g->input);
    const int64_t words = dt_graph_tokens(g) > 0 ? dt_graph_vocabulary(g) : 0;
    b->x = dt_alloc((size_t)values, sizeof *b->x);
    b->labels = dt_alloc((size_t)labels, sizeof *b->labels);
    if (b->x == NULL || b->labels == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a batch");
    for (int64_t i = 0; i < values; i++) {
        const uint32_t u = dt_random(1, DT_RANDOM_DATA, 0, 0, (uint64_t)i).v[0];
        b->x[i] = words > 0 ? (float)(u % (uint64_t)words) : 2 * dt_unit(u) - 1;
    }
    for (int64_t i = 0; i < labels; i++)
        b->labels[i] =
            (int32_t)(dt_random(1, DT_RANDOM_DATA, 1, 0, (uint64_t)i).v[0] % (uint64_t)g->classes);
    b->feed = (dt_feed){
        .self = b, .next = next_batch, .seek = seek, .samples = n * DT_BENCH_MOST * 2, .batch = n};
    return DT_OK;
}

/* ---- the command ---- */

static dt_status measure(dti_bench *b, dt_err *err)
{
    dt_session *s = b->s;
    DT_CHECK(dt_session_plan_run(s, false, 0, 0, err));
    DT_CHECK(dt_plan_set_check_statistics(s->plans, err));
    DT_CHECK(dt_session_check_run(s, false, err));
    DT_CHECK(dt_machine_measure(&b->machine, s->graph->dtype, err));
    DT_CHECK(dti_bench_find_costs(b, err));
    DT_CHECK(make_batch(b, err));
    DT_CHECK(dt_rig_open(&b->rig, s, err));
    return dti_bench_run_steps(b, err);
}

static void deinit(dti_bench *b)
{
    for (size_t i = 0; b->cost != NULL && i < b->s->plans->n; i++)
        dt_free(b->cost[i]);
    dt_free(b->cost);
    dt_free(b->cell);
    dt_free(b->seconds);
    dt_free(b->faults);
    dt_free(b->order);
    dt_free(b->x);
    dt_free(b->labels);
    dt_rig_close(&b->rig);
    dt_session_close(b->s);
}

static dt_status bench_config(dti_bench *b, const dt_cli *cli, dt_err *err)
{
    dt_status st = dt_cli_session(&b->s, cli->word[0], cli->set, cli->n_set, err);
    if (st == DT_OK)
        st = measure(b, err);
    if (st == DT_OK) {
        const dt_bench_result r = dti_bench_sum(b);
        if (b->json)
            st = dt_bench_json(&r, err);
        else
            dt_bench_table(&r);
    }
    deinit(b);
    return st;
}

static dt_status run(const dt_command_args *a, dt_err *err)
{
    static dti_bench b;
    const char *steps = "10";
    const dt_flag flags[] = {
        {"--steps", "N", "to measure, after some that do not count; 10 unless given", NULL, &steps},
        {"--json", NULL, "as one object", &b.json, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    dt_cli cli;
    dt_status st = dt_cli_init(&cli, &dt_command_bench, a, flags, true, 1, err);
    if (st == DT_OK && !cli.help) {
        if (cli.n_word == 0)
            st = DT_FAIL(err, DT_E_CONFIG, "name a CONFIG; usage: %s", dt_command_bench.usage);
        else if (!dt_parse_i64(steps, &b.steps) || b.steps < 1 || b.steps > DT_BENCH_MOST)
            st = DT_FAIL(err, DT_E_CONFIG, "--steps %s: must be a whole number, 1..%d", steps,
                DT_BENCH_MOST);
        else
            st = dt_cli_check_file(cli.word[0], err);
        if (st == DT_OK)
            st = bench_config(&b, &cli, err);
    }
    dt_cli_deinit(&cli);
    return st;
}

const dt_command dt_command_bench = {
    .name = "bench",
    .usage = "dnntrain bench CONFIG [--set s.k=v]... [--steps N] [--json]",
    .summary = "how long a step takes, where its time goes, and the machine's own limits",
    .run = run,
};
