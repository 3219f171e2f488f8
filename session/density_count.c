/* Shares of values not zero, as ops write them. */
#include "session/density_count.h"

#include <math.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/team.h"
#include "memory/pass.h"

/* It is read behind the loss again, whatever becomes of it until then. */
static bool waits(const dt_program *p, size_t tensor)
{
    int32_t n;
    const dt_access *a = dt_accesses(p, (int32_t)tensor, &n);
    return p->loss != DT_NONE && p->tensor[tensor].role == DT_ROLE_ACTIVATIONS &&
           dt_packs(&p->tensor[tensor]) && n > 1 && dt_pos(p, a[0].op) < dt_pos(p, p->loss) &&
           dt_pos(p, a[n - 1].op) > dt_pos(p, p->loss);
}

/* As codecs see it: zero is the word without a bit. */
typedef struct counting {
    const uint32_t *word;
    int64_t n, *some;
} counting;

enum { PIECE = 1 << 16 };

static void count_task(const void *of, int64_t piece)
{
    const counting *c = of;
    const int64_t from = piece * PIECE, to = from + PIECE < c->n ? from + PIECE : c->n;
    int64_t some = 0;
    for (int64_t i = from; i < to; i++)
        some += c->word[i] != 0;
    (void)__atomic_fetch_add(c->some, some, __ATOMIC_RELAXED);
}

static double share_of(const uint32_t *word, int64_t n)
{
    int64_t some = 0;
    const counting c = {word, n, &some};
    dt_team_run((n + PIECE - 1) / PIECE, count_task, &c);
    return n > 0 ? (double)some / (double)n : 0;
}

static dt_named names_of(const dti_density_count *c)
{
    return (dt_named){c->of, sizeof *c->of, offsetof(dti_counted, name), .refers = false};
}

static void look(void *self, const dt_plan_tensor *t, const void *bytes)
{
    dti_density_count *c = self;
    if (t->role != DT_ROLE_ACTIVATIONS)
        return;
    const size_t found = dt_names_find(&c->names, names_of(c), t->name);
    if (found == 0)
        return;
    dti_counted *of = &c->of[found - 1];
    const double share = share_of(bytes, (int64_t)(t->bytes / sizeof(uint32_t)));
    of->share = share > of->share ? share : of->share;
    of->sum += share;
    of->seen++;
}

dt_status dti_density_count_open(dti_density_count *c, dt_program *p, dt_err *err)
{
    *c = (dti_density_count){.probe = {c, look}};
    DT_CHECK(dt_program_index(p, err));
    c->of = dt_alloc(p->n_tensor + 1, sizeof *c->of);
    if (c->of == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to count values");
    for (size_t t = 0; t < p->n_tensor; t++)
        if (waits(p, t)) {
            memcpy(c->of[c->n].name, p->tensor[t].name, sizeof c->of->name);
            c->of[c->n++].bytes = p->tensor[t].bytes;
        }
    if (!dt_names_fill(&c->names, names_of(c), c->n))
        return DT_FAIL(err, DT_E_NOMEM, "no memory to count values");
    dti_density_count_begin(c);
    return DT_OK;
}

void dti_density_count_close(dti_density_count *c)
{
    dt_free(c->of);
    dt_names_deinit(&c->names);
    *c = (dti_density_count){0};
}

void dti_density_count_begin(dti_density_count *c)
{
    for (size_t i = 0; i < c->n; i++) {
        c->of[i].share = -1;
        c->of[i].sum = 0;
        c->of[i].seen = 0;
    }
}

/* Rounded up: never less room than was seen. */
dt_status dti_density_count_keep(
    const dti_density_count *c, double margin, bool all, dt_densities *to, dt_err *err)
{
    for (size_t i = 0; i < c->n; i++) {
        const dti_counted *w = &c->of[i];
        const double share = ceil((w->share + margin) * 1e4) / 1e4;
        const double room = w->seen == 0 ? -1 : share < 1 ? share : 1;
        const double mean = w->seen == 0 ? -1 : fmin(w->sum / (double)w->seen, room);
        if (w->seen > 0 || all)
            DT_CHECK(dt_densities_put(to, w->name, room, mean, err));
    }
    return DT_OK;
}
