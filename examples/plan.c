/* What a configuration would take, policy by policy: plan CONFIG [SET]... */
#include <dnntrain.h>

#include <stdio.h>

static dt_status plan(const char *config, const char *const *set, size_t n, dt_err *err)
{
    dt_run *run = NULL;
    dt_status st = dt_run_open(&run, config, set, n, err);
    if (st == DT_OK)
        st = dt_run_plan(run, err);
    if (st == DT_OK || st == DT_E_BUDGET) {
        const dt_memory m = dt_run_memory(run);
        printf("device %.1f MiB   host %.1f MiB   moved %.1f MiB   %s\n",
            (double)m.device / (1 << 20), (double)m.host / (1 << 20),
            (double)(m.out + m.in) / (1 << 20), m.exact ? "exact" : "approximate");
        const char *role;
        uint64_t bytes;
        for (int i = 0; dt_run_role(run, i, &role, &bytes); i++)
            if (bytes > 0)
                printf("  %-22s %12llu\n", role, (unsigned long long)bytes);
    }
    dt_run_close(run);
    return st;
}

int main(int argc, char **argv)
{
    static dt_err err;
    if (argc < 2) {
        fprintf(stderr, "usage: plan CONFIG [SECTION.KEY=VALUE]...\n");
        return DT_E_CONFIG;
    }
    const dt_status st = plan(argv[1], (const char *const *)argv + 2, (size_t)argc - 2, &err);
    if (st != DT_OK)
        fprintf(stderr, "%s", err.text);
    return (int)st;
}
