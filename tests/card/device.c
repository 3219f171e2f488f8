/* What the card is, in numbers and names, and how kernels get onto its streams. */
#include <cublasLt.h>
#include <cudnn_graph.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#include "tests/card/card.h"
#include "tests/fixture/cuda_host.h"

enum { PLAIN_SHARED = 48 << 10, MOST_SHARED = 227 << 10, KERNELS = 64, MOST_Y = 65535 };

/* Of which the second is there to be meant by mistake. */
enum { CARDS = 2 };
static _Thread_local int meant;

cudaError_t cudaSetDevice(int device)
{
    card_lock();
    if (device < 0 || device >= CARDS)
        return card_told(cudaErrorInvalidDevice);
    meant = device;
    return card_told(cudaSuccess);
}

cudaError_t cudaGetDevice(int *device)
{
    *device = meant;
    return cudaSuccess;
}

void card_meant(const char *call)
{
    if (meant != 0)
        card_refuse("%s in a thread that means card %d", call, meant);
}

cudaError_t cudaGetDeviceCount(int *n)
{
    *n = CARDS;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr name, int device)
{
    card_lock();
    *value = name == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
    return card_told(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    card_lock();
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "a model");
    p->major = 9;
    return card_told(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaDriverGetVersion(int *v)
{
    *v = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *v)
{
    *v = CUDART_VERSION;
    return cudaSuccess;
}

size_t cudnnGetVersion(void)
{
    return CUDNN_VERSION;
}

size_t cublasLtGetVersion(void)
{
    return CUBLAS_VERSION;
}

const char *cudaGetErrorName(cudaError_t e)
{
    static _Thread_local char name[32];
    snprintf(name, sizeof name, "error %d", (int)e);
    return name;
}

const char *cudaGetErrorString(cudaError_t e)
{
    return e == cudaErrorMemoryAllocation ? "out of memory" : "as the model of a card says";
}

/* ---- kernels ---- */

/* What a launch may add of shared memory, where it is more than any may. */
static struct {
    const void *kernel;
    size_t shared;
} allowed[KERNELS];

cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute name, int value)
{
    size_t i = 0;
    card_lock();
    if (name != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 || value > MOST_SHARED)
        return card_told(cudaErrorInvalidValue);
    while (i + 1 < KERNELS && allowed[i].kernel != NULL && allowed[i].kernel != kernel)
        i++;
    allowed[i].kernel = kernel;
    allowed[i].shared = (size_t)value;
    return card_told(cudaSuccess);
}

static size_t shared_of(const void *kernel)
{
    for (size_t i = 0; i < KERNELS; i++)
        if (allowed[i].kernel == kernel && allowed[i].shared > PLAIN_SHARED)
            return allowed[i].shared;
    return PLAIN_SHARED;
}

/* Behind the job lies what its kernel is given. */
static void run_job(const void *given)
{
    const dt_host_job *job = given;
    dt_host_run(job, job + 1);
}

void dt_host_launch(void *queue, const dt_host_job *job, const void *given, size_t bytes)
{
    const size_t head = sizeof *job;
    _Alignas(16) char both[4096 + sizeof *job]; /* the most that a launch takes before CUDA 12.1 */
    card_lock();
    if (job->x == 0 || job->y == 0 || job->y > MOST_Y || job->threads == 0 || job->threads > 1024 ||
        job->threads > job->kernel->bounds[0] || job->x > INT32_MAX) {
        (void)card_told(cudaErrorInvalidConfiguration);
        return;
    }
    if (bytes > sizeof both - head || job->shared > shared_of(job->kernel)) {
        (void)card_told(cudaErrorInvalidValue);
        return;
    }
    card_meant("a launch");
    card_check_given("a kernel", given, bytes);
    memcpy(both, job, head);
    memcpy(both + head, given, bytes);
    (void)card_told(card_put(queue, run_job, both, head + bytes));
}
