/* What goes wrong on a CUDA device, in words: the call, CUDA's name and text, and what to do. */
#include <cuda_runtime_api.h>

#include "engine/cuda/cuda.h"

enum { LEAST_MAJOR = 8 };

typedef struct advice {
    cudaError_t error;
    const char *text;
} advice;

#define LOST                                                                                       \
    "the card stays out of use for this process: start again, with checkpoint.resume = auto to "   \
    "go on from the last checkpoint; compute-sanitizer says which kernel it was"
#define DRIVER                                                                                     \
    "update the NVIDIA driver, or build with the CUDA toolkit that `nvidia-smi` names, or set "    \
    "device.kind = cpu"
#define HARDWARE "the card or its link has a fault: see `nvidia-smi -q` and the system's log"

static const advice table[] = {
    {cudaErrorMemoryAllocation,
        "other processes may hold memory of the card (`nvidia-smi` lists them)"},
    {cudaErrorInsufficientDriver, DRIVER},
    {cudaErrorSystemDriverMismatch, DRIVER},
    {cudaErrorCompatNotSupportedOnDevice, DRIVER},
    {cudaErrorCallRequiresNewerDriver, DRIVER},
    {cudaErrorUnsupportedPtxVersion, DRIVER},
    {cudaErrorNoDevice,
        "no card is visible (`nvidia-smi`, CUDA_VISIBLE_DEVICES); set device.kind = cpu, or auto"},
    {cudaErrorStubLibrary,
        "libcuda.so is the toolkit's stand-in: take its folder out of LD_LIBRARY_PATH"},
    {cudaErrorDevicesUnavailable,
        "another process has the card for itself, or it is being reset (`nvidia-smi`)"},
    {cudaErrorSystemNotReady, "the services that the card needs are not running (fabric manager)"},
    {cudaErrorNoKernelImageForDevice, "the program was built for other cards: configure with "
                                      "-DCMAKE_CUDA_ARCHITECTURES=native, on this machine"},
    {cudaErrorIllegalAddress, LOST},
    {cudaErrorMisalignedAddress, LOST},
    {cudaErrorInvalidAddressSpace, LOST},
    {cudaErrorInvalidPc, LOST},
    {cudaErrorIllegalInstruction, LOST},
    {cudaErrorHardwareStackError, LOST},
    {cudaErrorLaunchFailure, LOST},
    {cudaErrorLaunchTimeout, LOST},
    {cudaErrorAssert, LOST},
    {cudaErrorECCUncorrectable, HARDWARE},
    {cudaErrorNvlinkUncorrectable, HARDWARE},
};

dt_status dti_cuda_status(int error, const char *call, dt_err *err)
{
    const cudaError_t e = (cudaError_t)error;
    const char *what = NULL;
    if (e == cudaSuccess)
        return DT_OK;
    (void)cudaGetLastError(); /* else the next call would tell of it again */
    for (size_t i = 0; i < DT_COUNT(table) && what == NULL; i++)
        what = table[i].error == e ? table[i].text : NULL;
    return DT_FAIL(err, e == cudaErrorMemoryAllocation ? DT_E_NOMEM : DT_E_DEVICE,
        "%s: %s (%s)%s%s", call, cudaGetErrorName(e), cudaGetErrorString(e),
        what != NULL ? "; " : "", what != NULL ? what : "");
}

dt_status dt_cuda_launched(const char *what, dt_err *err)
{
    return dti_cuda_status((int)cudaGetLastError(), what, err);
}

/* Asked each time, as a host program may mean another card between two calls. */
dt_status dt_cuda_enter(dt_err *err)
{
    int now = -1;
    if (cudaGetDevice(&now) != cudaSuccess || now != DTI_CUDA_CARD)
        DT_CUDA_TRY(err, cudaSetDevice(DTI_CUDA_CARD));
    return DT_OK;
}

/* Our kernels multiply bf16 and TF32 by instructions that came with compute capability 8.0. */
static bool new_enough(dt_err *why)
{
    int major = 0, minor = 0;
    const cudaError_t e = cudaDeviceGetAttribute(
                          &major, cudaDevAttrComputeCapabilityMajor, DTI_CUDA_CARD),
                      f = cudaDeviceGetAttribute(
                          &minor, cudaDevAttrComputeCapabilityMinor, DTI_CUDA_CARD);
    if (dti_cuda_status((int)(e != cudaSuccess ? e : f), "cudaDeviceGetAttribute", why) != DT_OK)
        return false;
    if (major >= LEAST_MAJOR)
        return true;
    (void)DT_FAIL(why, DT_E_DEVICE,
        "the card has compute capability %d.%d, and %d.0 is the first that serves; set "
        "CUDA_VISIBLE_DEVICES to another, or device.kind = cpu",
        major, minor, LEAST_MAJOR);
    return false;
}

bool dt_cuda_answers(dt_err *why)
{
    int n = 0, driver = 0, runtime = 0;
    if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0) {
        (void)DT_FAIL(why, DT_E_DEVICE,
            "no NVIDIA driver is installed (there is no libcuda.so.1); set device.kind = cpu, or "
            "auto");
        return false;
    }
    const cudaError_t e = cudaGetDeviceCount(&n);
    if (e == cudaErrorInsufficientDriver && cudaRuntimeGetVersion(&runtime) == cudaSuccess)
        (void)DT_FAIL(why, DT_E_DEVICE, "the driver is for CUDA %d.%d, this program for %d.%d",
            driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    const cudaError_t told = e == cudaSuccess && n == 0 ? cudaErrorNoDevice : e;
    return dti_cuda_status((int)told, "cudaGetDeviceCount", why) == DT_OK && new_enough(why);
}

dt_status dt_cuda_absent(dt_err *why)
{
    if (!dt_cuda_answers(why))
        return DT_E_DEVICE;
    return DT_FAIL(
        why, DT_E_DEVICE, "a card answers now that did not when this was planned: start again");
}
