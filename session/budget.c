/* The refusal of a run that does not fit: what it needs, what holds the most, and what would fit.
 * Nothing has been allocated for the run when this is said. */
#include "session/budget.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "memory/usage.h"
#include "session/feeds.h"
#include "session/human.h"
#include "session/plan_set.h"

/* LIBRARIES: what they take while they prepare their kernels, and our tables. CARD: what they load
 * of their kernels onto a card, one by one, while a run goes on. STARTS: by how much a process may
 * differ from the next in what it has taken when this is asked; what is suggested must fit that. */
enum { LARGEST = 6, LIBRARIES = 32 << 20, CARD = 512 << 20, STARTS = 512 << 10 };

const char *dt_session_disk_path(const dt_session *s)
{
    return s->opts.memory.disk_path != NULL ? s->opts.memory.disk_path : "/var/tmp";
}

/* "layer1.0.conv1.y 98.0 MiB, ..." */
static size_t list(char *text, size_t bytes, size_t at, const char *name, uint64_t size)
{
    char human[DT_HUMAN_BYTES];
    const int n = snprintf(
        text + at, bytes - at, "%s%s %s", at > 0 ? ", " : "", name, dt_human_bytes(human, size));
    at += n > 0 ? (size_t)n : 0;
    return at < bytes ? at : bytes - 1;
}

static dt_status tell_largest(const dt_plan *p, dt_err *err)
{
    dt_usage u;
    char text[1024] = "";
    size_t at = 0;
    const dt_status st = dt_plan_usage(p, &u, err);
    for (size_t i = 0; st == DT_OK && i < u.n_live && i < LARGEST; i++) {
        const dt_plan_tensor *t = &p->tensor[u.live[i]];
        at = list(text, sizeof text, at, t->name, t->bytes);
    }
    dt_usage_deinit(&u);
    DT_CHECK(st);
    (void)DT_FAIL(err, DT_E_BUDGET, "  largest at the peak of '%s': %s", p->program, text);
    return DT_OK;
}

static int larger_slot(const void *va, const void *vb)
{
    const dt_row *a = *(const dt_row *const *)va, *b = *(const dt_row *const *)vb;
    if (a->stored != b->stored)
        return a->stored < b->stored ? 1 : -1;
    return (a > b) - (a < b);
}

/* The largest that are moved to a tier, of the plan that needs the most there. */
static dt_status tell_largest_in(const dt_session *s, dt_tier tier, dt_err *err)
{
    const dt_plan *p = NULL;
    uint64_t most = 0;
    for (size_t i = 0; i < s->plans->n; i++) {
        const dt_plan *q = s->plans->planned[i]->plan;
        const uint64_t peak = q->tier_peak[tier];
        if (peak > most) {
            most = peak;
            p = q;
        }
    }
    if (p == NULL)
        return DT_OK;
    size_t n = 0, at = 0;
    char text[1024] = "";
    const dt_row **row = dt_alloc(p->n_row, sizeof(const dt_row *));
    if (row == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to look for the largest tensors");
    for (size_t i = 0; i < p->n_row; i++)
        if (p->row[i].kind == DT_ROW_COPY_OUT && p->row[i].tier == (uint8_t)tier)
            row[n++] = &p->row[i];
    qsort(row, n, sizeof(const dt_row *), larger_slot);
    for (size_t i = 0; i < n && i < LARGEST; i++)
        at = list(text, sizeof text, at, p->tensor[row[i]->tensor].name, row[i]->stored);
    dt_free(row);
    if (n == 0) /* what lives there is moved by updates alone */
        return DT_OK;
    (void)DT_FAIL(err, DT_E_BUDGET, "  largest of those that '%s' moves to the %s: %s", p->program,
        dt_tier_name((int)tier), text);
    return DT_OK;
}

/* The budgets, by what they are called. */
typedef struct budget {
    const char *key, *what;
    uint64_t need, most;
} budget;
enum { BUDGETS = 3 };

static void read_budgets(const dt_session *s, budget b[BUDGETS])
{
    const dt_need n = dt_plan_set_need(s->plans);
    const dt_memory_opts *m = &s->opts.memory;
    b[0] = (budget){"device_budget", "device", n.device, m->device_budget};
    b[1] = (budget){"host_budget", "host", n.tier[DT_TIER_HOST], m->host_budget};
    b[2] = (budget){"disk_budget", "disk", n.tier[DT_TIER_DISK], m->disk_budget};
}

const char *dt_session_budget_place(const dt_session *s, const char *key, char at[DT_BUDGET_PLACE])
{
    const char *file = NULL;
    int line = 0;
    dt_config_get(s->config, "memory", key, &file, &line);
    if (file == NULL && s->context.card != NULL && strcmp(key, "device_budget") == 0) {
        snprintf(at, DT_BUDGET_PLACE, "all of %s but what CUDA needs", s->context.card->name);
        return at;
    }
    return dt_config_place(at, DT_BUDGET_PLACE, file, line);
}

/* A number without a unit is one of bytes, which of so few is not what was meant. */
enum { UNIT_BYTES = 48 };
static const char *unit(const dt_session *s, const budget *b, char to[UNIT_BYTES])
{
    const char *file;
    int line;
    const char *text = dt_config_get(s->config, "memory", b->key, &file, &line);
    const uint64_t most = b->most;
    to[0] = '\0';
    if (most < 1024 && text != NULL && strpbrk(text, "Bb") == NULL)
        snprintf(to, UNIT_BYTES, ", in bytes: write %d%s", (int)most, most < 64 ? "GiB" : "MiB");
    return to;
}

dt_status dt_session_check_budget(const dt_session *s, dt_err *err)
{
    const dt_need need = dt_plan_set_need(s->plans);
    const dt_available have = dt_plan_set_available(s->plans);
    if (dt_need_fits(&need, &have))
        return DT_OK;
    budget all[BUDGETS];
    read_budgets(s, all);
    for (size_t i = 0; i < BUDGETS; i++) {
        const budget *b = &all[i];
        char at[DT_BUDGET_PLACE], needs[DT_HUMAN_EXACT], has[DT_HUMAN_BYTES], with[UNIT_BYTES];
        if (b->most > 0 && b->need > b->most)
            (void)DT_FAIL(err, DT_E_BUDGET, "does not fit: the %s needs %s, memory.%s is %s (%s)%s",
                b->what, dt_human_exact(needs, b->need), b->key, dt_human_bytes(has, b->most),
                dt_session_budget_place(s, b->key, at), unit(s, b, with));
    }
    const dt_plan *p = dti_plan_set_largest(s->plans);
    if (need.device > have.device)
        DT_CHECK(tell_largest(p, err));
    for (int tier = 0; tier < DT_TIERS; tier++)
        if (need.tier[tier] > have.tier[tier])
            DT_CHECK(tell_largest_in(s, (dt_tier)tier, err));
    DT_CHECK(dti_suggest(s, &have, DTI_SUGGEST_SECONDS, err));
    return DT_E_BUDGET;
}

/* ---- the machine ---- */

static uint64_t times(uint64_t a, uint64_t b)
{
    return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

static dt_status beyond(
    const dt_session *s, const budget *b, const char *from, uint64_t bytes, dt_err *err)
{
    char at[DT_BUDGET_PLACE], has[DT_HUMAN_BYTES], most[DT_HUMAN_EXACT];
    return DT_FAIL(err, DT_E_CONFIG,
        "memory.%s is %s (%s), but there are no more than %s: %s; lower it, or leave it out",
        b->key, dt_human_bytes(has, b->most), dt_session_budget_place(s, b->key, at),
        dt_human_exact(most, bytes), from);
}

/* Budgets that can never be used up here are mistakes. */
static dt_status check_budgets(
    const dt_session *s, const dt_limits *l, const struct statfs *fs, dt_err *err)
{
    budget all[BUDGETS];
    read_budgets(s, all);
    dt_status first = DT_OK;
    const dt_limit *least = dt_limits_least(l);
    const bool apart = s->context.device != DT_CPU;
    if (apart && all[0].most > s->card.bytes)
        first = beyond(s, &all[0], s->card.about, s->card.bytes, err);
    for (size_t i = apart ? 1 : 0; i < 2 && least != NULL; i++)
        if (all[i].most > least->bytes) {
            const dt_status st = beyond(s, &all[i], least->from, least->bytes, err);
            first = first != DT_OK ? first : st;
        }
    const uint64_t size =
        fs != NULL ? times((uint64_t)fs->f_blocks, dt_block_bytes(fs)) : UINT64_MAX;
    if (all[2].most > size) {
        char from[600];
        snprintf(from, sizeof from, "the file system of '%.500s'", dt_session_disk_path(s));
        const dt_status st = beyond(s, &all[2], from, size, err);
        first = first != DT_OK ? first : st;
    }
    return first;
}

static uint64_t disk_free(const struct statfs *fs)
{
    return times((uint64_t)fs->f_bavail, dt_block_bytes(fs));
}

static dt_status check_disk(const dt_session *s, const struct statfs *fs, dt_err *err)
{
    const uint64_t need = dt_plan_set_tier_peak(s->plans, DT_TIER_DISK);
    char needs[DT_HUMAN_EXACT], has[DT_HUMAN_BYTES];
    if (need == 0 || fs == NULL)
        return DT_OK;
    const uint64_t rest = disk_free(fs);
    if (need <= rest)
        return DT_OK;
    return DT_FAIL(err, DT_E_IO,
        "the disk tier needs %s in '%s', where %s are free; set memory.disk_path to a folder on "
        "another disk, take a smaller batch, or memory.tier = host; what lives on the disk by "
        "memory.policy or [memory.layers] needs another home",
        dt_human_exact(needs, need), dt_session_disk_path(s), dt_human_bytes(has, rest));
}

/* Threads that are still to be started: the team, those of two loaders and those that move. */
static int threads_to_come(const dt_plan_set *p, bool loaded)
{
    const dt_session *s = p->session;
    return s->threads + (loaded ? 0 : 2 * dti_decoders(s)) + (s->opts.memory.copy_threads ? 2 : 0) +
           (dt_plan_set_tier_peak(p, DT_TIER_DISK) > 0 ? 4 : 0);
}

/* Of the machine's memory: the arena, unless a card has it, and what lies outside it and the host
 * tier. */
static uint64_t arena_bytes(const dt_session *s, const dt_need *need)
{
    return s->context.device == DT_CPU ? need->device : 0;
}

static uint64_t outside_bytes(const dt_session *s, const dt_need *need, bool loaded)
{
    return LIBRARIES + need->weights + need->batches / (loaded ? dti_batches_held(s) : 1);
}

/* Why no file as large as the disk tier's can be made in its folder; *rest: what is free there. */
static int disk_error(const dt_plan_set *p, uint64_t *rest)
{
    struct stat st;
    struct statfs fs;
    const char *path = dt_session_disk_path(p->session);
    const uint64_t need = dt_plan_set_tier_peak(p, DT_TIER_DISK);
    if (need == 0)
        return 0;
    if (stat(path, &st) != 0 || (S_ISDIR(st.st_mode) && access(path, W_OK | X_OK) != 0))
        return errno;
    if (!S_ISDIR(st.st_mode))
        return ENOTDIR;
    if (dt_io->statfs(path, &fs) == 0)
        *rest = disk_free(&fs);
    return need > *rest ? ENOSPC : 0;
}

void dt_plan_set_here(const dt_plan_set *p, dt_here *out)
{
    dt_limits l;
    const dt_session *s = p->session;
    const dt_need need = dt_plan_set_need(p);
    const int threads = threads_to_come(p, false);
    *out = (dt_here){
        .need = arena_bytes(s, &need) + need.tier[DT_TIER_HOST] + outside_bytes(s, &need, false),
        .memory = UINT64_MAX,
        .disk_free = UINT64_MAX};
    out->disk_error = disk_error(p, &out->disk_free);
    dt_limits_read(s->context.limits, &l);
    const dt_limit *passed = dt_limits_passed(&l, out->need, threads);
    const dt_limit *m = passed != NULL ? passed : dt_limits_least(&l);
    out->fits = passed == NULL && (s->card.bytes == 0 || need.device <= s->card.bytes);
    if (m == NULL)
        return;
    out->memory = m->bytes;
    snprintf(out->from, sizeof out->from, "%s", m->from);
}

/* Of a limit that holds too little for libraries alone no plan makes room, so none is named. */
static dt_status only_more_helps(const dt_limit *m, uint64_t sum, int threads, dt_err *err)
{
    char a[DT_HUMAN_BYTES], b[DT_HUMAN_EXACT];
    return DT_FAIL(err, DT_E_BUDGET,
        "  libraries take %s whatever the plan, so none makes room: this limit has to be %s or "
        "more",
        dt_human_bytes(a, LIBRARIES + STARTS),
        dt_human_exact(b, m->used + (uint64_t)threads * m->thread + sum));
}

/* Arena, host tier and what lies outside against every limit of the process. */
static dt_status check_memory(const dt_session *s, const dt_limits *l, bool loaded, dt_err *err)
{
    const dt_need need = dt_plan_set_need(s->plans);
    const int threads = threads_to_come(s->plans, loaded);
    const uint64_t outside = outside_bytes(s, &need, loaded), arena = arena_bytes(s, &need);
    const uint64_t sum = arena + need.tier[DT_TIER_HOST] + outside;
    const dt_limit *m = dt_limits_passed(l, sum, threads);
    if (m == NULL)
        return DT_OK;
    char a[DT_HUMAN_BYTES], b[DT_HUMAN_BYTES], c[DT_HUMAN_BYTES], d[DT_HUMAN_BYTES],
        e[DT_HUMAN_EXACT], f[DT_HUMAN_BYTES];
    (void)DT_FAIL(err, DT_E_BUDGET,
        "does not fit: the run needs %s of memory (%s for the device, %s for the host tier, %s for "
        "batches, weights and libraries), and of %s %s are left: %s",
        dt_human_bytes(a, sum), dt_human_bytes(b, arena),
        dt_human_bytes(c, need.tier[DT_TIER_HOST]), dt_human_bytes(d, outside),
        dt_human_exact(e, m->bytes), dt_human_bytes(f, dt_limit_rest(m, threads)), m->from);
    const uint64_t rest = dt_limit_rest(m, threads);
    if (rest <= LIBRARIES + STARTS)
        return only_more_helps(m, sum, threads, err);
    const dt_plan *p = dti_plan_set_largest(s->plans);
    DT_CHECK(tell_largest(p, err));
    dt_available have = dt_plan_set_available(s->plans);
    have.memory = rest - LIBRARIES - STARTS;
    DT_CHECK(dti_suggest(s, &have, DTI_SUGGEST_SECONDS, err));
    return DT_E_BUDGET;
}

/* The arena against what the card has free. */
static dt_status check_card(const dt_session *s, dt_err *err)
{
    const uint64_t need = dt_plan_set_need(s->plans).device, free = s->card.free;
    const uint64_t rest = free > CARD ? free - CARD : 0;
    char a[DT_HUMAN_EXACT], b[DT_HUMAN_BYTES], c[DT_HUMAN_BYTES], d[DT_HUMAN_BYTES];
    if (s->context.device == DT_CPU || need <= rest)
        return DT_OK;
    (void)DT_FAIL(err, DT_E_BUDGET,
        "does not fit: the device needs %s, and of the card's %s %s are free, %s of them for its "
        "libraries; what other processes hold is listed by `nvidia-smi`",
        dt_human_exact(a, need), dt_human_bytes(b, s->card.bytes), dt_human_bytes(c, free),
        dt_human_bytes(d, CARD));
    const dt_plan *p = dti_plan_set_largest(s->plans);
    DT_CHECK(tell_largest(p, err));
    dt_available have = dt_plan_set_available(s->plans);
    have.device = rest < have.device ? rest : have.device;
    DT_CHECK(dti_suggest(s, &have, DTI_SUGGEST_SECONDS, err));
    return DT_E_BUDGET;
}

dt_status dti_session_check_run(dt_session *s, bool loaded, dt_err *err)
{
    dt_limits l;
    struct statfs fs;
    const bool disk =
        s->opts.memory.disk_budget > 0 || dt_plan_set_tier_peak(s->plans, DT_TIER_DISK) > 0;
    const struct statfs *on = disk && dt_io->statfs(dt_session_disk_path(s), &fs) == 0 ? &fs : NULL;
    dt_alloc_trim(); /* what planning took is there for the run */
    dt_limits_read(s->context.limits, &l);
    DT_CHECK(dt_session_meet(s, err));
    DT_CHECK(check_budgets(s, &l, on, err));
    DT_CHECK(dt_session_check_budget(s, err));
    DT_CHECK(check_card(s, err));
    DT_CHECK(check_memory(s, &l, loaded, err));
    return check_disk(s, on, err);
}
