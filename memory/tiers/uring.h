/* io_uring, as far as the disk tier needs it, behind a table that tests replace. */
#ifndef DT_MEMORY_TIERS_URING_H
#define DT_MEMORY_TIERS_URING_H

#include "engine/base/compiler.h"

/**
 * struct dti_uring_calls - rings over one file.
 * @open:   with room for @depth transfers under way; 0 or -errno, -ENOSYS when built without
 * @close:  only when nothing is under way
 * @submit: start a transfer, a write if @from is given; 0 or -errno. After a failure nothing may be
 *          submitted any more, while what is under way still arrives
 * @wait:   for a transfer: its tag, and bytes or -errno as its result; 0 or -errno. A failure
 *          changes nothing, and is followed by another try
 */
typedef struct dti_uring dti_uring;
typedef struct dti_uring_calls {
    int (*open)(dti_uring **out, int fd, unsigned depth);
    void (*close)(dti_uring *r);
    int (*submit)(
        dti_uring *r, const void *from, void *to, unsigned bytes, uint64_t offset, unsigned tag);
    int (*wait)(dti_uring *r, unsigned *tag, int *result);
} dti_uring_calls;
bool dt_uring_built(void); /* with liburing; the kernel may refuse all the same */
extern const dti_uring_calls dt_uring_system;
extern const dti_uring_calls *dt_uring_io;

#endif
