/* io_uring by its system calls: two rings, set up, submitted to, waited for. */
#include "memory/tiers/uring.h"

#include <errno.h>

#ifdef DT_HAVE_URING

#include <liburing.h>
#include <time.h>

#include "engine/base/alloc.h"

struct dti_uring {
    struct io_uring ring;
};

static int ring_open(dti_uring **out, int fd, unsigned depth)
{
    *out = NULL;
    dti_uring *r = dt_alloc(1, sizeof *r);
    if (r == NULL)
        return -ENOMEM;
    int got = io_uring_queue_init(depth, &r->ring, 0);
    if (got < 0) {
        dt_free(r);
        return got;
    }
    got = io_uring_register_files(&r->ring, &fd, 1);
    if (got < 0) {
        io_uring_queue_exit(&r->ring);
        dt_free(r);
        return got;
    }
    *out = r;
    return 0;
}

static void ring_close(dti_uring *r)
{
    io_uring_queue_exit(&r->ring);
    dt_free(r);
}

/* An entry that the kernel did not take stays in the queue: submitting again is about that one. */
static int submit_again(dti_uring *r)
{
    for (int tries = 0; tries < 1000; tries++) {
        const int got = io_uring_submit(&r->ring);
        if (got > 0)
            return 0;
        if (got < 0 && got != -EINTR && got != -EAGAIN && got != -EBUSY)
            return got;
        if (got != -EINTR)
            (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return -EAGAIN;
}

static int ring_submit(
    dti_uring *r, const void *from, void *to, unsigned bytes, uint64_t offset, unsigned tag)
{
    struct io_uring_sqe *e = io_uring_get_sqe(&r->ring);
    if (e == NULL)
        return -EBUSY;
    if (from != NULL)
        io_uring_prep_write(e, 0, from, bytes, offset);
    else
        io_uring_prep_read(e, 0, to, bytes, offset);
    e->flags |= IOSQE_FIXED_FILE;
    io_uring_sqe_set_data64(e, tag);
    return submit_again(r);
}

static int ring_wait(dti_uring *r, unsigned *tag, int *result)
{
    struct io_uring_cqe *c;
    const int got = io_uring_wait_cqe(&r->ring, &c);
    if (got < 0)
        return got;
    *tag = (unsigned)io_uring_cqe_get_data64(c);
    *result = c->res;
    io_uring_cqe_seen(&r->ring, c);
    return 0;
}

#else

static int ring_open(dti_uring **out, int fd, unsigned depth)
{
    (void)fd, (void)depth;
    *out = NULL;
    return -ENOSYS;
}

static void ring_close(dti_uring *r)
{
    (void)r;
}

static int ring_submit(
    dti_uring *r, const void *from, void *to, unsigned bytes, uint64_t offset, unsigned tag)
{
    (void)r, (void)from, (void)to, (void)bytes, (void)offset, (void)tag;
    return -ENOSYS;
}

static int ring_wait(dti_uring *r, unsigned *tag, int *result)
{
    (void)r, (void)tag, (void)result;
    return -ENOSYS;
}

#endif

bool dt_uring_built(void)
{
#ifdef DT_HAVE_URING
    return true;
#else
    return false;
#endif
}

const dti_uring_calls dt_uring_system = {ring_open, ring_close, ring_submit, ring_wait};
const dti_uring_calls *dt_uring_io = &dt_uring_system;
