/* A value in a plan: where it is made, read and idle, and what is done with it. A value is a tensor
 * and the copies of it that are made again, whose names have a mark behind them. */
#ifndef DT_TOOLS_PLAN_VALUE_H
#define DT_TOOLS_PLAN_VALUE_H

#include "memory/time/simulate.h"
#include "session/session.h"

/**
 * struct dti_value_view - a plan, as one of its values sees it.
 * @tensor: the one that is looked at
 * @value: by tensor, the first of its value
 * @there: by value, bytes of it are in the arena where the wait ends
 * @seen:  by value, free for who looks
 * @last @next: rows between which the value waits longest; next 0: it never waits
 * @ops:   those in between
 */
typedef struct dti_value_view {
    const dt_session *s;
    const dt_plan *p;
    const dt_timeline *t;
    int32_t tensor, *value;
    bool *there, *seen;
    size_t last, next;
    int64_t ops;
} dti_value_view;

/* Look at a plan; @t: of it. DT_E_NOMEM. Release with dti_value_deinit, even after a failure. */
dt_status dti_value_init(dti_value_view *out, const dt_session *s, const dt_plan *p,
    const dt_timeline *t, dt_err *err) DT_NODISCARD;
void dti_value_deinit(dti_value_view *w);

/* The tensor of that name; -1: there is none. */
int32_t dti_value_find(const dt_plan *p, const char *name);

/* Whether the network fused the layer @word, or the one whose output it is, into another: a line
 * says into which, and @now is the word's name there. */
enum { DTI_NOW_BYTES = DT_NAME_BYTES + 3 };
bool dti_value_told_fused(const dt_graph *g, const char *word, char now[DTI_NOW_BYTES]);

/* What a value may be asked for by: layers, those fused into them, and behind them tensors; with
 * room for @more words. To be freed, not the names; NULL: no memory. */
const char **dti_value_names(const dt_graph *g, const dt_plan *p, size_t more, size_t *n);

/* From here on look at @tensor: finds where it waits longest. */
void dti_value_look(dti_value_view *w, int32_t tensor);

/* How a COMPUTE row touches a value: DT_READ, DT_WRITE, DT_UPDATES; -1: not at all. */
int dti_value_touches(const dti_value_view *w, size_t row, int32_t value);
/* The op of a COMPUTE row. */
const dt_plan_op *dti_value_op(const dti_value_view *w, size_t row);
/* The row that makes a value first; n_row: no op does. */
size_t dti_value_maker(const dti_value_view *w, int32_t value);
/* Whether the row makes or reads the value that is looked at, and not to have it there again. */
bool dti_value_uses(const dti_value_view *w, size_t row);
/* What a row does with it: "offloaded", "made again"; NULL: nothing. */
const char *dti_value_fate(const dti_value_view *w, const dt_row *r);

#endif
