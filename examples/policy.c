/* A policy from outside the tree: what is large waits on the host, what is small and cheap is made
 * again. policy CONFIG [SET]... plans with it, and with keep_all beside it. */
#include <dnntrain.h>
#include <dnntrain/policy.h>

#include <stdio.h>

typedef struct options {
    uint64_t large;
} options;

static dt_status large_first(dt_program *p, const dt_pass_env *e, dt_err *err)
{
    const options *o = dt_policy_options(e);
    for (dt_saved s = {0}; dt_saved_next(p, &s);)
        if (s.bytes >= o->large) {
            s.reason = "large";
            DT_CHECK(dt_saved_offload(p, &s, err));
        } else if (s.repeatable && s.flops < 16.0 * (double)s.bytes) {
            s.reason = "small and cheap";
            DT_CHECK(dt_saved_recompute(p, &s, err));
        }
    return DT_OK;
}

static const dt_opt rows[] = {{.key = "large",
    .type = DT_OPT_BYTES,
    .at = offsetof(options, large),
    .fallback = "64KiB",
    .help = "values of so many bytes wait on the host"}};

static const dt_policy_spec large = {.name = "large_first",
    .summary = "large values wait on the host, cheap ones are made again",
    .exact = true,
    .options = rows,
    .n_options = 1,
    .options_bytes = sizeof(options),
    .pass = large_first};

static dt_status peak(int argc, char **argv, const char *policy, dt_err *err)
{
    char first[64];
    const char *set[16] = {first};
    size_t n = 1;
    dt_run *run = NULL;
    snprintf(first, sizeof first, "memory.policy=%s", policy);
    for (int i = 2; i < argc; i++)
        set[n++] = argv[i];
    dt_status st = dt_run_open(&run, argv[1], set, n, err);
    if (st == DT_OK)
        st = dt_run_plan(run, err);
    if (st == DT_OK)
        printf("%-12s %llu\n", policy, (unsigned long long)dt_run_memory(run).device);
    dt_run_close(run);
    return st;
}

int main(int argc, char **argv)
{
    static dt_err err;
    if (argc < 2 || argc > 16) {
        fprintf(stderr, "usage: policy CONFIG [SECTION.KEY=VALUE]..., at most 14 of them\n");
        return DT_E_CONFIG;
    }
    dt_status st = dt_register_policy(&large, &err);
    if (st == DT_OK)
        st = peak(argc, argv, "keep_all", &err);
    if (st == DT_OK)
        st = peak(argc, argv, large.name, &err);
    if (st != DT_OK)
        fprintf(stderr, "%s", err.text);
    return (int)st;
}
