/* What a sequence of a chain's steps takes at most, and the least that any takes. */
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers.h"
#include "memory/remat/chain.h"

/* --- of a sequence --- */

/**
 * struct replay - where a sequence has come to.
 * @input @tape: by stage: its input is kept, and its tape
 * @held:   bytes of those, and of the chain's input
 * @made:   the stage whose input the step before made and nobody keeps; UINT32_MAX: none
 * @behind: backward of this stage and of all after it has run
 */
typedef struct replay {
    const dt_chain *c;
    bool input[DT_CHAIN_MOST_STAGES], tape[DT_CHAIN_MOST_STAGES];
    uint64_t held;
    uint32_t made, behind;
} replay;

static uint64_t input_of(const replay *r, uint32_t stage)
{
    return stage > 0 ? r->c->stage[stage - 1].bytes : 0; /* the first one's is there all the time */
}

/* Bytes while a stage runs forward, beside the gradient that waits for it. */
static uint64_t forward(replay *r, dt_chain_act act, uint32_t k)
{
    const dt_chain_stage *s = &r->c->stage[k];
    const bool loose = r->made == k;
    const uint64_t waits = r->behind < r->c->n ? r->c->stage[r->behind - 1].bytes : 0;
    const uint64_t makes = act == DT_CHAIN_FORWARD_KEEP_TAPE ? s->tape : s->bytes;
    if (loose && act != DT_CHAIN_FORWARD) {
        r->input[k] = true;
        r->held += input_of(r, k);
    }
    const uint64_t reads = loose && act == DT_CHAIN_FORWARD ? input_of(r, k) : 0;
    const uint64_t bytes = r->held + waits + reads + makes + s->forward_extra;
    if (act == DT_CHAIN_FORWARD_KEEP_TAPE) {
        r->tape[k] = true;
        r->held += s->tape;
    }
    r->made = act == DT_CHAIN_FORWARD_KEEP_TAPE ? UINT32_MAX : k + 1;
    return bytes;
}

static uint64_t backward(replay *r, uint32_t k)
{
    const dt_chain_stage *s = &r->c->stage[k];
    const uint64_t bytes = r->held + s->bytes + s->backward_extra;
    r->held -= r->tape[k] ? s->tape : 0;
    r->held -= r->input[k] ? input_of(r, k) : 0;
    r->tape[k] = r->input[k] = false;
    r->made = UINT32_MAX;
    r->behind = k;
    return bytes;
}

uint64_t dt_chain_peak(const dt_chain *c, const dt_chain_plan *p)
{
    replay r = {.c = c, .held = c->input, .made = UINT32_MAX, .behind = c->n};
    uint64_t peak = c->input;
    for (size_t i = 0; i < p->n; i++) {
        const dt_chain_step *s = &p->step[i];
        peak = dt_max_u64(peak,
            s->act == DT_CHAIN_BACKWARD ? backward(&r, s->stage) : forward(&r, s->act, s->stage));
    }
    return peak;
}

/* --- of any sequence --- */

/* By stretch of stages, the fewest bytes in which the table of Rotor has a sequence. */
typedef struct least {
    const dt_chain *c;
    uint64_t *of;
} least;

static uint64_t *cell(const least *x, size_t i, size_t l)
{
    return &x->of[l * (l + 1) / 2 + i];
}

/* Keeping stage i's tape: forward beside the gradient of what stage l makes, then backward beside
 * that of its own. */
static uint64_t by_tape(const dt_chain *c, size_t i, size_t l)
{
    const dt_chain_stage *s = &c->stage[i];
    return s->tape + dt_max_u64(c->stage[l].bytes + s->forward_extra, s->bytes + s->backward_extra);
}

/* Stage j runs ahead, keeping nothing. */
static uint64_t ahead(const dt_chain *c, size_t i, size_t j, size_t l)
{
    const uint64_t reads = j > i ? c->stage[j - 1].bytes : 0;
    return c->stage[l].bytes + reads + c->stage[j].bytes + c->stage[j].forward_extra;
}

/* By the first stage's tape, or by keeping the input of stage j. */
static uint64_t of_stretch(const least *x, size_t i, size_t l)
{
    const dt_chain *c = x->c;
    uint64_t best = dt_max_u64(by_tape(c, i, l), c->stage[i].tape + *cell(x, i + 1, l)), there = 0;
    for (size_t j = i + 1; j <= l; j++) {
        there = dt_max_u64(there, ahead(c, i, j - 1, l));
        const uint64_t cut = dt_max_u64(c->stage[j - 1].bytes + *cell(x, j, l), *cell(x, i, j - 1));
        best = dt_max_u64(cut, there) < best ? dt_max_u64(cut, there) : best;
    }
    return best;
}

dt_status dt_chain_least(const dt_chain *c, uint64_t *out, dt_err *err)
{
    const size_t n = c->n;
    least x = {.c = c, .of = dt_alloc(n * (n + 1) / 2, sizeof *x.of)};
    if (x.of == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a table of %zu stages", n);
    for (size_t i = 0; i < n; i++)
        *cell(&x, i, i) = by_tape(c, i, i);
    for (size_t length = 1; length < n; length++)
        for (size_t i = 0; i + length < n; i++)
            *cell(&x, i, i + length) = of_stretch(&x, i, i + length);
    *out = c->input + *cell(&x, 0, n - 1);
    dt_free(x.of);
    return DT_OK;
}

uint64_t dti_chain_most(const dt_chain *c)
{
    uint64_t behind = 0;
    for (size_t i = c->n; i-- > 0;)
        behind = dt_max_u64(by_tape(c, i, c->n - 1), c->stage[i].tape + behind);
    return c->input + behind;
}

bool dt_chain_counts_bytes(const dt_chain *c, uint64_t unit)
{
    bool exact = c->input % unit == 0;
    for (uint32_t i = 0; i < c->n; i++) {
        const dt_chain_stage *s = &c->stage[i];
        exact = exact && s->bytes % unit == 0 && s->tape % unit == 0 &&
                s->forward_extra % unit == 0 && s->backward_extra % unit == 0;
    }
    return exact;
}
