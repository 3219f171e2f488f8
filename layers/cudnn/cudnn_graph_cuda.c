/* A convolution in cuDNN's descriptors, and what is done with descriptors. */
#include "layers/cudnn/cudnn_plan_cuda.h"

dt_status dti_cudnn_failed(cudnnStatus_t s, const char *call, dt_err *err)
{
    char more[256] = "";
    cudnnGetLastErrorString(more, sizeof more);
    const bool memory = s == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
                        s == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
    return DT_FAIL(err, memory ? DT_E_NOMEM : DT_E_DEVICE,
        "cuDNN: %s: %s%s%s; CUDNN_LOGLEVEL_DBG=2 CUDNN_LOGDEST_DBG=stderr tells more", call,
        cudnnGetErrorString(s), more[0] == 0 ? "" : ": ", more);
}

static bool passed(dti_cudnn_bag *b, cudnnStatus_t s, const char *call)
{
    b->status = s;
    b->call = call;
    return s == CUDNN_STATUS_SUCCESS;
}

cudnnBackendDescriptor_t dti_cudnn_add(dti_cudnn_bag *b, cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t d = NULL;
    if (b->status != CUDNN_STATUS_SUCCESS)
        return NULL;
    DT_ASSERT(b->n < DTI_CUDNN_KEPT);
    if (passed(b, cudnnBackendCreateDescriptor(type, &d), "cudnnBackendCreateDescriptor"))
        b->d[b->n++] = d;
    return d;
}

void dti_cudnn_set(dti_cudnn_bag *b, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
    cudnnBackendAttributeType_t type, int64_t n, const void *values)
{
    if (b->status == CUDNN_STATUS_SUCCESS)
        passed(b, cudnnBackendSetAttribute(d, name, type, n, values), "cudnnBackendSetAttribute");
}

void dti_cudnn_finish(dti_cudnn_bag *b, cudnnBackendDescriptor_t d)
{
    if (b->status == CUDNN_STATUS_SUCCESS)
        passed(b, cudnnBackendFinalize(d), "cudnnBackendFinalize");
}

void dti_cudnn_drop(dti_cudnn_bag *b)
{
    while (b->n > 0)
        if (b->d[--b->n] != NULL)
            cudnnBackendDestroyDescriptor(b->d[b->n]);
}

int64_t dti_cudnn_get(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
    cudnnBackendAttributeType_t type, int64_t most, void *values)
{
    int64_t n = 0;
    if (cudnnBackendGetAttribute(d, name, type, most, &n, values) != CUDNN_STATUS_SUCCESS)
        return -1;
    return n < most ? n : most;
}

/* --- the convolution --- */

/* The largest power of two, up to 16, at which every sample of so many bytes begins. */
static int64_t alignment(int64_t bytes)
{
    int64_t a = 16;
    while (bytes % a != 0)
        a /= 2;
    return a;
}

/* Of n, c, h, w values that lie as n, h, w, c. */
static cudnnBackendDescriptor_t tensor(
    dti_cudnn_bag *b, int64_t id, bool bf16, int64_t n, int64_t c, int64_t h, int64_t w)
{
    const cudnnDataType_t type = bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
    const int64_t dims[4] = {n, c, h, w}, strides[4] = {h * w * c, 1, w * c, c};
    const int64_t align = id == DTI_CUDNN_W ? 16 : alignment(h * w * c * (bf16 ? 2 : 4));
    const cudnnBackendDescriptor_t d = dti_cudnn_add(b, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    dti_cudnn_set(b, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    dti_cudnn_set(b, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims);
    dti_cudnn_set(b, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    dti_cudnn_set(b, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    dti_cudnn_set(b, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align);
    dti_cudnn_finish(b, d);
    return d;
}

static cudnnBackendDescriptor_t convolution(dti_cudnn_bag *b, const dti_cudnn_problem *p)
{
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t rank = 2, dilation[2] = {p->dilation, p->dilation};
    const int64_t stride[2] = {dt_sides_h(p->stride), dt_sides_w(p->stride)};
    const int64_t pad[2] = {dt_sides_h(p->pad), dt_sides_w(p->pad)};
    const cudnnBackendDescriptor_t d = dti_cudnn_add(b, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    dti_cudnn_set(b, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    dti_cudnn_set(b, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    dti_cudnn_set(b, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &rank);
    dti_cudnn_set(b, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilation);
    dti_cudnn_set(b, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, stride);
    dti_cudnn_set(b, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, pad);
    dti_cudnn_set(b, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, pad);
    dti_cudnn_finish(b, d);
    return d;
}

/* Names of the same things in the three operations. */
static const struct direction {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t x, w, y, convolution, alpha, beta;
} directions[] = {
    [DTI_CUDNN_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [DTI_CUDNN_DATA] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [DTI_CUDNN_WEIGHTS] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

cudnnBackendDescriptor_t dti_cudnn_graph(
    dti_cudnn_bag *b, const dti_cudnn_target *of, const dti_cudnn_problem *p)
{
    const struct direction *to = &directions[p->direction];
    const float one = 1, zero = 0;
    const bool bf16 = p->bf16 != 0;
    const cudnnBackendDescriptor_t x = tensor(b, DTI_CUDNN_X, bf16, p->n, p->c, p->h, p->w);
    const cudnnBackendDescriptor_t w = tensor(b, DTI_CUDNN_W, bf16, p->out, p->c / p->groups,
        dt_sides_h(p->kernel), dt_sides_w(p->kernel));
    const cudnnBackendDescriptor_t y = tensor(b, DTI_CUDNN_Y, bf16, p->n, p->out, p->p, p->q);
    const cudnnBackendDescriptor_t conv = convolution(b, p), op = dti_cudnn_add(b, to->type);
    dti_cudnn_set(b, op, to->x, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x);
    dti_cudnn_set(b, op, to->w, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &w);
    dti_cudnn_set(b, op, to->y, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y);
    dti_cudnn_set(b, op, to->convolution, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &conv);
    dti_cudnn_set(b, op, to->alpha, CUDNN_TYPE_FLOAT, 1, &one);
    dti_cudnn_set(b, op, to->beta, CUDNN_TYPE_FLOAT, 1, &zero);
    dti_cudnn_finish(b, op);
    const cudnnBackendDescriptor_t d = dti_cudnn_add(b, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    dti_cudnn_aim(b, d, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, of);
    dti_cudnn_set(b, d, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &op);
    dti_cudnn_finish(b, d);
    return d;
}
