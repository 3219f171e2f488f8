/* What `dnntrain profile` and a run without a profile share. */
#include "tools/profile_make.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/base/clock.h"
#include "engine/base/io.h"
#include "session/may_write.h"
#include "session/open.h"
#include "session/profile_cache.h"
#include "session/run_dir.h"
#include "tools/args.h"
#include "tools/terminal.h"

dt_status dti_profile_session(dt_session **out, const char *config, const char *const *set,
    size_t n_set, const dt_profile_opts *o, dt_err *err)
{
    char steps[64];
    const char **all = dt_alloc(n_set + DTI_SHORT_RUN + 2, sizeof *all);
    if (all == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for settings");
    size_t n = 0;
    for (size_t i = 0; i < n_set; i++)
        all[n++] = set[i];
    for (size_t i = 0; i < DTI_SHORT_RUN; i++)
        all[n++] = dti_short_run[i];
    all[n++] = "memory.profile=";
    snprintf(steps, sizeof steps, "train.steps=%" PRId64, dt_profile_steps(o));
    all[n++] = steps;
    const dt_status st = dti_cli_session(out, config, all, n, err);
    dt_free(all);
    return st;
}

/* ---- how far it is ---- */

static void clear(dti_profile_watch *w)
{
    if (w->on_line)
        fputs("\r\033[K", stderr);
    w->on_line = false;
}

static void tell(void *self, const char *text)
{
    clear(self);
    dti_cli_notice(text);
}

static void draw(void *self, int64_t step, int64_t of)
{
    static const double redraw = 0.1;
    dti_profile_watch *w = self;
    const double now = dt_seconds();
    if (!w->tty || (w->on_line && now - w->drawn < redraw))
        return;
    fprintf(stderr, "\rdnntrain: step %" PRId64 " of %" PRId64 "\033[K", step, of);
    w->on_line = true;
    w->drawn = now;
}

void dti_profile_watch_begin(dti_profile_watch *w, dt_profile_opts *o)
{
    w->tty = dti_terminal_of(stderr).tty;
    o->line = tell;
    o->begins = draw;
    o->self = w;
}

void dti_profile_watch_end(dti_profile_watch *w)
{
    clear(w);
}

/* ---- what was found ---- */

#define NOT_KEPT "the profile cannot be kept; set memory.cache to a folder that can be written"

dt_status dti_profile_can_keep(const dt_session *s, dt_err *err)
{
    char path[DT_CACHE_PATH];
    DT_CHECK(dt_profile_kept(s, path, err));
    dt_status st = dt_make_above(path, err);
    if (st == DT_OK)
        st = dt_can_write(path, err);
    DT_TRY(err, st, NOT_KEPT);
    return DT_OK;
}

dt_status dti_profile_keep(const dt_session *s, dt_profile *p, dt_err *err)
{
    char path[DT_CACHE_PATH];
    DT_TRY(err, dt_profile_keep(s, p, path, err), NOT_KEPT);
    dti_term_say("kept for memory.profile = auto as %s", path);
    return DT_OK;
}

/* ---- ahead of a run ---- */

/* A run whose folder holds something is refused, and what was measured for it would be in vain. */
static bool has_room(const dt_dir_opts *o)
{
    bool any = false, is_run = false;
    dt_err err = {0};
    return o->dir == NULL || o->overwrite ||
           (dt_run_dir_holds(o->dir, &any, &is_run, &err) == DT_OK && !any);
}

bool dti_profile_is_missing(const dt_session *s)
{
    const dt_memory_opts *m = &s->opts.memory;
    char path[DT_CACHE_PATH];
    dt_err err = {0};
    return m->profile != NULL && strcmp(m->profile, "auto") == 0 && m->simulate == NULL &&
           strcmp(s->opts.checkpoint.resume, "no") == 0 && has_room(&s->opts.run) &&
           dt_profile_kept(s, path, &err) == DT_OK && access(path, F_OK) != 0;
}

/* Half as long as `dnntrain profile` looks: someone waits for the run. What is wrong with its
 * configuration or its data, the run says itself. */
void dti_profile_missing(const char *config, const char *const *set, size_t n_set)
{
    dt_profile_opts o = {.steps = 10, .margin = 0.05, .timed = true};
    dti_profile_watch watch = {0};
    dt_profile found = {.step = 0};
    dt_session *s = NULL;
    dt_err err = {0};
    dti_cli_notice("memory.profile = auto: there is none of this machine and network, so some "
                   "steps are measured first");
    dt_status st = dti_profile_session(&s, config, set, n_set, &o, &err);
    dti_profile_watch_begin(&watch, &o);
    if (st == DT_OK)
        st = dt_profile_measure(s, &o, &found, &err);
    dti_profile_watch_end(&watch);
    if (st == DT_OK && dti_profile_keep(s, &found, &err) != DT_OK)
        dti_term_say("the profile cannot be kept: %.*s", (int)strcspn(err.text, "\n"), err.text);
    else if (st != DT_OK && st != DT_E_CONFIG && st != DT_E_DATA && st != DT_E_IO)
        dti_term_say("nothing is kept: %.*s", (int)strcspn(err.text, "\n"), err.text);
    dt_profile_deinit(&found);
    dt_session_close(s);
}
