/* Figures of an account, for people and programs. */
#include "tools/plan_account.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/json_out.h"
#include "tools/terminal.h"

static dt_status show_json(
    const dt_session *s, const dt_account_desc *a, const double *value, int64_t batch, dt_err *err)
{
    dt_json j = dt_json_begin();
    dt_json_text(&j, "network", s->graph->name);
    dt_json_whole(&j, "batch", (uint64_t)batch);
    dt_json_text(&j, "account", a->name);
    dt_json list = dt_json_list(&j, "figures");
    for (size_t i = 0; i < a->n; i++) {
        dt_json f = dt_json_element(&list);
        dt_json_text(&f, "name", a->figure[i].name);
        dt_json_real(&f, "value", value[i], 6);
        dt_json_text(&f, "unit", a->figure[i].unit);
        dt_json_text(&f, "meaning", a->figure[i].meaning);
        dt_json_leave(&list, &f);
    }
    dt_json_leave(&j, &list);
    return dti_json_out(&j, err);
}

static void show_table(
    const dt_session *s, const dt_account_desc *a, const double *value, int64_t batch)
{
    int name = 0;
    printf("%s, batch %" PRId64 ", counted as a paper does and never run so:\n%s\n\n",
        s->graph->name, batch, a->summary);
    for (size_t i = 0; i < a->n; i++)
        name = (int)strlen(a->figure[i].name) > name ? (int)strlen(a->figure[i].name) : name;
    for (size_t i = 0; i < a->n; i++) {
        char number[64] = "-";
        if (!isnan(value[i]))
            snprintf(number, sizeof number, "%.*f", value[i] == (double)(int64_t)value[i] ? 0 : 3,
                value[i]);
        const int at =
            printf("%-*s %10s %-7s  ", name, a->figure[i].name, number, a->figure[i].unit);
        dti_term_wrap(stdout, at, at, a->figure[i].meaning);
    }
}

dt_status dti_plan_account(const dt_session *s, bool json, dt_err *err)
{
    double value[DT_ACCOUNT_FIGURES];
    const dt_account_desc *a = dt_account_find(s->opts.memory.account);
    const dt_account_ask ask = dt_session_account_ask(s, s->opts.train.batch);
    DT_TRY(err, a->count(s->graph, &ask, value, err), "memory.account = %s", a->name);
    if (json)
        return show_json(s, a, value, ask.batch, err);
    show_table(s, a, value, ask.batch);
    return DT_OK;
}
