/* What was compared, for programs: JSON, and comma-separated values. */
#include <inttypes.h>
#include <string.h>

#include "tools/compare.h"
#include "tools/json_out.h"
#include "tools/out_file.h"
#include "tools/vary.h"

enum { WHY_BYTES = 1024 };

/* Which variant it is, and whose bits it trains. */
static void add_variant(dt_json *o, const dt_compare *c, const dt_compare_row *r)
{
    char bits[DTI_COMPARE_BITS];
    for (size_t k = 0; k < c->vary.n; k++) {
        const char *value = dti_vary_value(&c->vary, dt_compare_variant(c, r), k, NULL);
        if (value != NULL)
            dt_json_text(o, c->vary.key[k].name, value);
        else
            dt_json_null(o, c->vary.key[k].name);
    }
    if (r->refused == NULL && r->exact)
        dt_json_text(o, "bits", dti_compare_letter(dt_compare_variant(c, r)->group, bits));
    else
        dt_json_null(o, "bits");
    dt_json_flag(o, "own_algorithms", r->other_algorithms);
}

static void add_found(dt_json *o, const dt_compare *c, const dt_compare_row *r, size_t b)
{
    char vain[DT_COMPARE_IN_VAIN];
    dt_json_whole(o, "device_peak", r->need.device);
    dt_json_whole(o, "host_peak", r->need.tier[DT_TIER_HOST]);
    dt_json_whole(o, "disk_peak", r->need.tier[DT_TIER_DISK]);
    dt_json_seconds(o, "step_seconds", r->time.seconds);
    dt_json_real(o, "images_per_second", r->time.rate, 6);
    dt_json_flag(o, "exact", r->exact);
    dt_json_seconds(o, "bound_seconds", dt_compare_least(c, r, b));
    dt_json_seconds(o, "compute_seconds", r->time.compute);
    dt_json_seconds(o, "stall_seconds", r->time.stalled);
    dt_json_whole(o, "moved_out", r->score.out);
    dt_json_whole(o, "moved_in", r->score.in);
    dt_json_whole(o, "expected_out", r->traffic.out);
    dt_json_whole(o, "expected_in", r->traffic.in);
    dt_json_real(o, "recompute_flops", r->score.recompute_flops, 0);
    dt_json_flag(o, "best", r->best);
    dt_json_flag(o, "whole_batch", r->at_once);
    if (dt_compare_in_vain(c, r, vain)[0] != '\0')
        dt_json_text(o, "in_vain", vain);
    dt_json_text(o, "costs", dt_compare_costs(r));
    if (r->measured > 0) {
        dt_json_seconds(o, "measured_seconds", r->measured);
        dt_json_seconds(o, "measured_spread", r->spread);
    }
}

/* What is found of a row that was refused: why. */
static void add_refused(dt_json *o, const dt_compare_row *r)
{
    static const char *const none[] = {"device_peak", "host_peak", "disk_peak", "step_seconds",
        "images_per_second", "exact", "bound_seconds"};
    char why[WHY_BYTES];
    for (size_t i = 0; i < DT_COUNT(none); i++)
        dt_json_null(o, none[i]);
    dt_json_flag(o, "best", false);
    dt_json_text(o, "refused", dt_compare_why(r, why, sizeof why));
}

/* A pair under the b-th budget of its variant, for programs: each with all budgets, and what was
 * refused by itself once, without one. */
typedef struct entry {
    const dt_compare_row *r;
    size_t b;
    uint64_t budget; /* 0: none */
    bool told;       /* before */
} entry;

static size_t entries_of(const dt_compare *c, size_t pair)
{
    const size_t n = c->under[c->variants.pair[pair].variant].n;
    return n > 0 ? n : 1;
}

static entry entry_of(const dt_compare *c, size_t pair, size_t b)
{
    const dt_compare_under *u = &c->under[c->variants.pair[pair].variant];
    const dt_compare_row *r = &c->row[c->of[pair][b]];
    return (entry){.r = r,
        .b = b,
        .budget = r->refused == NULL ? u->budget[b] : r->budget,
        .told = r->refused != NULL && b > 0 && c->of[pair][b] == c->of[pair][b - 1]};
}

/* The rows of a pair that stand under none of the budgets: from *i on; NULL behind the last. */
static const dt_compare_row *next_of_front(const dt_compare *c, size_t pair, size_t *i)
{
    const dt_variant_list *of = &c->variants.pair[pair];
    for (; *i < c->n; ++*i) {
        const dt_compare_row *r = &c->row[*i];
        if (r->front && r->list == of->list && r->variant == of->variant)
            return &c->row[(*i)++];
    }
    return NULL;
}

static void element(dt_json *to, const dt_compare *c, const entry *e)
{
    dt_json o = dt_json_element(to);
    dt_json_text(&o, "policy", e->r->policy);
    if (e->budget > 0)
        dt_json_whole(&o, "budget", e->budget);
    else
        dt_json_null(&o, "budget");
    dt_json_flag(&o, "fits", dt_compare_fits(e->r, e->budget));
    if (e->r->refused == NULL)
        add_found(&o, c, e->r, e->b);
    else
        add_refused(&o, e->r);
    if (c->vary.n > 0)
        add_variant(&o, c, e->r);
    dt_json_leave(to, &o);
}

dt_status dti_compare_json(const dt_compare *c, dt_err *err)
{
    dt_json list = dt_json_begin_list();
    for (size_t p = 0; p < c->variants.n_pair; p++) {
        for (size_t b = 0; b < entries_of(c, p) && list.ok; b++) {
            const entry e = entry_of(c, p, b);
            if (!e.told)
                element(&list, c, &e);
        }
        size_t i = 0;
        for (const dt_compare_row *r; list.ok && (r = next_of_front(c, p, &i)) != NULL;)
            element(&list, c, &(entry){.r = r, .b = DT_COMPARE_BUDGETS, .budget = r->budget});
    }
    return dti_json_out(&list, err);
}

/* Where none can be or is refused, there is no column for it. */
static bool tells_refused(const dt_compare *c)
{
    bool any = c->vary.n > 0;
    for (size_t i = 0; i < c->n; i++)
        any = any || c->row[i].refused != NULL;
    return any;
}

static void csv_head(const dt_compare *c, FILE *f)
{
    fprintf(f,
        "policy,budget,fits,device_peak,host_peak,disk_peak,step_seconds,images_per_second,exact,"
        "bound_seconds,moved_out,moved_in,recompute_flops,best,costs,measured_seconds,"
        "measured_spread,expected_out,expected_in,whole_batch,compute_seconds,stall_seconds,in_"
        "vain");
    for (size_t k = 0; k < c->vary.n; k++) {
        fputc(',', f);
        dti_csv_text(f, c->vary.key[k].name);
    }
    fprintf(f, "%s%s\n", c->vary.n > 0 ? ",bits,own_algorithms" : "",
        tells_refused(c) ? ",refused" : "");
}

static void csv_found(const dt_compare *c, const entry *e, FILE *f)
{
    char vain[DT_COMPARE_IN_VAIN];
    const dt_compare_row *r = e->r;
    fprintf(f, ",%" PRIu64 ",%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.9g,%.6f,%s", e->budget,
        dt_compare_fits(r, e->budget) ? "yes" : "no", r->need.device, r->need.tier[DT_TIER_HOST],
        r->need.tier[DT_TIER_DISK], r->time.seconds, r->time.rate, r->exact ? "yes" : "no");
    fprintf(f, ",%.9g,%" PRIu64 ",%" PRIu64 ",%.0f,%s,%s,", dt_compare_least(c, r, e->b),
        r->score.out, r->score.in, r->score.recompute_flops, r->best ? "yes" : "no",
        dt_compare_costs(r));
    if (r->measured > 0)
        fprintf(f, "%.9g,%.9g", r->measured, r->spread);
    else
        fputc(',', f);
    fprintf(f, ",%" PRIu64 ",%" PRIu64 ",%s,%.9g,%.9g,", r->traffic.out, r->traffic.in,
        r->at_once ? "yes" : "no", r->time.compute, r->time.stalled);
    dti_csv_text(f, dt_compare_in_vain(c, r, vain));
}

static void csv_refused(const entry *e, FILE *f)
{
    fputc(',', f);
    if (e->budget > 0)
        fprintf(f, "%" PRIu64, e->budget);
    fputs(",no,,,,,,,,,,,no,,,,,,,,,", f);
}

static void csv_variant(const dt_compare *c, const dt_compare_row *r, FILE *f)
{
    char bits[DTI_COMPARE_BITS];
    for (size_t k = 0; k < c->vary.n; k++) {
        fputc(',', f);
        dti_csv_text(f, dti_vary_value(&c->vary, dt_compare_variant(c, r), k, ""));
    }
    fprintf(f, ",%s,%s",
        r->refused == NULL && r->exact ? dti_compare_letter(dt_compare_variant(c, r)->group, bits)
                                       : "",
        r->other_algorithms ? "yes" : "no");
}

static void csv_line(const dt_compare *c, const entry *e, FILE *f)
{
    char why[WHY_BYTES];
    dti_csv_text(f, e->r->policy);
    if (e->r->refused == NULL)
        csv_found(c, e, f);
    else
        csv_refused(e, f);
    if (c->vary.n > 0)
        csv_variant(c, e->r, f);
    if (tells_refused(c))
        fputc(',', f);
    if (e->r->refused != NULL)
        dti_csv_text(f, dt_compare_why(e->r, why, sizeof why));
    fputc('\n', f);
}

dt_status dti_compare_csv(const void *compare, FILE *f, dt_err *err)
{
    const dt_compare *c = compare;
    (void)err;
    csv_head(c, f);
    for (size_t p = 0; p < c->variants.n_pair; p++) {
        for (size_t b = 0; b < entries_of(c, p); b++) {
            const entry e = entry_of(c, p, b);
            if (!e.told)
                csv_line(c, &e, f);
        }
        size_t i = 0;
        for (const dt_compare_row *r; (r = next_of_front(c, p, &i)) != NULL;)
            csv_line(c, &(entry){.r = r, .b = DT_COMPARE_BUDGETS, .budget = r->budget}, f);
    }
    return DT_OK;
}
