/* What was compared, as a page: peak against time as a picture, and all plans as a table. */
#include <inttypes.h>
#include <stdlib.h>

#include "engine/base/alloc.h"
#include "session/human.h"
#include "tools/compare.h"
#include "tools/page_plan.h"

static void put_bytes(const dt_page *p, uint64_t bytes)
{
    char text[DT_HUMAN_BYTES];
    dti_page_number(p, (double)bytes, bytes > 0 ? dt_human_bytes(text, bytes) : "–");
}

static void put_seconds(const dt_page *p, double seconds)
{
    char text[32];
    snprintf(text, sizeof text, "%.6f", seconds);
    dti_page_number(p, seconds, seconds > 0 ? text : "–");
}

static void one(const dt_page *p, const dt_compare *c, const dt_compare_row *r, bool ran)
{
    const dt_compare_row *kept = &c->row[c->kept];
    char text[64];
    dti_page_row(p, r->best ? "best" : NULL);
    snprintf(text, sizeof text, "%s%s", r->best ? "★" : "", r->can ? "" : "cannot be run");
    dti_page_cell(p, r->policy);
    dti_page_cell(p, text);
    put_bytes(p, r->budget);
    put_bytes(p, r->need.device);
    dti_page_share(p, (double)r->need.device / (double)kept->need.device);
    put_bytes(p, r->need.host + r->need.disk);
    put_seconds(p, r->time.seconds);
    put_seconds(p, r->time.stalled);
    if (ran)
        put_seconds(p, r->measured);
    const double again = r->score.flops > 0 ? r->score.recompute_flops / r->score.flops : 0;
    snprintf(text, sizeof text, "%.1f %%", 100 * again);
    dti_page_number(p, again, text);
    dti_page_cell(p, r->exact ? "the same bits" : "change");
    dti_page_row_end(p);
}

static void table(const dt_page *p, const dt_compare *c)
{
    static const dt_page_column columns[] = {{"policy", false}, {"", false}, {"planned by", true},
        {"peak", true}, {"of keep_all", false}, {"host, disk", true}, {"step, s", true},
        {"of it waits", true}, {"measured", true}, {"again", true}, {"results", false}};
    dt_page_column shown[DT_COUNT(columns)];
    bool ran = false;
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++)
        ran = ran || c->row[i].measured > 0;
    for (size_t i = 0; i < DT_COUNT(columns); i++)
        if (i != 8 || ran)
            shown[n++] = columns[i];
    dti_page_section(p, "plans", "The plans");
    dti_page_table(p, shown, n);
    for (size_t i = 0; i < c->n; i++)
        if (!c->row[i].again)
            one(p, c, &c->row[i], ran);
    dti_page_table_end(p);
    fputs(
        "<p class=\"hint\">★ no exact plan takes less of both memory and time. Planned by: the "
        "budget, where plans go by one. Again: operations computed again, of those of forward and "
        "backward.</p>\n",
        p->f);
    dti_page_section_end(p);
}

static dt_status fill(dt_page *p, const dt_compare *c, dt_err *err)
{
    dti_page_section(p, "front", "Memory against time");
    fputs("<div class=\"wide\">\n", p->f);
    const dt_status st = dti_compare_svg(c, p->f, err);
    fputs("</div>\n", p->f);
    dti_page_section_end(p);
    DT_CHECK(st);
    table(p, c);
    return dti_page_machine(p, c->session, err);
}

dt_status dti_compare_html(const void *compare, FILE *f, dt_err *err)
{
    const dt_compare *c = compare;
    const dt_session *s = c->session;
    char title[192], about[512];
    dt_page p;
    snprintf(title, sizeof title, "%s: policies compared", s->graph->name);
    if (c->row[c->kept].time.known)
        snprintf(about, sizeof about, "%" PRId64 " samples a step; times are %s: %.200s",
            s->opts.train.batch, s->costs.simulated ? "simulated" : "predicted", s->costs.name);
    else
        snprintf(about, sizeof about,
            "%" PRId64 " samples a step; nothing was measured of this machine, so only the order "
            "of times counts",
            s->opts.train.batch);
    dti_page_begin(&p, f, title, about);
    const dt_status st = fill(&p, c, err);
    const dt_status ended = dti_page_end(&p, st == DT_OK ? err : NULL);
    return st != DT_OK ? st : ended;
}
