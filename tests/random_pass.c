#include "tests/random_pass.h"

#include <string.h>

#include "engine/base/alloc.h"
#include "tests/random_graph.h"

typedef struct passer {
    dt_program *p;
    dt_dice dice;
    dt_fates *f;
    dt_err *err;
    dt_err why; /* of the last refusal */
} passer;

/* DT_OK counts; DT_E_CONFIG means that the primitive does not apply here. */
static dt_status counted(passer *r, dt_status st, int64_t *counter)
{
    if (st == DT_OK)
        ++*counter;
    else if (st != DT_E_CONFIG)
        return DT_FAIL(r->err, st, "random pass: %s", r->why.text);
    dt_err_clear(&r->why);
    return DT_OK;
}

static dt_status alternatives(passer *r)
{
    for (size_t i = 0; i < r->p->graph->n_node; i++) {
        const int n = r->p->graph->node[i].desc->n_alt;
        if (n < 2 || dt_roll(&r->dice, 2) == 0)
            continue;
        const int alt = (int)dt_roll(&r->dice, (uint32_t)n);
        int64_t same = 0, *counter = alt != r->p->alt[i] ? &r->f->alternatives : &same;
        DT_CHECK(counted(r, dt_choose(r->p, (int32_t)i, alt, &r->why), counter));
    }
    return DT_OK;
}

/* A gap of the program, all with the same chance. False when there is none. */
static bool pick_gap(passer *r, bool repeatable, dt_gap *g)
{
    dt_gap x;
    uint32_t seen = 0;
    for (size_t t = 0; t < r->p->n_tensor; t++)
        for (int32_t i = 0; dt_gap_next(r->p, (int32_t)t, &i, &x);)
            if ((!repeatable || dt_repeatable(r->p, x.tensor)) && dt_roll(&r->dice, ++seen) == 0)
                *g = x;
    return seen > 0;
}

static dt_status move(passer *r)
{
    dt_gap g;
    if (!pick_gap(r, false, &g))
        return DT_OK;
    dt_move_opt o = {.release_after = DT_NONE, .fetch_before = DT_NONE};
    const int64_t after = dt_roll_in(&r->dice, g.from_pos, g.to_pos - 1);
    if (dt_roll(&r->dice, 2) == 0)
        o.release_after = r->p->order[after];
    if (dt_roll(&r->dice, 2) == 0) {
        const int64_t first = o.release_after != DT_NONE ? after + 1 : g.from_pos + 1;
        o.fetch_before = r->p->order[dt_roll_in(&r->dice, first, g.to_pos)];
    }
    const dt_tensor *t = &r->p->tensor[g.tensor];
    const bool input = t->role == DT_ROLE_INPUT;
    o.tier = (dt_tier)dt_roll(&r->dice, DT_TIERS);
    if (dt_packs(t) && dt_roll(&r->dice, 2) == 0) {
        o.codec = dt_codec_find("zvc");
        o.density = 1;
        r->f->packed_moves++;
    }
    r->f->disk_moves += !input && o.tier == DT_TIER_DISK;
    return counted(r, dt_move(r->p, &g, &o, &r->why), input ? &r->f->refetches : &r->f->moves);
}

/* Encode a gap, and half of the time move what it was packed to. */
static dt_status encode(passer *r)
{
    static const char *const names[] = {"zvc", "csr"};
    dt_gap g;
    int32_t packed = DT_NONE;
    if (!pick_gap(r, false, &g) || !dt_packs(&r->p->tensor[g.tensor]))
        return DT_OK;
    const dt_codec *codec = dt_codec_find(names[dt_roll(&r->dice, DT_COUNT(names))]);
    const double room = 0.75; /* for what ReLU leaves; other values may overflow */
    const dt_status st = dt_encode(r->p, &g, codec, room, &packed, &r->why);
    if (st == DT_OK && packed == DT_NONE)
        return DT_OK;
    DT_CHECK(counted(r, st, &r->f->encodes));
    if (packed == DT_NONE || dt_roll(&r->dice, 2) == 0)
        return DT_OK;
    for (int32_t i = 0; dt_gap_next(r->p, packed, &i, &g);)
        return counted(r, dt_move(r->p, &g, NULL, &r->why), &r->f->encoded_moves);
    return DT_OK;
}

static int64_t clones(const dt_program *p)
{
    int64_t n = 0;
    for (size_t i = 0; i < p->n_order; i++)
        n += p->op[p->order[i]].clone_of != DT_NONE;
    return n;
}

static dt_status recompute(passer *r)
{
    dt_gap g;
    if (!pick_gap(r, true, &g))
        return DT_OK;
    const int64_t before = clones(r->p);
    const bool set = dt_roll(&r->dice, 2) == 0;
    bool *dropped = set ? dt_alloc(r->p->n_tensor, sizeof *dropped) : NULL;
    if (set && dropped == NULL)
        return DT_FAIL(r->err, DT_E_NOMEM, "no memory for a set of values");
    for (size_t t = 0; set && t < r->p->n_tensor; t++)
        dropped[t] = dt_roll(&r->dice, 2) == 0;
    const dt_status st = counted(r, dt_recompute(r->p, &g, dropped, &r->why), &r->f->recomputes);
    dt_free(dropped);
    r->f->clones += clones(r->p) - before;
    return st;
}

static dt_status split(passer *r)
{
    int32_t id = DT_NONE;
    uint32_t seen = 0;
    for (size_t i = 0; i < r->p->n_order; i++) {
        const dt_op *op = &r->p->op[r->p->order[i]];
        const bool may = op->desc != NULL && op->node != DT_NONE && op->desc->form[op->form].split;
        if (may && dt_roll(&r->dice, ++seen) == 0)
            id = r->p->order[i];
    }
    if (id == DT_NONE || r->p->n < 2)
        return DT_OK;
    const int pieces = (int)dt_roll_in(&r->dice, 2, r->p->n);
    return counted(r, dt_split(r->p, id, pieces, &r->why), &r->f->splits);
}

dt_status dt_random_pass(dt_program *p, uint64_t seed, dt_fates *f, dt_err *err)
{
    static dt_status (*const fates[])(passer *) = {move, move, recompute, recompute, split, encode};
    passer r = {.p = p, .dice = {seed, 0}, .f = f, .err = err};
    DT_CHECK(alternatives(&r));
    const int64_t n = dt_roll_in(&r.dice, 1, 12);
    for (int64_t i = 0; i < n; i++)
        DT_CHECK(fates[dt_roll(&r.dice, DT_COUNT(fates))](&r));
    return DT_OK;
}
