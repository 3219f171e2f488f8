/* Inside the CUDA driver: what its files share, and kernels of its own. */
#ifndef DT_ENGINE_CUDA_CUDA_PARTS_H
#define DT_ENGINE_CUDA_CUDA_PARTS_H

#include "engine/driver.h"

/* What a kernel leaves for the host, in pinned memory that both reach.
 * @partial: sums of squares, by block: the host adds them up in their order */
enum { DTI_CUDA_BLOCKS = 512, DTI_CUDA_THREADS = 256 };
typedef struct dti_cuda_answer {
    double partial[DT_SQUARES][DTI_CUDA_BLOCKS];
    int differs, damaged;
} dti_cuda_answer;

/* Memory of the host that the device reaches, and under which address it does.
 * @pinned: made by pin; @registered: by reach, unless it was before */
typedef struct dti_cuda_range {
    char *host, *there;
    uint64_t bytes;
    bool pinned, registered;
} dti_cuda_range;

/* CUDA's handles by their tags: a header compiles where CUDA is not. */
typedef struct dti_cuda_device {
    int queues;
    struct CUstream_st **stream; /* cudaStream_t of each queue */
    struct CUevent_st **joint;   /* cudaEvent_t of each queue, for join and record */
    int32_t n_event;
    size_t cap_event;
    struct CUevent_st **event;
    size_t n_range, cap_range;
    dti_cuda_range *range;
    dti_cuda_answer *here, *there; /* the same bytes: the host's address, the device's */
} dti_cuda_device;

/* Each thread says which card it means, once: before its first call. */
dt_status dti_cuda_enter(dt_err *err) DT_NODISCARD;

/* The device's address of bytes that it reaches. */
void *dti_cuda_address(const dti_cuda_device *d, const void *p);

/* Queue 0 waits for all others, or they for it. */
dt_status dti_cuda_gather(const dti_cuda_device *d, dt_err *err) DT_NODISCARD;
dt_status dti_cuda_spread(const dti_cuda_device *d, dt_err *err) DT_NODISCARD;

/* ---- functions of the driver, see dt_driver ---- */

/* cuda_memory.c */
dt_status dti_cuda_reserve(void *self, uint64_t bytes, void **base, dt_err *err) DT_NODISCARD;
void dti_cuda_release(void *self, void *base);
dt_status dti_cuda_pin(void *self, uint64_t bytes, void **base, dt_err *err) DT_NODISCARD;
void dti_cuda_unpin(void *self, void *base);
dt_status dti_cuda_reach(void *self, const void *base, uint64_t bytes, dt_err *err) DT_NODISCARD;

/* cuda_queue.c */
dt_status dti_cuda_events(void *self, int32_t n, dt_err *err) DT_NODISCARD;
dt_status dti_cuda_copy(
    void *self, int q, void *to, const void *from, uint64_t bytes, dt_err *err) DT_NODISCARD;
dt_status dti_cuda_fill(
    void *self, int q, void *to, int byte, uint64_t bytes, dt_err *err) DT_NODISCARD;
bool dti_cuda_can_pack(const dt_codec *codec);
dt_status dti_cuda_pack(void *self, int q, const dt_codec *codec, const void *from, size_t count,
    void *to, size_t bytes, int *overflow, dt_err *err) DT_NODISCARD;
dt_status dti_cuda_unpack(void *self, int q, const dt_codec *codec, const void *from, size_t bytes,
    void *to, size_t count, dt_err *err) DT_NODISCARD;
dt_status dti_cuda_launch(void *self, dt_launch fn, void *arg, dt_err *err) DT_NODISCARD;
dt_status dti_cuda_signal(void *self, int q, int32_t event, dt_err *err) DT_NODISCARD;
dt_status dti_cuda_wait(void *self, int q, int32_t event, dt_err *err) DT_NODISCARD;
dt_status dti_cuda_join(void *self, dt_err *err) DT_NODISCARD;

/* cuda_wait.c */
dt_status dti_cuda_finish(void *self, dt_err *err) DT_NODISCARD;
dt_status dti_cuda_finish_queue(void *self, int q, dt_err *err) DT_NODISCARD;
dt_status dti_cuda_finish_event(void *self, int32_t event, dt_err *err) DT_NODISCARD;
dt_status dti_cuda_holds(
    void *self, const void *from, uint64_t bytes, int byte, bool *yes, dt_err *err) DT_NODISCARD;
dt_status dti_cuda_squares(
    void *self, const dt_floats *of, size_t n, double *sum, dt_err *err) DT_NODISCARD;

/* cuda_graph.c */
dt_status dti_cuda_record(void *self, dt_err *err) DT_NODISCARD;
dt_status dti_cuda_recorded(void *self, void **kept, dt_err *err) DT_NODISCARD;
dt_status dti_cuda_replay(void *self, void *kept, dt_err *err) DT_NODISCARD;
void dti_cuda_forget(void *self, void *kept);

/* ---- kernels ---- */

/* Blocks for so many floats, of each of which a sum is left, or words of 16 bytes. */
static inline unsigned dti_cuda_blocks(int64_t count)
{
    const int64_t each = 4 * DTI_CUDA_THREADS, n = (count + each - 1) / each;
    return n < 1 ? 1 : n < DTI_CUDA_BLOCKS ? (unsigned)n : (unsigned)DTI_CUDA_BLOCKS;
}

/* Launch; the answer is there when the queue has done them. @partial and @answer are the device's
 * addresses of it. */
dt_status dti_cuda_launch_squares(
    const dt_floats *of, double *partial, void *queue, dt_err *err) DT_NODISCARD;
dt_status dti_cuda_launch_differs(const void *from, uint64_t bytes, int byte,
    dti_cuda_answer *answer, void *queue, dt_err *err) DT_NODISCARD;

#endif
