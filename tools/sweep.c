/* dnntrain sweep: the largest batch that each policy fits into the budget, from plans alone. */
#include "tools/sweep.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/clock.h"
#include "session/budget.h"
#include "session/human.h"
#include "session/open.h"
#include "session/plan_set.h"
#include "tools/out_file.h"
#include "tools/terminal.h"

/* Lists that are given, or what the configuration names; one that names none, or keep_all alone,
 * asks for all policies that plan without a search. */
static dt_status name_rows(dti_sweep *w, const char *lists, dt_err *err)
{
    const char *own = w->session->opts.memory.policy;
    const char *of = strcmp(own, "keep_all") == 0 ? "all" : own;
    if (lists != NULL)
        DT_TRY(err, dt_policy_lists_open(&w->lists, lists, DT_PARTS_ALL, w->session->config, err),
            "--policies '%s'", lists);
    else
        DT_CHECK(dt_policy_lists_open(&w->lists, of, DT_PARTS_ALL, w->session->config, err));
    w->row = dt_alloc(w->lists.n, sizeof *w->row);
    if (w->row == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for %zu policies", w->lists.n);
    for (w->n = 0; w->n < w->lists.n; w->n++)
        w->row[w->n] =
            (dt_sweep_row){.policy = w->lists.list[w->n], .unasked = w->lists.unasked[w->n]};
    return DT_OK;
}

static dt_status fill(dti_sweep *w, const char *lists, dt_err *err)
{
    const double began = dt_seconds();
    DT_CHECK(name_rows(w, lists, err));
    for (size_t i = 0; i < w->n; i++) {
        DT_CHECK(dt_sweep_policy(w->session, &w->row[i], err));
        char took[DT_HUMAN_BYTES];
        if (dt_seconds() - began > 1)
            dti_term_say("%zu of %zu policies planned, %s: %" PRId64 " (%s)", i + 1, w->n,
                w->row[i].policy, w->row[i].batch, dt_human_seconds(took, dt_seconds() - began));
    }
    return DT_OK;
}

static dt_status check_any(const dti_sweep *w, dt_err *err)
{
    const dt_sweep_row *least = NULL;
    for (size_t i = 0; i < w->n; i++) {
        const dt_sweep_row *r = &w->row[i];
        if (r->batch > 0)
            return DT_OK;
        if (r->refused[0] == '\0' && (least == NULL || r->peak < least->peak))
            least = r;
    }
    const uint64_t budget = w->session->opts.memory.device_budget;
    char at[DT_BUDGET_PLACE], has[DT_HUMAN_BYTES];
    char device[DT_HUMAN_EXACT], host[DT_HUMAN_EXACT], disk[DT_HUMAN_EXACT];
    if (least == NULL)
        return DT_FAIL(
            err, DT_E_CONFIG, "a run of each of these is refused: %s", w->row[0].refused);
    if (least->peak <= budget)
        return DT_FAIL(err, DT_E_BUDGET,
            "no policy trains a single sample in all of the budgets of [memory]: %s needs %s of "
            "the device, %s on the host and %s on the disk",
            least->policy, dt_human_exact(device, least->peak),
            dt_human_exact(host, least->host_peak), dt_human_exact(disk, least->disk_peak));
    const dt_status st = DT_FAIL(err, DT_E_BUDGET,
        "memory.device_budget is %s (%s): no policy trains a single sample in it; %s needs the "
        "least, %s",
        dt_human_bytes(has, budget), dt_session_budget_place(w->session, "device_budget", at),
        least->policy, dt_human_exact(device, least->peak));
    (void)dt_floor_tell(&least->floor, budget, err);
    return st;
}

typedef struct sweep_flags {
    bool verify, json;
    const char *policies, *csv, *html;
} sweep_flags;

static dt_status sweep_session(
    const dt_session *s, const dti_cli *cli, const sweep_flags *f, dt_err *err)
{
    char asked[DT_ASKED];
    const char *files[] = {f->html, f->csv};
    DT_CHECK(dti_check_outputs(s, files, DT_COUNT(files), NULL, err));
    DT_CHECK(dt_session_check_no_account(s, err));
    if (s->opts.memory.device_budget == 0)
        return DT_FAIL(err, DT_E_CONFIG,
            "[memory] device_budget is missing: the sweep looks for the largest batch in a budget; "
            "give one, as in --set memory.device_budget=2GiB%s",
            dt_device_built(DT_CUDA)
                ? ", or a card whose memory it is, as in --set device.card=rtx3090"
                : "");
    if (f->verify && s->context.card != NULL)
        return DT_FAIL(err, DT_E_CONFIG, "%s: --verify trains, and that card is not here",
            dt_session_asked(asked, s, "device", "card"));
    dti_sweep w = {.session = s};
    dti_cli_no_card(s);
    DT_CHECK(dti_cli_idle_fates(s, err));
    dt_status st = fill(&w, f->policies, err);
    if (st == DT_OK) {
        if (f->html != NULL)
            st = dti_write_file(f->html, dti_sweep_html, &w, err);
        if (st == DT_OK && f->json)
            st = dti_sweep_json(&w, err);
        else if (st == DT_OK && !dti_is_stdout(f->html) && !dti_is_stdout(f->csv))
            dti_sweep_table(&w);
        fflush(stdout);
    }
    if (st == DT_OK) {
        st = check_any(&w, err);
        if (st == DT_OK && f->verify)
            st = dti_sweep_verify(&w, cli, err);
        const dt_status written = f->csv != NULL ? dti_sweep_csv(&w, f->csv, err) : DT_OK;
        st = st != DT_OK ? st : written;
    }
    dt_free(w.row);
    dt_policy_lists_close(&w.lists);
    return st;
}

/* What is asked for, before anything is planned. */
static dt_status check(const dti_cli *cli, const sweep_flags *f, dt_err *err)
{
    DT_CHECK(dti_check_ending(f->html, "--html", ".html", "HTML", err));
    if (f->verify && (f->json || dti_is_stdout(f->html) || dti_is_stdout(f->csv)))
        return DT_FAIL(err, DT_E_CONFIG,
            "--verify tells its steps on stdout: leave out --json, and name files for --csv and "
            "--html");
    if (dti_is_stdout(f->html) + dti_is_stdout(f->csv) + f->json > 1)
        return DT_FAIL(err, DT_E_CONFIG,
            "--csv -, --html - and --json all go to stdout; name files for all but one");
    if (cli->n_word == 0)
        return DT_FAIL(err, DT_E_CONFIG, "name a CONFIG; usage: %s", dt_command_sweep.usage);
    return dti_cli_check_file(cli->word[0], err);
}

static dt_status sweep(const dti_command_args *a, dt_err *err)
{
    sweep_flags f = {.verify = false};
    const dti_flag flags[] = {
        {"--policies", "A,B;C",
            "these lists, and each policy of them; 'all': each that does not search", NULL,
            &f.policies},
        {"--verify", NULL, "train two steps at each of them, and see the next size refused",
            &f.verify, NULL},
        {"--json", NULL, "as a list of objects", &f.json, NULL},
        {"--csv", "FILE", "write the table as comma-separated values", NULL, &f.csv},
        {"--html", "FILE.html", "write the table as a page", NULL, &f.html},
        {NULL, NULL, NULL, NULL, NULL},
    };
    dti_cli cli;
    dt_session *s = NULL;
    dt_status st = dti_cli_init(&cli, &dt_command_sweep, a, flags, true, 1, err);
    if (st == DT_OK && !cli.help) {
        st = check(&cli, &f, err);
        if (st == DT_OK)
            st = dti_cli_session(&s, cli.word[0], cli.set, cli.n_set, err);
        if (st == DT_OK)
            st = sweep_session(s, &cli, &f, err);
    }
    dt_session_close(s);
    dti_cli_deinit(&cli);
    return st;
}

const dti_command dt_command_sweep = {
    .name = "sweep",
    .usage = "dnntrain sweep CONFIG [--set s.k=v]... [--policies A,B;C] [--verify|--json]",
    .summary = "for every policy, or those that are named, the largest batch that fits the budgets",
    .run = sweep,
};
