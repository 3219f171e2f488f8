#include "tests/fake_tier.h"

#include <string.h>
#include <time.h>

#include "engine/base/alloc.h"

dt_fake dt_fake_state;

static dt_status reserve(const dt_tier_opts *o, void **state, const char **note, dt_err *err)
{
    dt_fake_state.reserved = (dt_tier_opts){o->bytes, NULL, o->checksum};
    *state = dt_alloc(o->bytes, 1);
    *note = "made of memory";
    return *state != NULL ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory for a fake tier");
}

static void release(void *state)
{
    dt_free(state);
}

static void be_slow(void)
{
    if (dt_fake_state.slow > 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000L * dt_fake_state.slow}, NULL);
}

static dt_status write(void *state, uint64_t slot, const void *from, uint64_t bytes, dt_err *err)
{
    be_slow();
    atomic_fetch_add(&dt_fake_state.written, (long)bytes);
    if (atomic_fetch_add(&dt_fake_state.writes, 1) + 1 == dt_fake_state.fail_write)
        return DT_FAIL(err, DT_E_IO, "the fake tier is full");
    memcpy((char *)state + slot, from, bytes);
    return DT_OK;
}

static dt_status read(void *state, uint64_t slot, void *to, uint64_t bytes, dt_err *err)
{
    be_slow();
    atomic_fetch_add(&dt_fake_state.read, (long)bytes);
    const long n = atomic_fetch_add(&dt_fake_state.reads, 1) + 1;
    if (n == dt_fake_state.fail_read)
        return DT_FAIL(err, DT_E_IO, "the fake tier is gone");
    memcpy(to, (const char *)state + slot, bytes);
    if (n == dt_fake_state.spoil_read)
        memset(to, 0x7F, bytes < 16 ? bytes : 16);
    return DT_OK;
}

const dt_tier_desc dt_fake_tier = {.name = "fake",
    .summary = "memory that is written and read",
    .reserve = reserve,
    .release = release,
    .write = write,
    .read = read};
