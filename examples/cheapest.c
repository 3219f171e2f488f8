/* A policy from outside the tree that goes by costs: values leave in the order of bytes freed for a
 * second, each by the fate that takes less time, until a share of them is gone. cheapest CONFIG
 * [SET]... plans with shares from none to all, and other policies beside it. */
#include <dnntrain.h>
#include <dnntrain/policy.h>

#include <stdio.h>
#include <stdlib.h>

typedef struct options {
    double share;
} options;

typedef struct choice {
    dt_saved value;
    double seconds;
    bool again; /* recompute, and not offload */
} choice;

static choice cheaper(const dt_program *p, const dt_pass_env *e, const dt_saved *s)
{
    choice c = {.value = *s, .seconds = dt_saved_offload_seconds(e, s)};
    const double again = dt_saved_recompute_seconds(p, e, s);
    if (s->repeatable && again < c.seconds) {
        c.seconds = again;
        c.again = true;
    }
    c.value.reason = c.again ? "made again in less time than copied" : "copied in the least time";
    return c;
}

/* The most bytes for a second first; of equals, the one made first, so that plans repeat. */
static int by_rate(const void *x, const void *y)
{
    const choice *a = x, *b = y;
    const double l = (double)b->value.bytes * a->seconds, r = (double)a->value.bytes * b->seconds;
    return l > r ? 1 : l < r ? -1 : a->value.tensor - b->value.tensor;
}

static dt_status cheapest(dt_program *p, const dt_pass_env *e, dt_err *err)
{
    enum { MOST = 1024 }; /* of more, the first */
    const options *o = dt_policy_options(e);
    choice all[MOST];
    size_t n = 0;
    double bytes = 0, gone = 0;
    dt_status st = DT_OK;
    for (dt_saved s = {0}; n < MOST && dt_saved_next(p, &s);) {
        all[n++] = cheaper(p, e, &s);
        bytes += (double)s.bytes;
    }
    qsort(all, n, sizeof *all, by_rate);
    for (size_t i = 0; st == DT_OK && i < n && gone < o->share * bytes; i++) {
        gone += (double)all[i].value.bytes;
        st = all[i].again ? dt_saved_recompute(p, &all[i].value, err)
                          : dt_saved_offload(p, &all[i].value, err);
    }
    return st;
}

static const dt_opt rows[] = {{.key = "share",
    .type = DT_OPT_F64,
    .at = offsetof(options, share),
    .fallback = "0.5",
    .min = 0,
    .max = 1,
    .help = "of the bytes that wait for backward, how much is freed"}};

static const dt_policy_spec spec = {.name = "cheapest",
    .summary = "what frees most bytes for a second goes first, by the fate that takes less",
    .exact = true,
    .options = rows,
    .n_options = 1,
    .options_bytes = sizeof(options),
    .pass = cheapest};

/* One line of a table: what a list of policies takes. @share: of ours; NULL: it is not in the list
 */
static dt_status plan(int argc, char **argv, const char *list, const char *share, dt_err *err)
{
    char policy[64], of_it[64];
    const char *set[16] = {policy, of_it};
    size_t n = share != NULL ? 2 : 1;
    dt_run *run = NULL;
    dt_forecast step = {0};
    snprintf(policy, sizeof policy, "memory.policy=%s", list);
    snprintf(of_it, sizeof of_it, "policy.cheapest.share=%s", share != NULL ? share : "");
    for (int i = 2; i < argc; i++)
        set[n++] = argv[i];
    dt_status st = dt_run_open(&run, argv[1], set, n, err);
    if (st == DT_OK)
        st = dt_run_plan(run, err);
    if (st == DT_OK)
        st = dt_run_predict(run, &step, err);
    if (st == DT_OK)
        printf("%-10s %-4s  device %10llu  host %10llu  %.6f s%s\n", list,
            share != NULL ? share : "-", (unsigned long long)dt_run_memory(run).device,
            (unsigned long long)dt_run_memory(run).host, step.seconds,
            step.known ? "" : " (by defaults: an order alone)");
    dt_run_close(run);
    return st;
}

int main(int argc, char **argv)
{
    static const char *const shares[] = {"0", "0.5", "1"};
    static const char *const others[] = {"keep_all", "vdnn_all", "chen_sqrt"};
    static dt_err err;
    if (argc < 2 || argc > 16) {
        fprintf(stderr, "usage: cheapest CONFIG [SECTION.KEY=VALUE]..., at most 14 of them\n");
        return DT_E_CONFIG;
    }
    dt_status st = dt_register_policy(&spec, &err);
    for (size_t i = 0; st == DT_OK && i < sizeof shares / sizeof *shares; i++)
        st = plan(argc, argv, "cheapest", shares[i], &err);
    for (size_t i = 0; st == DT_OK && i < sizeof others / sizeof *others; i++)
        st = plan(argc, argv, others[i], NULL, &err);
    if (st != DT_OK)
        fprintf(stderr, "%s", err.text);
    return (int)st;
}
