#include "tests/disk_check.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tests/check.h"

const disk_way disk_ways[DISK_WAYS] = {{"io_uring", DT_DISK_URING, false},
    {"io_uring, buffered", DT_DISK_URING, true}, {"threads", DT_DISK_THREADS, false},
    {"threads, buffered", DT_DISK_THREADS, true}, {"one thread", DT_DISK_ALONE, false}};

static int no_direct(int fd, bool on)
{
    (void)fd, (void)on;
    errno = EINVAL;
    return -1;
}

dt_io_ops disk_way_calls(const disk_way *w)
{
    dt_io_ops ops = dt_io_system;
    if (w->buffered)
        ops.direct = no_direct;
    return ops;
}

bool disk_way_works(const disk_way *w)
{
    if (w->way != DT_DISK_URING)
        return true;
    const int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    dt_uring *r;
    const int error = dt_uring_system.open(&r, fd, DT_DISK_DEPTH);
    if (error == 0)
        dt_uring_system.close(r);
    else
        print_message("%s: skipped, there is no io_uring: %s\n", w->name, strerror(-error));
    close(fd);
    return error == 0;
}

const dt_tier_desc *disk_tier(void)
{
    const dt_tier_desc *t = dt_tier_desc_find("disk");
    assert_non_null(t);
    return t;
}

/* Pieces of a prime length, so that no two blocks or chunks are alike. */
enum { PIECE = 8191 };

static void make_piece(char *piece, unsigned seed)
{
    for (unsigned i = 0; i < PIECE; i++)
        piece[i] = (char)(i * 31 + (i >> 7) * 7 + seed);
}

void disk_fill(char *p, size_t n, unsigned seed)
{
    char piece[PIECE];
    make_piece(piece, seed);
    for (size_t i = 0; i < n; i += PIECE)
        memcpy(p + i, piece, n - i < PIECE ? n - i : PIECE);
}

bool disk_filled(const char *p, size_t n, unsigned seed)
{
    char piece[PIECE];
    make_piece(piece, seed);
    for (size_t i = 0; i < n; i += PIECE)
        if (memcmp(p + i, piece, n - i < PIECE ? n - i : PIECE) != 0)
            return false;
    return true;
}
