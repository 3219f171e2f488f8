/* Rules by name for where persistent tensors live. */
#include "memory/homes.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/text.h"

dt_status dti_home_rules_add(dt_home_rules *r, const char *glob, dt_tier tier, dt_err *err)
{
    if (!dt_grow(&r->rule, &r->cap, r->n, sizeof *r->rule))
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the homes of tensors");
    r->rule[r->n++] = (dt_home_rule){glob, tier};
    return DT_OK;
}

void dti_home_rules_deinit(dt_home_rules *r)
{
    dt_free(r->rule);
    *r = (dt_home_rules){0};
}

static const char *word_of(dt_port port)
{
    return port == DT_P ? "" : port == DT_DP ? ".gradient" : port == DT_Q ? ".pending" : ".moments";
}

const char *dt_home_name(const dt_home *h, char to[DT_HOME_NAME_BYTES])
{
    const char *plain = h->port == DT_P || h->port == DT_METRICS ? h->name : strchr(h->name, '.');
    if (plain != h->name && plain != NULL)
        plain++; /* "g.conv1.weight" */
    snprintf(to, DT_HOME_NAME_BYTES, "%s%s", plain != NULL ? plain : h->name,
        h->port == DT_METRICS ? "" : word_of(h->port));
    return to;
}

static const dt_port of_buffer[] = {DT_P, DT_Q}, of_weight[] = {DT_P, DT_DP, DT_M};

static void add_names(dti_home_names *names, const char *node, const dt_param_info *p)
{
    const size_t n = p->buffer ? DT_COUNT(of_buffer) : DT_COUNT(of_weight);
    for (size_t w = 0; w < n; w++)
        snprintf(names->of[names->n++], DT_HOME_NAME_BYTES, "%s.%s%s", node, p->name,
            word_of(p->buffer ? of_buffer[w] : of_weight[w]));
}

dt_status dti_home_names_of(const dt_graph *g, dti_home_names *names, dt_err *err)
{
    size_t params = 0;
    for (size_t i = 0; i < g->n_node; i++)
        params += (size_t)g->node[i].info.n_param;
    *names = (dti_home_names){.of = dt_alloc(params * DT_COUNT(of_weight), sizeof *names->of)};
    if (names->of == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the names of %zu parameters", params);
    for (size_t i = 0; i < g->n_node; i++)
        for (int k = 0; k < g->node[i].info.n_param; k++)
            add_names(names, g->node[i].name, &g->node[i].info.param[k]);
    return DT_OK;
}

bool dti_home_known(const dti_home_names *names, const char *glob)
{
    for (size_t i = 0; i < names->n; i++)
        if (dt_glob(glob, names->of[i]))
            return true;
    return false;
}

void dt_home_rules_apply(const dt_home_rules *r, const dt_map *m, dt_tier *tier)
{
    char name[DT_HOME_NAME_BYTES];
    for (size_t k = 0; k < r->n; k++)
        for (size_t i = 0; i < m->n; i++)
            if (dt_glob(r->rule[k].glob, dt_home_name(&m->home[i], name)))
                tier[i] = r->rule[k].tier;
}
