/* What the runner asks of a device. Work is put on queues, one for each stream of a plan: a queue
 * does its work in order, queues among each other obey events. A device that works on its own, as a
 * GPU does, returns from calls before the work is done, unless they say that they wait; the
 * processor (engine/cpu_driver.c) does it in the thread that calls.
 *
 * A device fails late: what goes wrong in a kernel is told by some later call. A failure is
 * DT_E_DEVICE, or DT_E_NOMEM, with the call, the device's text and what to do; DT_E_DATA where
 * packed values are not what was packed. */
#ifndef DT_ENGINE_DRIVER_H
#define DT_ENGINE_DRIVER_H

#include "engine/codec.h"
#include "engine/base/error.h"

/* Work for the compute queue; @queue is what kernels put theirs on (a cudaStream_t). */
typedef dt_status (*dt_launch)(void *arg, void *queue, dt_err *err);

/* @bytes @free: of the device's memory, all of it and what nobody has taken yet
 * @about: "NVIDIA H200, compute capability 9.0, driver 13.0, cuDNN 9.13" */
typedef struct dt_driver_facts {
    uint64_t bytes, free;
    char about[160];
} dt_driver_facts;

/* Floats of the device's memory. */
typedef struct dt_floats {
    const float *at;
    int64_t count;
} dt_floats;
enum { DTI_SQUARES = 32 }; /* most of them that are asked about at once */

/**
 * struct dt_driver - a device's functions. @self is what open made; @q numbers a queue, from 0, on
 * which kernels run. Calls may come from several threads, those for one queue from one at a time.
 * @immediate:       work is done when the call that puts it on a queue returns: queues of one
 * thread are in order without events, and what is copied need not stay where it is
 * @host_memory:     the processor reaches the device's memory, under the same addresses
 * @kernels_on_host: its kernels are the processor's, which read dt_args and not dt_args.now, and
 * whose scratch is for as many threads as the calling thread's team has
 * @launch_costs:    as much as a small op does, so that updates are worth being one launch
 *                   (dt_kernels.run_many)
 * @open @close:     start using the device, with so many queues. Close waits for all of them
 * @facts:           of the device, now
 * @reserve @release: memory of the device, aligned to DT_ALIGN at least; asked for once a run.
 * Where the processor reaches it, a page that may not be touched lies behind it
 * @pin @unpin:      memory of the host that the device's copies and kernels reach at full speed
 * @reach:           memory of the host that exists already, made such as pin gives; until close
 * @events:          have room for events 0 .. n - 1, when all queues are at rest
 * @copy:            between any two of these memories
 * @fill:            with one byte
 * @pack @unpack:    as dt_pack and dt_unpack; *overflow, in reach of the device, becomes 1 when
 *                   packed bytes do not fit. Packed bytes may be pinned memory. A codec that the
 *                   device does not have is refused by can_pack
 * @launch:          fn(arg, queue 0), which puts kernels there. The arg lives until the queue has
 *                   done them
 * @signal @wait:    an event has happened when what was on the queue before it is done; what is put
 *                   on a queue afterwards waits for the latest signal of the event
 * @join:            what comes afterwards, on any queue, waits for all that is on all of them
 * @finish:          wait until all queues are at rest
 * @finish_queue @finish_event: wait until one is, or until an event that was signalled has happened
 * @holds:           wait, and say whether all bytes are the same as @byte
 * @squares:         wait, and give the sums of squares of up to DTI_SQUARES in double precision:
 * the same bits every time
 * @finite:          wait, and say whether all values are numbers. NULL: their squares say so, too
 * @record @recorded: between the two, what is put on queues is not done but kept; all of it begins
 *                   after, and ends before, what is on queue 0. Not with finish, holds or squares.
 *                   A failure of either leaves queues as they were. NULL: it cannot keep work
 * @replay @forget:  do again what was kept, on queue 0; give it back. NULL likewise
 * @stamps:          have room for stamps 0 .. n - 1, when all queues are at rest. NULL, as are the
 *                   next two: the host's clock will do, as the device is immediate
 * @stamp:           note when what was on the queue before it is done; not between record and
 *                   recorded
 * @elapsed:         seconds between two stamps that have been passed
 * @meant @mean:     which device of its kind the calling thread's own calls go to, below 0: none
 *                   that can be told; and have them go there. NULL: there is but one
 */
typedef struct dt_driver {
    const char *name;
    bool immediate, host_memory, kernels_on_host, launch_costs;
    dt_status (*open)(int queues, void **self, dt_err *err);
    void (*close)(void *self);
    dt_status (*facts)(void *self, dt_driver_facts *f, dt_err *err);
    dt_status (*reserve)(void *self, uint64_t bytes, void **base, dt_err *err);
    void (*release)(void *self, void *base);
    dt_status (*pin)(void *self, uint64_t bytes, void **base, dt_err *err);
    void (*unpin)(void *self, void *base);
    dt_status (*reach)(void *self, const void *base, uint64_t bytes, dt_err *err);
    dt_status (*events)(void *self, int32_t n, dt_err *err);
    dt_status (*copy)(void *self, int q, void *to, const void *from, uint64_t bytes, dt_err *err);
    dt_status (*fill)(void *self, int q, void *to, int byte, uint64_t bytes, dt_err *err);
    bool (*can_pack)(const dt_codec *codec);
    dt_status (*pack)(void *self, int q, const dt_codec *codec, const void *from, size_t count,
        void *to, size_t bytes, int *overflow, dt_err *err);
    dt_status (*unpack)(void *self, int q, const dt_codec *codec, const void *from, size_t bytes,
        void *to, size_t count, dt_err *err);
    dt_status (*launch)(void *self, dt_launch fn, void *arg, dt_err *err);
    dt_status (*signal)(void *self, int q, int32_t event, dt_err *err);
    dt_status (*wait)(void *self, int q, int32_t event, dt_err *err);
    dt_status (*join)(void *self, dt_err *err);
    dt_status (*finish)(void *self, dt_err *err);
    dt_status (*finish_queue)(void *self, int q, dt_err *err);
    dt_status (*finish_event)(void *self, int32_t event, dt_err *err);
    dt_status (*holds)(
        void *self, const void *from, uint64_t bytes, int byte, bool *yes, dt_err *err);
    dt_status (*squares)(void *self, const dt_floats *of, size_t n, double *sum, dt_err *err);
    dt_status (*finite)(void *self, const dt_floats *of, bool *yes, dt_err *err);
    dt_status (*record)(void *self, dt_err *err);
    dt_status (*recorded)(void *self, void **kept, dt_err *err);
    dt_status (*replay)(void *self, void *kept, dt_err *err);
    void (*forget)(void *self, void *kept);
    dt_status (*stamps)(void *self, int32_t n, dt_err *err);
    dt_status (*stamp)(void *self, int q, int32_t i, dt_err *err);
    dt_status (*elapsed)(void *self, int32_t from, int32_t to, double *seconds, dt_err *err);
    int (*meant)(void);
    void (*mean)(int device);
} dt_driver;

extern const dt_driver dt_cpu_driver;

#endif
