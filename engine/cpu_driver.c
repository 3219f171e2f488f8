/* The processor as a device: work is done by the thread that puts it on a queue, kernels and large
 * copies by its whole team. Its memory is one block that ends right before a page that may not be
 * touched. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, madvise */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/base/copy.h"
#include "engine/base/isa.h"
#include "engine/base/numbers_text.h"
#include "engine/base/team.h"
#include "engine/driver.h"

enum { ALIGN = 64, HUGE_PAGE = 2 << 20, CHUNK = 4 << 20, SMALL = 1 << 16, FINITE_PART = 1 << 16 };

/* What was mapped: the reservation lies inside. */
typedef struct cpu {
    void *map;
    size_t bytes;
} cpu;

static dt_status cpu_open(int queues, void **self, dt_err *err)
{
    (void)queues;
    *self = dt_alloc(1, sizeof(cpu));
    return *self != NULL ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory for the device");
}

static void cpu_release(void *self, void *base)
{
    cpu *c = self;
    (void)base;
    if (c->map != NULL)
        munmap(c->map, c->bytes);
    *c = (cpu){0};
}

static void cpu_close(void *self)
{
    cpu_release(self, NULL);
    dt_free(self);
}

static dt_status cpu_facts(void *self, dt_driver_facts *f, dt_err *err)
{
    (void)self;
    (void)err;
    const long page = sysconf(_SC_PAGESIZE), all = sysconf(_SC_PHYS_PAGES),
               free = sysconf(_SC_AVPHYS_PAGES);
    *f = (dt_driver_facts){
        .bytes = (uint64_t)all * (uint64_t)page, .free = (uint64_t)free * (uint64_t)page};
    snprintf(f->about, sizeof f->about, "%s", dt_isa_name());
    return DT_OK;
}

static dt_status cpu_reserve(void *self, uint64_t bytes, void **base, dt_err *err)
{
    cpu *c = self;
    char count[DT_HUMAN_BYTES];
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    *base = NULL;
    DT_ASSERT(c->map == NULL);
    if (bytes > SIZE_MAX / 2)
        return DT_FAIL(err, DT_E_NOMEM, "an arena of %s bytes is beyond any machine",
            dt_human_count(count, bytes));
    const size_t body = (bytes + page - 1) / page * page;
    void *map = mmap(NULL, body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return DT_FAIL(err, DT_E_NOMEM, "reserve %s bytes for the arena: %s",
            dt_human_count(count, bytes), strerror(errno));
    unsigned char *end = (unsigned char *)map + body;
    if (mprotect(end, page, PROT_NONE) != 0) {
        munmap(map, body + page);
        return DT_FAIL(err, DT_E_NOMEM, "guard the arena: %s", strerror(errno));
    }
    if (body >= HUGE_PAGE)
        (void)madvise(map, body, MADV_HUGEPAGE); /* fewer page faults; no harm if refused */
    *c = (cpu){map, body + page};
    *base = end - (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return DT_OK;
}

static dt_status cpu_pin(void *self, uint64_t bytes, void **base, dt_err *err)
{
    (void)self;
    *base = dt_alloc(bytes, 1);
    return *base != NULL ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory for %zu bytes", bytes);
}

static void cpu_unpin(void *self, void *base)
{
    (void)self;
    dt_free(base);
}

static dt_status cpu_reach(void *self, const void *base, uint64_t bytes, dt_err *err)
{
    (void)self;
    (void)base;
    (void)bytes;
    (void)err;
    return DT_OK;
}

/* ---- work ---- */

static dt_status cpu_copy(
    void *self, int q, void *to, const void *from, uint64_t bytes, dt_err *err)
{
    (void)self;
    (void)q;
    (void)err;
    if (bytes <= SMALL)
        memcpy(to, from, bytes);
    else
        dt_cpu_copy(to, from, bytes);
    return DT_OK;
}

typedef struct fill_job {
    char *to;
    int byte;
    uint64_t bytes;
} fill_job;

static void fill_chunk(const void *job, int64_t i)
{
    const fill_job *j = job;
    const uint64_t at = (uint64_t)i * CHUNK, left = j->bytes - at;
    memset(j->to + at, j->byte, left < CHUNK ? left : CHUNK);
}

/* By the whole team: this is where the pages of the arena are first touched. */
static dt_status cpu_fill(void *self, int q, void *to, int byte, uint64_t bytes, dt_err *err)
{
    (void)self;
    (void)q;
    (void)err;
    const fill_job j = {to, byte, bytes};
    dt_team_run((int64_t)((bytes + CHUNK - 1) / CHUNK), fill_chunk, &j);
    return DT_OK;
}

static bool cpu_can_pack(const dt_codec *codec)
{
    (void)codec;
    return true;
}

/* Threads of copies may say so at the same time. */
static dt_status cpu_pack(void *self, int q, const dt_codec *codec, const void *from, size_t count,
    void *to, size_t bytes, int *overflow, dt_err *err)
{
    (void)self;
    (void)q;
    (void)err;
    if (!dt_pack(codec, from, count, to, bytes))
        __atomic_store_n(overflow, 1, __ATOMIC_RELAXED);
    return DT_OK;
}

static dt_status cpu_unpack(void *self, int q, const dt_codec *codec, const void *from,
    size_t bytes, void *to, size_t count, dt_err *err)
{
    (void)self;
    (void)q;
    return dt_unpack(codec, from, bytes, to, count, err);
}

static dt_status cpu_launch(void *self, dt_launch fn, void *arg, dt_err *err)
{
    (void)self;
    return fn(arg, NULL, err);
}

/* ---- order: nothing is left to be done when a call returns ---- */

static dt_status cpu_events(void *self, int32_t n, dt_err *err)
{
    (void)self;
    (void)n;
    (void)err;
    return DT_OK;
}

static dt_status cpu_order(void *self, int q, int32_t event, dt_err *err)
{
    (void)self;
    (void)q;
    (void)event;
    (void)err;
    return DT_OK;
}

static dt_status cpu_finish(void *self, dt_err *err)
{
    (void)self;
    (void)err;
    return DT_OK;
}

static dt_status cpu_finish_one(void *self, int32_t queue_or_event, dt_err *err)
{
    (void)self;
    (void)queue_or_event;
    (void)err;
    return DT_OK;
}

/* ---- questions ---- */

/* All bytes equal their neighbours, and the first is the one. */
static dt_status cpu_holds(
    void *self, const void *from, uint64_t bytes, int byte, bool *yes, dt_err *err)
{
    const unsigned char *p = from;
    (void)self;
    (void)err;
    *yes = bytes == 0 || (p[0] == byte && memcmp(p, p + 1, bytes - 1) == 0);
    return DT_OK;
}

typedef struct finite_job {
    const dt_floats *of;
    bool *yes;
} finite_job;

/* The largest float by its bits but for the sign. */
DT_CLONES static uint32_t largest(const uint32_t *v, int64_t n)
{
    uint32_t most = 0;
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < n; i++) {
        const uint32_t magnitude = v[i] & 0x7FFFFFFFu;
        most = magnitude > most ? magnitude : most;
    }
    return most;
}

/* Infinities and NaNs are the floats whose exponent is all ones. */
static void finite_part(const void *job, int64_t part)
{
    const finite_job *j = job;
    const uint32_t *v = (const void *)j->of->at;
    const int64_t begin = part * FINITE_PART, left = j->of->count - begin;
    if (largest(v + begin, left < FINITE_PART ? left : FINITE_PART) >= 0x7F800000u)
        __atomic_store_n(j->yes, false, __ATOMIC_RELAXED);
}

static dt_status cpu_finite(void *self, const dt_floats *of, bool *yes, dt_err *err)
{
    const finite_job j = {of, yes};
    (void)self;
    (void)err;
    *yes = true;
    dt_team_run((of->count + FINITE_PART - 1) / FINITE_PART, finite_part, &j);
    return DT_OK;
}

enum { LANES = 16, PIECES = 256, GRAIN = 1 << 14 };

typedef struct squares_job {
    const float *v;
    int64_t n, each;
    double *sum;
} squares_job;

DT_CLONES static double squares(const float *v, int64_t n)
{
    double sum[LANES] = {0}, all = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
#pragma omp simd
        for (int k = 0; k < LANES; k++)
            sum[k] += (double)v[i + k] * (double)v[i + k];
    for (; i < n; i++)
        sum[0] += (double)v[i] * (double)v[i];
    for (int k = 0; k < LANES; k++)
        all += sum[k];
    return all;
}

static void squares_piece(const void *job, int64_t i)
{
    const squares_job *j = job;
    const int64_t begin = i * j->each, left = j->n - begin;
    j->sum[i] = squares(j->v + begin, left < j->each ? left : j->each);
}

/* Sums are cut by size alone and added up in a fixed order, so any number of threads gives the same
 * bits. */
static double tensor_squares(const float *v, int64_t n)
{
    double sum[PIECES], all = 0;
    const int64_t even = (n + PIECES - 1) / PIECES, each = even > GRAIN ? even : GRAIN;
    const int64_t pieces = (n + each - 1) / each;
    const squares_job j = {v, n, each, sum};
    dt_team_run(pieces, squares_piece, &j);
    for (int64_t i = 0; i < pieces; i++)
        all += sum[i];
    return all;
}

static dt_status cpu_squares(void *self, const dt_floats *of, size_t n, double *sum, dt_err *err)
{
    (void)self;
    (void)err;
    for (size_t i = 0; i < n; i++)
        sum[i] = tensor_squares(of[i].at, of[i].count);
    return DT_OK;
}

const dt_driver dt_cpu_driver = {
    .name = "cpu",
    .immediate = true,
    .host_memory = true,
    .kernels_on_host = true,
    .open = cpu_open,
    .close = cpu_close,
    .facts = cpu_facts,
    .reserve = cpu_reserve,
    .release = cpu_release,
    .pin = cpu_pin,
    .unpin = cpu_unpin,
    .reach = cpu_reach,
    .events = cpu_events,
    .copy = cpu_copy,
    .fill = cpu_fill,
    .can_pack = cpu_can_pack,
    .pack = cpu_pack,
    .unpack = cpu_unpack,
    .launch = cpu_launch,
    .signal = cpu_order,
    .wait = cpu_order,
    .join = cpu_finish,
    .finish = cpu_finish,
    .finish_queue = cpu_finish_one,
    .finish_event = cpu_finish_one,
    .holds = cpu_holds,
    .squares = cpu_squares,
    .finite = cpu_finite,
};
