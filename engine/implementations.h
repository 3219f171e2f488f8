/* The implementations of a layer's ops on a device: an ordered list, the best first, each of which
 * accepts a call or says why not. One chooser walks it for facts, algorithms, creation and reports
 * alike; an op that was created runs what was chosen then. A layer with a single implementation
 * has no list. */
#ifndef DT_ENGINE_IMPLEMENTATIONS_H
#define DT_ENGINE_IMPLEMENTATIONS_H

#include "engine/kernels.h"

enum { DT_MAX_IMPLS = 8, DT_WHY_BYTES = 96 };

/* Why an implementation does not compute a call: "stride 2, needs 1". */
typedef struct dt_why {
    char text[DT_WHY_BYTES];
} dt_why;

/* Writes the reason, unless @why is NULL, and returns false. */
bool dt_refuse(dt_why *why, const char *fmt, ...) DT_PRINTF(2, 3);

#define DT_FORM_BIT(form) (1u << (unsigned)(form))

/**
 * struct dt_impl - one implementation. A list ends with one that has no name.
 * @name:    for reports
 * @forms:   those of DT_FORWARD, DT_BACKWARD and DT_BACKWARD2 that it computes, as bits; 0: all.
 * Ops that make a weight's or gradient's layout go with the op that they serve, and evaluation and
 * recomputes with forward: this, accepts and yields are about the op that is served
 * @accepts: whether it computes the op; if not, why, by dt_refuse. NULL: always. True also where
 * that cannot be found out, as facts then fails. Asked often
 * @yields:  where the graph limits workspace, the next that accepts may be taken in its place, if
 * that takes fewer bytes. In a list the last that accepts does not
 * @facts @create @destroy @run @algorithms: as in dt_kernels, of calls that it was chosen for; the
 * last of what several algorithms of its own it chooses from by the limit
 */
typedef struct dt_impl {
    const char *name;
    unsigned forms;
    bool (*accepts)(const dt_call *c, dt_why *why);
    bool yields;
    dt_status (*facts)(const dt_call *c, dt_facts *f, dt_err *err);
    dt_status (*create)(const dt_call *c, void **state, dt_err *err);
    void (*destroy)(void *state);
    dt_status (*run)(const dt_call *c, void *state, const dt_args *a, dt_err *err);
    dt_status (*algorithms)(const dt_call *c, dt_algorithms *all, dt_err *err);
} dt_impl;

/**
 * struct dt_choice - what was chosen, and why what stands before it was not.
 * @taken: NULL: the layer has no list
 */
typedef struct dt_choice {
    const dt_impl *taken;
    int n;
    struct {
        const dt_impl *impl;
        dt_why why;
    } refused[DT_MAX_IMPLS];
} dt_choice;

/* The first of the list that accepts, or of those that it may yield to the first within the graph's
 * limit. DT_E_INTERNAL when none accepts. */
dt_status dti_impl_choose(
    const dt_impl *list, const dt_call *c, dt_choice *choice, dt_err *err) DT_NODISCARD;

/* dt_kernels' functions, of what is chosen. State belongs to it from create to destroy. */
dt_status dti_impl_facts(
    const dt_impl *list, const dt_call *c, dt_facts *f, dt_err *err) DT_NODISCARD;
dt_status dti_impl_algorithms(
    const dt_impl *list, const dt_call *c, dt_algorithms *all, dt_err *err) DT_NODISCARD;
dt_status dti_impl_create(
    const dt_impl *list, const dt_call *c, void **state, dt_err *err) DT_NODISCARD;
void dti_impl_destroy(void *state);
dt_status dti_impl_run(const dt_call *c, void *state, const dt_args *a, dt_err *err) DT_NODISCARD;

/* The members of a dt_kernels that a list gives. DT_IMPLS(list) stands before the table and makes
 * the functions that name the list; DT_BY_IMPLS(list) in it. */
#define DT_IMPLS(list)                                                                             \
    static dt_status list##_facts(const dt_call *c, dt_facts *f, dt_err *err)                      \
    {                                                                                              \
        return dti_impl_facts(list, c, f, err);                                                    \
    }                                                                                              \
    static dt_status list##_algorithms(const dt_call *c, dt_algorithms *all, dt_err *err)          \
    {                                                                                              \
        return dti_impl_algorithms(list, c, all, err);                                             \
    }                                                                                              \
    static dt_status list##_create(const dt_call *c, void **state, dt_err *err)                    \
    {                                                                                              \
        return dti_impl_create(list, c, state, err);                                               \
    }                                                                                              \
    _Static_assert(sizeof(list) / sizeof(list)[0] <= DT_MAX_IMPLS + 1, "a list and its end")
#define DT_BY_IMPLS(list)                                                                          \
    .impls = (list), .facts = list##_facts, .algorithms = list##_algorithms,                       \
    .create = list##_create, .destroy = dti_impl_destroy, .run = dti_impl_run

#endif
