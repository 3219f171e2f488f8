/* A convolution as cuDNN's descriptors, and the choice of its engine: the inside of cudnn_cuda.c.
 */
#ifndef DT_LAYERS_CUDNN_PLAN_CUDA_H
#define DT_LAYERS_CUDNN_PLAN_CUDA_H

#include <cudnn_graph.h>

#include "layers/cudnn_cuda.h"

enum { DTI_CUDNN_KEPT = 40, DTI_CUDNN_TABLE = 72 };
enum { DTI_CUDNN_X = 1, DTI_CUDNN_W, DTI_CUDNN_Y }; /* unique ids of the tensors */

/* Descriptors that are given back together, and the first call that failed: after that all others
 * do nothing. */
typedef struct dti_cudnn_bag {
    cudnnBackendDescriptor_t d[DTI_CUDNN_KEPT];
    int n;
    cudnnStatus_t status;
    const char *call;
} dti_cudnn_bag;

cudnnBackendDescriptor_t dti_cudnn_add(dti_cudnn_bag *b, cudnnBackendDescriptorType_t type);
void dti_cudnn_set(dti_cudnn_bag *b, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
    cudnnBackendAttributeType_t type, int64_t n, const void *values);
void dti_cudnn_finish(dti_cudnn_bag *b, cudnnBackendDescriptor_t d);
void dti_cudnn_drop(dti_cudnn_bag *b);

/* How many values an attribute has, up to @room of which are read; -1: the library does not say. */
int64_t dti_cudnn_get(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
    cudnnBackendAttributeType_t type, int64_t room, void *values);

/* A graph of one convolution; @bf16_weight: of the weight, or of its gradient. */
cudnnBackendDescriptor_t dti_cudnn_graph(
    dti_cudnn_bag *b, cudnnHandle_t handle, const dt_cudnn_problem *p, bool bf16_weight);

/* The library's error in our words. */
dt_status dti_cudnn_failed(cudnnStatus_t s, const char *call, dt_err *err);

/* An engine that is a way: prepared, and its place in the table. */
typedef struct dti_cudnn_way {
    cudnnBackendDescriptor_t plan;
    int at;
} dti_cudnn_way;

/**
 * struct dti_cudnn_plan - what was found for a shape.
 * @users:  that hold it
 * @kept:   its descriptors; at the end of them two a way, its settings and its plan
 * @way:    the fastest first, each with less scratch than the one before; none: no engine is
 * allowed
 * @status: then what the library said last
 * @narrow: the gradient of the weight comes out in bf16 and has yet to be made fp32
 */
typedef struct dti_cudnn_plan {
    int users;
    dti_cudnn_bag kept;
    int n_way;
    dti_cudnn_way way[DT_MAX_WAYS];
    cudnnStatus_t status;
    bool narrow;
    int n_table;
    dt_cudnn_candidate table[DTI_CUDNN_TABLE];
} dti_cudnn_plan;

/* DT_E_DEVICE or DT_E_NOMEM when the library fails, not when it has no engine. */
dt_status dti_cudnn_find(dti_cudnn_plan **out, cudnnHandle_t handle, const dt_cudnn_problem *p,
    dt_err *err) DT_NODISCARD;
void dti_cudnn_release(dti_cudnn_plan *plan); /* NULL is allowed */

#endif
