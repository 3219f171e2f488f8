/* The sweep as a page: the largest batch of each policy, and what it takes. */
#include <inttypes.h>

#include "session/human.h"
#include "tools/page_plan.h"
#include "tools/sweep.h"

static void one(const dti_page *p, const dt_sweep_row *r, int64_t most)
{
    char text[64];
    dti_page_row(p, NULL);
    dti_page_cell(p, r->policy);
    snprintf(text, sizeof text, "%" PRId64 "%s%s", r->batch, r->capped ? " or more" : "",
        r->refused[0] != '\0' ? ", refused"
        : r->beyond           ? ", not here"
                              : "");
    dti_page_number(p, (double)r->batch, text);
    dti_page_share(p, most > 0 ? (double)r->batch / (double)most : 0, 1);
    dti_page_bytes(p, r->peak);
    dti_page_bytes(p, r->host_peak);
    dti_page_bytes(p, r->disk_peak);
    dti_page_bytes(p, r->traffic.out);
    dti_page_bytes(p, r->traffic.in);
    snprintf(text, sizeof text, "%.1f %%", 100 * r->recompute);
    dti_page_number(p, r->recompute, text);
    dti_page_number(p, r->rate, r->step > 0 ? dt_human_rate(text, r->rate) : "–");
    dti_page_cell(p, r->exact ? "the same bits" : "change");
    dti_page_row_end(p);
}

static void put_note(void *page, const char *text)
{
    dti_page_hint(page, text);
}

static void table(dti_page *p, const dti_sweep *w)
{
    static const dti_page_column columns[] = {{"policy", false}, {"largest batch", true},
        {"of the largest", false}, {"peak", true}, {"host", true}, {"disk", true},
        {"moved out", true}, {"moved in", true}, {"again", true}, {"samples/s", true},
        {"results", false}};
    char missing[DTI_SWEEP_LEFT_OUT];
    int64_t most = 0;
    for (size_t i = 0; i < w->n; i++)
        most = w->row[i].batch > most ? w->row[i].batch : most;
    dti_page_section(p, "batches", "The largest batches");
    dti_page_table(p, columns, DT_COUNT(columns));
    for (size_t i = 0; i < w->n; i++)
        one(p, &w->row[i], most);
    dti_page_table_end(p);
    fprintf(p->f,
        "<p class=\"hint\">Planned, not run. Not here: a run of it takes more memory than this "
        "machine has. Again: operations computed again, of those of forward and backward. Samples "
        "a second: %s, where costs are known.</p>\n",
        dt_costs_said(&w->session->costs));
    dti_sweep_notes(w, &(dt_teller){p, put_note});
    if (dti_sweep_left_out(w, missing)[0] != '\0')
        dti_page_hint(p, missing);
    dti_page_section_end(p);
}

dt_status dti_sweep_html(const void *sweep, FILE *f, dt_err *err)
{
    const dti_sweep *w = sweep;
    const dt_session *s = w->session;
    char title[192], about[256], budget[DT_HUMAN_BYTES];
    dti_page p;
    snprintf(title, sizeof title, "%s: the largest batch of each policy", s->graph->name);
    snprintf(about, sizeof about, "in %s of the device",
        dt_human_bytes(budget, s->opts.memory.device_budget));
    dti_page_begin(&p, f, title, about);
    table(&p, w);
    const dt_status st = dti_page_machine(&p, s, err);
    const dt_status ended = dti_page_end(&p, st == DT_OK ? err : NULL);
    return st != DT_OK ? st : ended;
}
