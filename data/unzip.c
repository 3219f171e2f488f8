/* Bytes from memory, inflated where they are gzip. */
#include "data/unzip.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "engine/base/alloc.h"

enum { GZIP_WINDOW = 15 + 16 }; /* asks zlib for gzip and nothing else */

voidpf dt_zip_alloc(voidpf self, uInt n, uInt each)
{
    (void)self;
    return dt_alloc(n, each);
}

void dt_zip_free(voidpf self, voidpf p)
{
    (void)self;
    dt_free(p);
}

static bool is_gzip(const uint8_t *p, size_t n)
{
    return n >= 2 && p[0] == 0x1F && p[1] == 0x8B;
}

dt_status dti_unzip_open(
    dti_unzip *u, const char *name, const uint8_t *bytes, size_t n, dt_err *err)
{
    *u = (dti_unzip){.name = name, .p = bytes, .n = n, .gzip = is_gzip(bytes, n)};
    if (!u->gzip)
        return DT_OK;
    u->z.zalloc = dt_zip_alloc;
    u->z.zfree = dt_zip_free;
    if (inflateInit2(&u->z, GZIP_WINDOW) != Z_OK) {
        u->gzip = false;
        return DT_FAIL(err, DT_E_NOMEM, "%s: no memory to inflate it", name);
    }
    return DT_OK;
}

void dti_unzip_close(dti_unzip *u)
{
    if (u->gzip)
        inflateEnd(&u->z);
}

uint64_t dti_unzip_most(const dti_unzip *u)
{
    const uint64_t left = u->n + (u->gzip ? u->z.avail_in : 0);
    return u->gzip ? left * 1032 + 65536 : left; /* zlib may hold a window it has not handed out */
}

/* zlib counts in unsigned int, files do not. */
static void feed(dti_unzip *u)
{
    if (u->z.avail_in > 0)
        return;
    const uInt n = u->n > INT_MAX ? INT_MAX : (uInt)u->n;
    u->z.next_in = u->p;
    u->z.avail_in = n;
    u->p += n;
    u->n -= n;
}

/* One call of inflate. A member that ends whole may be followed by another. */
static dt_status step(dti_unzip *u, dt_err *err)
{
    feed(u);
    const int r = inflate(&u->z, Z_NO_FLUSH);
    if (r == Z_STREAM_END) {
        feed(u);
        u->ended = !is_gzip(u->z.next_in, u->z.avail_in);
        if (!u->ended)
            inflateReset(&u->z);
        return DT_OK;
    }
    if (r == Z_OK)
        return DT_OK;
    if (r == Z_MEM_ERROR)
        return DT_FAIL(err, DT_E_NOMEM, "%s: no memory to inflate it", u->name);
    if (r == Z_BUF_ERROR)
        return DT_FAIL(
            err, DT_E_DATA, "%s: gzip data is cut, after %" PRIu64 " bytes", u->name, u->given);
    return DT_FAIL(err, DT_E_DATA, "%s: gzip data is damaged, after %" PRIu64 " bytes: %s", u->name,
        u->given, u->z.msg != NULL ? u->z.msg : "no detail");
}

static dt_status too_short(const dti_unzip *u, size_t missing, dt_err *err)
{
    return DT_FAIL(err, DT_E_DATA, "%s: ends after %" PRIu64 " bytes, expected %zu more", u->name,
        u->given, missing);
}

dt_status dti_unzip_read(dti_unzip *u, void *to, size_t n, dt_err *err)
{
    uint8_t *out = to;
    if (!u->gzip) {
        const size_t some = u->n < n ? u->n : n;
        memcpy(out, u->p, some);
        u->p += some;
        u->n -= some;
        u->given += some;
        return some == n ? DT_OK : too_short(u, n - some, err);
    }
    for (size_t done = 0; done < n;) {
        if (u->ended)
            return too_short(u, n - done, err);
        const uInt piece = n - done > INT_MAX ? INT_MAX : (uInt)(n - done);
        u->z.next_out = out + done;
        u->z.avail_out = piece;
        DT_CHECK(step(u, err));
        done += piece - u->z.avail_out;
        u->given += piece - u->z.avail_out;
    }
    return DT_OK;
}

dt_status dti_unzip_end(dti_unzip *u, dt_err *err)
{
    uint8_t more;
    while (u->gzip && !u->ended) {
        u->z.next_out = &more;
        u->z.avail_out = 1;
        DT_CHECK(step(u, err));
        if (u->z.avail_out == 0)
            return DT_FAIL(err, DT_E_DATA,
                "%s: goes on after the %" PRIu64 " bytes its header announces", u->name, u->given);
    }
    const uint64_t left = u->n + (u->gzip ? u->z.avail_in : 0);
    if (left > 0)
        return DT_FAIL(err, DT_E_DATA, "%s: %" PRIu64 " byte%s too many at its end", u->name, left,
            left == 1 ? "" : "s");
    return DT_OK;
}
