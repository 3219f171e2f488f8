/* Plans that a device keeps: at the second run of a plan the calling thread's steps are recorded,
 * range by range, and from then on done again as a whole; on CUDA these are its graphs. Batches
 * come from one of two blocks, so what fetches them is kept twice. What cannot be kept is launched
 * row by row, as at first. */
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/runner/runner_internal.h"

enum { HOST = DT_MAIN_STREAM /* the calling thread */ };

/* Steps of the calling thread, one after the other, that a device keeps as a whole; they end where
 * another thread is waited for, which is a range by itself (kept: NULL), or has to be told. What
 * fetches is kept once for each block of input. */
typedef struct dti_range {
    int32_t first, last; /* steps, the last one included */
    bool fetches;
    void *kept[2];
} dti_range;

static bool is_host_wait(const dti_step *s)
{
    return s->kind == DTI_WAIT && s->from != HOST;
}

/* Where the calling thread's steps are cut. */
static dt_status find_ranges(dti_plan *p, dt_err *err)
{
    p->range = dt_alloc(p->n_step, sizeof *p->range);
    if (p->range == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to keep a plan");
    bool open = false;
    for (int32_t i = p->begin[HOST]; i >= 0; i = p->step[i].next) {
        const dti_step *s = &p->step[i];
        if (!open || is_host_wait(s))
            p->range[p->n_range++] = (dti_range){.first = i};
        p->range[p->n_range - 1].last = i;
        p->range[p->n_range - 1].fetches |= s->kind == DTI_FETCH;
        open = !is_host_wait(s) && !s->crosses;
    }
    return DT_OK;
}

/* Put a range on the queues; @signalled says by event in which range that was. What earlier ones
 * did is done before this one begins, so only its own events are waited for. */
static dt_status put_range(
    const dti_run *u, const dti_range *x, int32_t number, int32_t *signalled, dt_err *err)
{
    dt_runner *r = u->r;
    for (int32_t i = x->first;; i = u->p->step[i].next) {
        dti_step *s = &u->p->step[i];
        if (s->kind != DTI_WAIT) {
            DT_CHECK(dti_step_put(u, s, HOST, err));
        } else if (signalled[s->event] == number) {
            DT_CHECK(r->d->wait(r->device, s->stream, s->event, err));
        }
        if (s->kind != DTI_WAIT && s->event >= 0) {
            DT_CHECK(r->d->signal(r->device, s->stream, s->event, err));
            signalled[s->event] = number;
        }
        if (i == x->last)
            return DT_OK;
    }
}

static dt_status keep_range(const dti_run *u, const dti_range *x, int32_t number,
    int32_t *signalled, void **kept, dt_err *err)
{
    const dt_driver *d = u->r->d;
    DT_CHECK(d->record(u->r->device, err));
    const dt_status st = put_range(u, x, number, signalled, err);
    const dt_status end = d->recorded(u->r->device, kept, st == DT_OK ? err : NULL);
    return st != DT_OK ? st : end;
}

/* Those of one block of input; what fetches nothing belongs to the first. */
static dt_status keep_ranges(const dti_run *u, int block, int32_t *signalled, dt_err *err)
{
    for (size_t i = 0; i < u->p->n_range; i++) {
        dti_range *x = &u->p->range[i];
        if (!is_host_wait(&u->p->step[x->first]) && (block == 0 || x->fetches))
            DT_CHECK(
                keep_range(u, x, (int32_t)(2 * i) + block + 1, signalled, &x->kept[block], err));
    }
    return DT_OK;
}

static dt_status keep(const dti_run *u, dt_err *err)
{
    dti_input *in = &u->r->input;
    const int now = in->now;
    DT_CHECK(find_ranges(u->p, err));
    int32_t *signalled = dt_alloc((size_t)u->p->n_event, sizeof *signalled);
    if (signalled == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to keep a plan");
    dt_status st = DT_OK;
    for (in->now = 0; in->now < 2 && st == DT_OK; in->now++)
        st = keep_ranges(u, in->now, signalled, err);
    in->now = now;
    dt_free(signalled);
    return st;
}

/* A failure that is not of the recording comes again when the rows are launched, and is told there.
 */
void dti_graphs_keep(const dti_run *u)
{
    dt_runner *r = u->r;
    dt_err why; /* large, and made only here */
    dt_err_clear(&why);
    if (r->d->record == NULL || u->p->begin[HOST] < 0) { /* it cannot, or there is nothing */
        u->p->plain = true;
        return;
    }
    if (keep(u, &why) == DT_OK)
        return;
    dti_graphs_forget(r, u->p);
    u->p->plain = true;
    if (r->plain[0] == '\0')
        snprintf(r->plain, sizeof r->plain, "%.*s", (int)strcspn(why.text, "\n"), why.text);
}

dt_status dti_graphs_run(const dti_run *u, dt_err *err)
{
    dt_runner *r = u->r;
    for (size_t i = 0; i < u->p->n_range && !dti_streams_stopped(r->streams); i++) {
        const dti_range *x = &u->p->range[i];
        const dti_step *last = &u->p->step[x->last];
        void *kept = x->kept[x->fetches ? r->input.now : 0];
        if (kept == NULL) {
            DT_CHECK(dti_step_wait(u, last, HOST, err));
            continue;
        }
        DT_CHECK(r->d->replay(r->device, kept, err));
        if (last->kind != DTI_WAIT && last->crosses) {
            DT_CHECK(r->d->signal(r->device, HOST, last->event, err));
            dti_stream_signal(r->streams, last->event);
        }
    }
    return DT_OK;
}

void dti_graphs_forget(dt_runner *r, dti_plan *p)
{
    for (size_t i = 0; i < p->n_range; i++)
        for (int k = 0; k < 2; k++)
            if (p->range[i].kept[k] != NULL)
                r->d->forget(r->device, p->range[i].kept[k]);
    dt_free(p->range);
    p->range = NULL;
    p->n_range = 0;
}
