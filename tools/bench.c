/* dnntrain bench: what a step takes, and the machine's own limits. */
#include "tools/bench.h"

#include "engine/config/options.h"
#include "session/open.h"
#include "tools/args.h"

static dt_status bench_config(const dti_cli *cli, int64_t steps, bool json, dt_err *err)
{
    dt_bench_result r;
    dt_session *s = NULL;
    dt_status st = dti_cli_session(&s, cli->word[0], cli->set, cli->n_set, err);
    if (st == DT_OK)
        st = dt_bench(s, steps, &r, err);
    if (st == DT_OK && json)
        st = dti_bench_json(&r, err);
    else if (st == DT_OK)
        dti_bench_table(&r);
    dt_session_close(s);
    return st;
}

static dt_status run(const dti_command_args *a, dt_err *err)
{
    const char *steps = "10";
    int64_t count;
    bool json = false;
    const dti_flag flags[] = {
        {"--steps", "N", "to measure, after some that do not count; 10 unless given", NULL, &steps},
        {"--json", NULL, "as one object", &json, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    dti_cli cli;
    dt_status st = dti_cli_init(&cli, &dt_command_bench, a, flags, true, 1, err);
    if (st == DT_OK && !cli.help) {
        if (cli.n_word == 0)
            st = DT_FAIL(err, DT_E_CONFIG, "name a CONFIG; usage: %s", dt_command_bench.usage);
        else if (!dt_parse_i64(steps, &count) || count < 1 || count > DT_BENCH_MOST)
            st = DT_FAIL(err, DT_E_CONFIG, "--steps %s: must be a whole number, 1..%d", steps,
                DT_BENCH_MOST);
        else
            st = dti_cli_check_file(cli.word[0], err);
        if (st == DT_OK)
            st = bench_config(&cli, count, json, err);
    }
    dti_cli_deinit(&cli);
    return st;
}

const dti_command dt_command_bench = {
    .name = "bench",
    .usage = "dnntrain bench CONFIG [--set s.k=v]... [--steps N] [--json]",
    .summary = "how long a step takes, where its time goes, and the machine's own limits",
    .run = run,
};
