/* Splitting an op over the batch: the same bits, less scratch at a time. */
#include <stdio.h>
#include <string.h>

#include "memory/pass.h"

/* Whether a piece of n samples runs the same code on the same layouts as the whole, and reads the
 * weight in the same layout: they share its tensor. */
static dt_status same_code(
    const dt_program *p, const dt_op *op, int64_t n, bool *same, dt_facts *piece, dt_err *err)
{
    dt_facts whole;
    dt_op small = *op;
    small.n0 = 0;
    small.n1 = n;
    DT_CHECK(dt_op_facts(p, op, &whole, err));
    DT_CHECK(dt_op_facts(p, &small, piece, err));
    *same = strcmp(whole.impl, piece->impl) == 0 && whole.layout == piece->layout &&
            whole.derived_bytes == piece->derived_bytes;
    return DT_OK;
}

dt_status dti_split(dt_program *p, int32_t id, int pieces, dt_err *err)
{
    const dt_op whole = p->op[id];
    const int64_t n = whole.n1 - whole.n0;
    if (whole.desc == NULL || whole.node == DT_NONE || whole.kind == DT_OP_REORDER ||
        !whole.desc->form[whole.form].split || whole.n0 != 0 || n != p->n)
        return DT_FAIL(err, DT_E_CONFIG, "'%s' cannot be split over the batch", whole.name);
    if (pieces < 2 || pieces > n)
        return DT_FAIL(
            err, DT_E_CONFIG, "'%s': %d pieces of %lld samples", whole.name, pieces, (long long)n);
    dt_facts f[2]; /* pieces differ by one sample at most */
    for (int k = 0; k < 2; k++) {
        bool same;
        DT_CHECK(same_code(p, &whole, n / pieces + k, &same, &f[k], err));
        if (!same && (k == 0 || n % pieces != 0))
            return DT_FAIL(err, DT_E_CONFIG, "'%s': a piece would run other code", whole.name);
    }
    int64_t at = 0;
    int32_t pos = dt_pos(p, id);
    for (int k = 0; k < pieces; k++) {
        const int extra = k < n % pieces;
        const int64_t size = n / pieces + extra;
        dt_op op = whole;
        op.n0 = at;
        op.n1 = at += size;
        op.flops = whole.flops * (double)size / (double)n;
        snprintf(op.name, sizeof op.name, "%.80s[%lld:%lld]", whole.name, (long long)op.n0,
            (long long)op.n1);
        DT_CHECK(dt_op_bind_work(p, &op, f[extra].work_bytes, err));
        if (k == 0) {
            p->op[id] = op;
            p->stale = true;
        } else {
            int32_t other;
            DT_CHECK(dt_program_insert(p, &op, (size_t)pos + (size_t)k, &other, err));
        }
    }
    return dt_program_index(p, err);
}
