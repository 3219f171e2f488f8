/* The disk tier from within: a file, and two lanes over it, one that writes and one that reads. A
 * lane cuts a slot into chunks and keeps several going at once, through io_uring or by threads. */
#ifndef DT_MEMORY_TIERS_DISK_H
#define DT_MEMORY_TIERS_DISK_H

#include <pthread.h>

#include "engine/tier.h"
#include "memory/tiers/uring.h"

enum {
    DTI_DISK_BLOCK = 4096,    /* slots, offsets and lengths of unbuffered transfers */
    DTI_DISK_CHUNK = 1 << 20, /* what the system is asked to move at once */
    DTI_DISK_DEPTH = 4,       /* chunks of a lane that are under way at once */
    DTI_DISK_HELPERS = 1      /* threads of a lane without a ring, besides the caller's */
};

/* @align: of memory for unbuffered transfers; 1 when the file is buffered. */
typedef struct dti_disk_file {
    int fd;
    char *folder;
    uint64_t bytes;
    size_t align;
} dti_disk_file;

/* No file that bears a name is left, whatever happens. *why becomes a remark for the user, static
 * text, or stays. close takes a file that was zeroed or failed to open. */
dt_status dti_disk_file_open(dti_disk_file *f, const char *folder, uint64_t bytes, const char **why,
    dt_err *err) DT_NODISCARD;
void dti_disk_file_close(dti_disk_file *f);

/* What went wrong, besides the numbers of errno: bytes that came back changed, and a file that has
 * become shorter. */
enum { DTI_DISK_DIFFERS = -1, DTI_DISK_ENDS = -2 };

/**
 * struct dti_disk_transfer - a slot on its way.
 * @from @to: the caller's bytes: one is NULL
 * @sums:     checksums by block of the file, of chunks where they begin; NULL: none
 * @error:    the first failure, with the @length bytes at @where that it was about; 0: none
 */
typedef struct dti_disk_transfer {
    const char *from;
    char *to;
    uint64_t slot, bytes;
    uint64_t *sums;
    int error;
    uint64_t where;
    size_t length;
} dti_disk_transfer;

/**
 * struct dti_disk_chunk - a piece of a transfer.
 * @from @to: what the system moves: the caller's bytes or a bounce buffer
 * @bytes:    of the caller
 * @length:   of the system: whole blocks when the file is unbuffered
 */
typedef struct dti_disk_chunk {
    size_t index;
    const char *from;
    char *to;
    uint64_t offset;
    size_t bytes, length, done;
    int waits, error;
} dti_disk_chunk;

/* What to do where a folder does not do. */
#define DTI_DISK_ELSEWHERE                                                                         \
    "set memory.disk_path to a folder on another disk, or memory.tier = host; what lives on the "  \
    "disk by zero_infinity or [memory.layers] needs another home"

size_t dti_disk_chunks(const dti_disk_transfer *t);
/* @bounce: a chunk of block-aligned bytes, used when the caller's do not do; NULL if buffered. */
void dti_disk_chunk_start(dti_disk_chunk *c, const dti_disk_file *f, const dti_disk_transfer *t,
    size_t index, char *bounce);
/* Account for what the system gave: bytes or -errno. True: the chunk ended, well or not. */
bool dti_disk_chunk_advance(dti_disk_chunk *c, const dti_disk_file *f, int64_t got);
/* pread or pwrite until it ends. */
void dti_disk_chunk_run(dti_disk_chunk *c, const dti_disk_file *f);
/* The caller's bytes and the checksum, once it has ended. */
void dti_disk_chunk_finish(dti_disk_chunk *c, const dti_disk_transfer *t);
void dti_disk_chunk_note(
    const dti_disk_chunk *c, dti_disk_transfer *t); /* its error, if the first */
void dti_disk_nap(void);

/* The threads of a lane; the transfer at hand is theirs and the caller's, under the lock. */
typedef struct dti_disk_lane dti_disk_lane;
typedef struct dti_disk_team {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    pthread_t helper[DTI_DISK_HELPERS];
    int helpers; /* that started: one that cannot leaves the work to the others */
    bool stop;
    dti_disk_transfer *now;
    size_t next, chunks;
    int busy;
} dti_disk_team;

/* @bounce: a chunk of memory for each of DTI_DISK_DEPTH; NULL if the file is buffered. */
struct dti_disk_lane {
    const dti_disk_file *file;
    char *bounce;
    dti_uring *ring; /* NULL: the team */
    bool ring_fails;
    dti_disk_team *team;
};

/* Move it all. Returns when no chunk is under way any more; see t->error. */
void dti_disk_uring_run(dti_disk_lane *l, dti_disk_transfer *t);
void dti_disk_team_run(dti_disk_lane *l, dti_disk_transfer *t);

bool dti_disk_team_open(dti_disk_lane *l, int helpers) DT_NODISCARD; /* false: no memory */
void dti_disk_team_close(dti_disk_lane *l);

typedef enum dti_disk_way {
    DTI_DISK_AUTO,
    DTI_DISK_URING,
    DTI_DISK_THREADS,
    DTI_DISK_ALONE
} dti_disk_way;

/* What the tier's state is. */
enum { DTI_DISK_NOTE = 512 };
typedef struct dti_disk {
    dti_disk_file file;
    void *memory;
    size_t staging;
    dti_disk_lane out, in;
    uint64_t *sums; /* slot S has its own from S / DTI_DISK_BLOCK on: no chunk is below a block */
    char note[DTI_DISK_NOTE];
} dti_disk;

/* The tier's reserve, with a way to move bytes: what tests ask for. */
dt_status dti_disk_reserve(const dt_tier_opts *o, dti_disk_way way, void **state, const char **note,
    dt_err *err) DT_NODISCARD;

#endif
