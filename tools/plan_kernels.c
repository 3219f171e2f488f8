/* dnntrain plan --kernels: what computes each op, the workspace that it takes, by what else it
 * could be, and why implementations that would be preferred do not compute it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "session/human.h"
#include "tools/plan_report.h"

static const char *name_of(const char *impl)
{
    return impl[0] != '\0' ? impl : "a kernel of ours";
}

static void print_kernel(const char *op, const char *flops, size_t bytes, const char *impl)
{
    char room[DT_HUMAN_BYTES] = "-";
    if (bytes > 0)
        dt_human_bytes(room, bytes);
    printf("%-32s %8s %11s  %s\n", op, flops, room, name_of(impl));
}

/* Those that it could be computed by as well, the fastest first. */
static void print_others(const dt_algorithms *all, const char *taken)
{
    const char *than = "faster";
    for (int i = 0; all->n > 1 && i < all->n; i++)
        if (strcmp(all->algorithm[i].impl, taken) == 0)
            than = "slower";
        else
            print_kernel("", than, all->algorithm[i].bytes, all->algorithm[i].impl);
}

/* Those that come before the one that was taken. Ops that make layouts go by the op they serve. */
static void print_refused(const dt_op *op, const dt_choice *c)
{
    const bool serves =
        op->form == DT_DERIVE_F || op->form == DT_DERIVE_B || op->form == DT_RESTORE;
    for (int i = 0; i < c->n && !serves; i++)
        printf("%-32s %8s %11s  %s: %s\n", "", "not", "-", c->refused[i].impl->name,
            c->refused[i].why.text);
}

static dt_status print_op(const dt_program *p, const dt_op *op, dt_err *err)
{
    dt_facts f;
    dt_algorithms all;
    dt_choice c;
    char flops[32] = "-";
    DT_TRY(err, dt_op_facts(p, op, &f, err), "%s", op->name);
    DT_TRY(err, dt_op_algorithms(p, op, &all, err), "%s", op->name);
    DT_TRY(err, dt_op_choice(p, op, &c, err), "%s", op->name);
    if (op->flops >= 5e5)
        snprintf(flops, sizeof flops, "%.3f", op->flops / 1e9);
    print_kernel(op->name, flops, dt_facts_bytes(&f), f.impl);
    print_others(&all, f.impl);
    print_refused(op, &c);
    return DT_OK;
}

dt_status dt_plan_kernels(const dt_program *p, dt_err *err)
{
    printf("%-32s %8s %11s  %s\n", "op", "GFLOP", "workspace", "kernel");
    for (size_t i = 0; i < p->n_order; i++) {
        const dt_op *op = &p->op[p->order[i]];
        if (op->desc != NULL)
            DT_CHECK(print_op(p, op, err));
    }
    return DT_OK;
}
