/* For which card cuDNN is asked. Since 9.8 it answers for one that it knows by its properties: the
 * same heuristics, engines and scratch as with the card at hand, but nothing can be run. */
#include <stdio.h>

#include "layers/cudnn/cudnn_plan_cuda.h"

#if CUDNN_VERSION >= 90800

/* The properties in cuDNN's own words: what it writes of a card that is here. */
static int properties(char *to, size_t bytes, const dt_card *c)
{
    const dt_card_limits *l = dt_card_limits_of(c);
    return snprintf(to, bytes,
        "{\"cudnnVersion\":%zu,\"schemaVersion\":1,\"deviceName\":\"NVIDIA %s\",\"cudaDeviceId\":0,"
        "\"deviceVer\":%d,\"driverVer\":%d,\"totalGlobalMem\":%llu,\"multiProcessorCount\":%d,"
        "\"smClockRateKHz\":%d,\"memClockRateKHz\":%d,\"l2CacheSize\":%lld,"
        "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":%d,"
        "\"reservedSharedMemoryPerBlock\":1024,\"regsPerBlock\":65536,\"maxRegistersPerSM\":65536,"
        "\"maxCtasPerSM\":%d,\"maxThreadsPerSM\":%d,\"maxThreadsPerBlock\":1024,\"warpSize\":32,"
        "\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"
        "\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1}",
        cudnnGetVersion(), c->title, c->major * 100 + c->minor * 10, CUDART_VERSION,
        (unsigned long long)dt_card_bytes(c), c->processors, c->mhz * 1000, c->memory_mhz * 1000,
        (long long)c->l2_mib << 20, l->shared, l->blocks, l->threads);
}

dt_status dti_cudnn_describe(cudnnBackendDescriptor_t *out, const dt_card *card, dt_err *err)
{
    char text[1024];
    dti_cudnn_bag b = {0};
    const int n = properties(text, sizeof text, card);
    DT_ASSERT(n > 0 && (size_t)n < sizeof text);
    *out = dti_cudnn_add(&b, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    dti_cudnn_set(&b, *out, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, n, text);
    dti_cudnn_finish(&b, *out);
    if (b.status == CUDNN_STATUS_SUCCESS)
        return DT_OK;
    const cudnnStatus_t s = b.status;
    dti_cudnn_drop(&b);
    *out = NULL;
    DT_TRY(err, dti_cudnn_failed(s, b.call, err), "properties of card '%s'", card->name);
    return DT_OK;
}

static void aim_at_properties(dti_cudnn_bag *b, cudnnBackendDescriptor_t d,
    cudnnBackendDescriptorType_t type, const cudnnBackendDescriptor_t *card)
{
    if (type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
        dti_cudnn_set(
            b, d, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, card);
    else if (type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
        dti_cudnn_set(
            b, d, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, card);
}

#else

dt_status dti_cudnn_describe(cudnnBackendDescriptor_t *out, const dt_card *card, dt_err *err)
{
    *out = NULL;
    return DT_FAIL(err, DT_E_DEVICE,
        "plans for a card that is not here ('%s') need cuDNN 9.8; this program was built with "
        "%d.%d",
        card->name, CUDNN_MAJOR, CUDNN_MINOR);
}

static void aim_at_properties(dti_cudnn_bag *b, cudnnBackendDescriptor_t d,
    cudnnBackendDescriptorType_t type, const cudnnBackendDescriptor_t *card)
{
    (void)b, (void)d, (void)type, (void)card;
}

#endif

void dti_cudnn_aim(dti_cudnn_bag *b, cudnnBackendDescriptor_t d, cudnnBackendDescriptorType_t type,
    const dti_cudnn_target *of)
{
    if (of->properties != NULL)
        aim_at_properties(b, d, type, &of->properties);
    else if (type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
        dti_cudnn_set(b, d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &of->handle);
    else if (type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
        dti_cudnn_set(b, d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &of->handle);
}
