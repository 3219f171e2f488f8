/* The model of a card refuses what CUDA's manual says a card refuses, and orders what it orders. */
#include <cuda_runtime_api.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/cuda/cuda.h"
#include "layers/cublas/cublas_cuda.h"
#include "tests/card/card.h"
#include "tests/fixture/check.h"
#include "tests/fixture/cuda_host.h"

enum { BYTES = 1024 };

#define OK(call) assert_int_equal((call), cudaSuccess)
#define FAILS(call, error)                                                                         \
    do {                                                                                           \
        assert_int_equal((call), (error));                                                         \
        assert_int_equal(cudaGetLastError(), (error));                                             \
        assert_int_equal(cudaGetLastError(), cudaSuccess);                                         \
    } while (0)

/* Two streams, two events, pinned bytes and the device's. */
static struct {
    cudaStream_t a, b;
    cudaEvent_t e, f;
    unsigned char *host;
    char *device;
} it;

static int set_up(void **state)
{
    void *host, *device;
    (void)state;
    OK(cudaStreamCreateWithFlags(&it.a, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&it.b, cudaStreamNonBlocking));
    OK(cudaEventCreateWithFlags(&it.e, cudaEventDisableTiming));
    OK(cudaEventCreateWithFlags(&it.f, cudaEventDisableTiming));
    OK(cudaHostAlloc(&host, BYTES, cudaHostAllocMapped));
    OK(cudaMalloc(&device, BYTES));
    it.host = host;
    it.device = device;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    OK(cudaStreamSynchronize(it.a));
    OK(cudaStreamSynchronize(it.b));
    OK(cudaStreamDestroy(it.a));
    OK(cudaStreamDestroy(it.b));
    OK(cudaEventDestroy(it.e));
    OK(cudaEventDestroy(it.f));
    OK(cudaFreeHost(it.host));
    OK(cudaFree(it.device));
    return 0;
}

/* Work that says when it was done. */
static int done[64], n_done;

static void note(const void *given)
{
    done[n_done++] = *(const int *)given;
}

static void put(cudaStream_t s, int number)
{
    card_lock();
    OK(card_told(card_put(s, note, &number, sizeof number)));
}

static int place_of(int number)
{
    for (int i = 0; i < n_done; i++)
        if (done[i] == number)
            return i;
    return -1;
}

static void begin(cudaStream_t s)
{
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
}

static cudaGraph_t ended(cudaStream_t s)
{
    cudaGraph_t g;
    OK(cudaStreamEndCapture(s, &g));
    return g;
}

static void ends_with(cudaStream_t s, cudaError_t error)
{
    cudaGraph_t g = (cudaGraph_t)(void *)it.host;
    FAILS(cudaStreamEndCapture(s, &g), error);
    assert_null(g);
}

/* Whether it ends the process. */
static bool refused(void (*what)(void))
{
    int status;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        (void)!freopen("/dev/null", "w", stderr);
        signal(SIGSEGV, SIG_DFL); /* cmocka has its own */
        signal(SIGILL, SIG_DFL);
        what();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status != 0;
}

/* ---- order ---- */

static void work_is_done_when_it_is_waited_for_in_many_orders(void **state)
{
    (void)state;
    int first = 0;
    for (int turn = 0; turn < 50; turn++) {
        n_done = 0;
        put(it.a, 1);
        put(it.b, 2);
        assert_int_equal(n_done, 0);
        OK(cudaStreamSynchronize(it.a));
        assert_true(place_of(1) >= 0);
        OK(cudaStreamSynchronize(it.b));
        assert_int_equal(n_done, 2);
        first += place_of(1) == 0;
    }
    assert_true(first > 0 && first < 50);
}

static void streams_and_events_are_in_order(void **state)
{
    (void)state;
    for (int turn = 0; turn < 50; turn++) {
        n_done = 0;
        OK(cudaStreamWaitEvent(it.b, it.f, 0)); /* never recorded: holds nobody */
        put(it.a, 1);
        OK(cudaEventRecord(it.e, it.a));
        put(it.a, 2);
        OK(cudaStreamWaitEvent(it.b, it.e, 0)); /* for 1 alone */
        OK(cudaEventRecord(it.e, it.a));        /* changes nothing for b */
        put(it.b, 3);
        OK(cudaEventSynchronize(it.e));
        assert_true(place_of(2) > place_of(1) && place_of(1) >= 0);
        OK(cudaStreamSynchronize(it.b));
        assert_true(place_of(3) > place_of(1));
    }
}

static void events_keep_times(void **state)
{
    cudaEvent_t from, to;
    float ms = -1;
    (void)state;
    OK(cudaEventCreateWithFlags(&from, cudaEventDefault));
    OK(cudaEventCreateWithFlags(&to, cudaEventDefault));
    for (int turn = 0; turn < 20; turn++) {
        OK(cudaEventRecord(from, it.a));
        put(it.a, 1);
        OK(cudaEventRecord(to, it.a));
        FAILS(cudaEventElapsedTime(&ms, from, to), cudaErrorNotReady);
        OK(cudaStreamSynchronize(it.a));
        OK(cudaEventElapsedTime(&ms, from, to));
        assert_true(ms >= 0 && ms < 10000);
    }
    FAILS(cudaEventElapsedTime(&ms, from, it.e), cudaErrorInvalidResourceHandle);
    OK(cudaEventDestroy(from));
    OK(cudaEventDestroy(to));
}

/* ---- capture ---- */

static void what_cannot_be_captured_spoils_it(void **state)
{
    (void)state;
    int number = 2;
    setenv("DT_CARD_SPOIL", "2", 1);
    begin(it.a);
    put(it.a, 1);
    card_lock();
    FAILS(
        card_told(card_put(it.a, note, &number, sizeof number)), cudaErrorStreamCaptureUnsupported);
    ends_with(it.a, cudaErrorStreamCaptureInvalidated);
    unsetenv("DT_CARD_SPOIL");
    n_done = 0;
    put(it.a, 3);
    OK(cudaStreamSynchronize(it.a));
    assert_true(n_done == 1 && done[0] == 3);
}

static void a_graph_is_done_again_and_never_beside_itself(void **state)
{
    (void)state;
    cudaGraphExec_t x;
    n_done = 0;
    begin(it.a);
    put(it.a, 1);
    OK(cudaEventRecord(it.e, it.a));
    OK(cudaStreamWaitEvent(it.b, it.e, 0));
    put(it.b, 2);
    put(it.a, 3);
    OK(cudaEventRecord(it.f, it.b));
    OK(cudaStreamWaitEvent(it.a, it.f, 0));
    cudaGraph_t g = ended(it.a);
    OK(cudaGraphInstantiate(&x, g, 0));
    OK(cudaGraphDestroy(g));
    OK(cudaGraphUpload(x, it.a));
    OK(cudaStreamSynchronize(it.a));
    assert_int_equal(n_done, 0);
    int third = 0;
    for (int turn = 0; turn < 50; turn++) {
        n_done = 0;
        OK(cudaGraphLaunch(x, it.a));
        OK(cudaGraphLaunch(x, it.b)); /* on any stream, behind the other */
        OK(cudaStreamSynchronize(it.b));
        assert_int_equal(n_done, 6);
        assert_true(done[0] == 1 && done[3] == 1);
        third += done[1] == 3;
    }
    assert_true(third > 0 && third < 50);
    OK(cudaGraphExecDestroy(x));
    OK(cudaStreamSynchronize(it.a));
}

static void a_fork_has_to_be_joined(void **state)
{
    (void)state;
    begin(it.a);
    OK(cudaEventRecord(it.e, it.a));
    OK(cudaStreamWaitEvent(it.b, it.e, 0));
    ends_with(it.a, cudaErrorStreamCaptureUnjoined);
    begin(it.a);
    OK(cudaEventRecord(it.e, it.a));
    OK(cudaStreamWaitEvent(it.b, it.e, 0));
    OK(cudaEventRecord(it.f, it.b));
    put(it.b, 1); /* behind what is joined */
    OK(cudaStreamWaitEvent(it.a, it.f, 0));
    ends_with(it.a, cudaErrorStreamCaptureUnjoined);
}

static void nothing_outside_is_waited_for_in_a_capture(void **state)
{
    (void)state;
    put(it.b, 1);
    OK(cudaEventRecord(it.e, it.b));
    begin(it.a);
    FAILS(cudaStreamWaitEvent(it.a, it.e, 0), cudaErrorStreamCaptureIsolation);
    FAILS(cudaEventRecord(it.f, it.a), cudaErrorStreamCaptureInvalidated);
    ends_with(it.a, cudaErrorStreamCaptureInvalidated);
}

static void nothing_of_a_capture_is_waited_for_outside(void **state)
{
    (void)state;
    begin(it.a);
    put(it.a, 1);
    OK(cudaEventRecord(it.e, it.a));
    OK(cudaGraphDestroy(ended(it.a)));
    FAILS(cudaStreamWaitEvent(it.b, it.e, 0), cudaErrorCapturedEvent);
    FAILS(cudaEventSynchronize(it.e), cudaErrorCapturedEvent);
    OK(cudaEventRecord(it.e, it.a)); /* forgets the capture */
    OK(cudaStreamWaitEvent(it.b, it.e, 0));
}

static void waiting_for_what_is_captured_spoils_it(void **state)
{
    (void)state;
    begin(it.a);
    FAILS(cudaStreamSynchronize(it.a), cudaErrorStreamCaptureUnsupported);
    ends_with(it.a, cudaErrorStreamCaptureInvalidated);
    begin(it.a);
    OK(cudaEventRecord(it.e, it.a));
    FAILS(cudaEventSynchronize(it.e), cudaErrorCapturedEvent);
    ends_with(it.a, cudaErrorStreamCaptureInvalidated);
}

static void memory_is_not_asked_for_in_a_capture(void **state)
{
    (void)state;
    void *p;
    for (int i = 0; i < 6; i++) {
        begin(it.a);
        FAILS(i == 0   ? cudaMalloc(&p, 1)
              : i == 1 ? cudaFree(NULL)
              : i == 2 ? cudaHostAlloc(&p, 1, cudaHostAllocMapped)
              : i == 3 ? cudaFreeHost(NULL)
              : i == 4 ? cudaHostRegister(&p, 1, cudaHostRegisterMapped)
                       : cudaHostUnregister(it.host),
            cudaErrorStreamCaptureUnsupported);
        ends_with(it.a, cudaErrorStreamCaptureInvalidated);
    }
}

static void a_capture_ends_where_it_began(void **state)
{
    (void)state;
    cudaGraph_t g;
    FAILS(cudaStreamEndCapture(it.a, &g), cudaErrorIllegalState);
    begin(it.a);
    FAILS(cudaStreamBeginCapture(it.b, cudaStreamCaptureModeThreadLocal), cudaErrorIllegalState);
    OK(cudaEventRecord(it.e, it.a));
    OK(cudaStreamWaitEvent(it.b, it.e, 0));
    FAILS(cudaStreamEndCapture(it.b, &g), cudaErrorStreamCaptureUnmatched);
    ends_with(it.a, cudaErrorStreamCaptureInvalidated);
}

/* ---- memory ---- */

static void copies_stay_inside_what_they_name(void **state)
{
    (void)state;
    unsigned char *const host = it.host;
    memset(host, 7, BYTES);
    OK(cudaMemcpyAsync(it.device, host, BYTES, cudaMemcpyDefault, it.a));
    OK(cudaMemsetAsync(it.device, 9, BYTES / 2, it.a));
    OK(cudaMemcpyAsync(host, it.device, BYTES, cudaMemcpyDefault, it.a));
    assert_int_equal(host[0], 7);
    OK(cudaStreamSynchronize(it.a));
    assert_true(host[0] == 9 && host[BYTES / 2 - 1] == 9 && host[BYTES / 2] == 7);
    FAILS(cudaMemcpyAsync(it.device + 1, host, BYTES, cudaMemcpyDefault, it.a),
        cudaErrorInvalidValue);
    FAILS(cudaMemcpyAsync(it.device, host + 1, BYTES, cudaMemcpyDefault, it.a),
        cudaErrorInvalidValue);
    FAILS(cudaMemsetAsync(it.device, 0, BYTES + 1, it.a), cudaErrorInvalidValue);
    FAILS(cudaMemsetAsync(host, 0, 1, it.a), cudaErrorInvalidValue);
}

static void new_memory_is_not_numbers(void **state)
{
    (void)state;
    OK(cudaMemcpyAsync(it.host, it.device, BYTES, cudaMemcpyDefault, it.a));
    memset(it.host, 0, BYTES);
    OK(cudaStreamSynchronize(it.a));
    for (int i = 0; i < BYTES; i++)
        assert_int_equal(it.host[i], 0xFF);
}

static void registered_memory_is_reached_and_its_pages_are_taken(void **state)
{
    (void)state;
    static _Alignas(4096) char own[8192];
    void *there;
    FAILS(cudaHostGetDevicePointer(&there, own, 0), cudaErrorInvalidValue);
    OK(cudaHostRegister(own, 100, cudaHostRegisterMapped));
    FAILS(cudaHostRegister(own + 200, 100, cudaHostRegisterMapped),
        cudaErrorHostMemoryAlreadyRegistered);
    OK(cudaHostGetDevicePointer(&there, own, 0));
    OK(cudaMemcpyAsync(it.device, own, 100, cudaMemcpyDefault, it.a));
    OK(cudaStreamSynchronize(it.a));
    OK(cudaHostUnregister(own));
    FAILS(cudaHostUnregister(own), cudaErrorInvalidValue);
}

static void a_card_has_so_much(void **state)
{
    (void)state;
    void *p;
    FAILS(cudaMalloc(&p, (size_t)4 << 30), cudaErrorMemoryAllocation);
    OK(cudaFuncSetAttribute(it.host, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 << 10));
    FAILS(
        cudaFuncSetAttribute(it.host, cudaFuncAttributeMaxDynamicSharedMemorySize, (227 << 10) + 1),
        cudaErrorInvalidValue);
}

DT_KERNEL_OF(64, add_at, uintptr_t)
{
    *(float *)given += 1;
}

/* Of more threads than its kernel was compiled for. */
static void launches_keep_to_their_bounds(void **state)
{
    (void)state;
    const uintptr_t at = (uintptr_t)it.device;
    const struct {
        unsigned x, y;
    } one = {1, 1};
    DT_LAUNCH(add_at, one, 64, it.a, at);
    OK(cudaGetLastError());
    DT_LAUNCH(add_at, one, 96, it.a, at);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidConfiguration);
}

/* Convolutions are linked beside products, and not run here. */
dt_status dt_cuda_launched(const char *what, dt_err *err)
{
    (void)what, (void)err;
    return DT_OK;
}

static void products_take_what_begins_at_16_bytes(void **state)
{
    (void)state;
    const dti_cublas_problem p = {.direction = DTI_CUBLAS_FORWARD, .rows = 2, .in = 2, .out = 2};
    char *const d = it.device;
    dti_cublas *lib;
    dti_cublas_op *op;
    dt_err err = {0};
    char *work;
    OK(cudaMalloc((void **)&work, 1000));
    assert_ok(dti_cublas_open(&lib, NULL, &err), &err);
    assert_ok(dti_cublas_create(lib, &op, &p, &err), &err);
    for (int odd = 0; odd < 4; odd++) {
        const dti_cublas_bytes b = {.x = d + 4 * (odd == 1),
            .y = d + 64 + 8 * (odd == 2),
            .weight = d + 128 + 4 * (odd == 3),
            .work = work};
        const dt_status st = dti_cublas_run(op, it.a, &b, &err);
        assert_int_equal(st, odd == 0 ? DT_OK : DT_E_DEVICE);
    }
    OK(cudaStreamSynchronize(it.a));
    dti_cublas_destroy(op);
    dti_cublas_close(lib);
    OK(cudaFree(work));
}

static void touch(void)
{
    it.device[0] = 1;
}

static void copy_pageable(void)
{
    char own[8] = "";
    put(it.b, 1);
    (void)cudaMemcpyAsync(it.device, own, sizeof own, cudaMemcpyDefault, it.a);
}

static void free_early(void)
{
    (void)cudaMemsetAsync(it.device, 0, 1, it.a);
    (void)cudaFree(it.device);
}

static void leave_all(void)
{
    exit(0);
}

static void write_odd(void)
{
    const uintptr_t at = (uintptr_t)it.device + 2;
    const struct {
        unsigned x, y;
    } one = {1, 1};
    DT_LAUNCH(add_at, one, 32, it.a, at);
    OK(cudaStreamSynchronize(it.a));
}

static void give_own(void)
{
    const void *const own = &it;
    card_check_given("a kernel", &own, sizeof own);
}

static void wait_for_time(void)
{
    cudaEvent_t e;
    OK(cudaEventCreateWithFlags(&e, cudaEventDefault));
    (void)cudaEventSynchronize(e);
}

static void what_a_run_must_never_do_ends_it(void **state)
{
    (void)state;
    assert_true(refused(touch));
    assert_true(refused(copy_pageable));
    assert_true(refused(free_early));
    assert_true(refused(leave_all));
    assert_true(refused(wait_for_time));
    assert_true(refused(write_odd));
#ifdef DT_CARD_GIVEN
    assert_true(refused(give_own));
#else
    (void)give_own;
#endif
}

DT_TEST_GROUP(card_model)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(work_is_done_when_it_is_waited_for_in_many_orders),
        T(streams_and_events_are_in_order),
        T(events_keep_times),
        T(what_cannot_be_captured_spoils_it),
        T(a_graph_is_done_again_and_never_beside_itself),
        T(a_fork_has_to_be_joined),
        T(nothing_outside_is_waited_for_in_a_capture),
        T(nothing_of_a_capture_is_waited_for_outside),
        T(waiting_for_what_is_captured_spoils_it),
        T(memory_is_not_asked_for_in_a_capture),
        T(a_capture_ends_where_it_began),
        T(copies_stay_inside_what_they_name),
        T(new_memory_is_not_numbers),
        T(registered_memory_is_reached_and_its_pages_are_taken),
        T(a_card_has_so_much),
        T(launches_keep_to_their_bounds),
        T(products_take_what_begins_at_16_bytes),
        T(what_a_run_must_never_do_ends_it),
    };
    setenv("DT_CARD_SEED", "1", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
