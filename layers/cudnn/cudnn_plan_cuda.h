/* A convolution as cuDNN's descriptors, and the choice of its engine: the inside of cudnn_cuda.c.
 */
#ifndef DT_LAYERS_CUDNN_CUDNN_PLAN_CUDA_H
#define DT_LAYERS_CUDNN_CUDNN_PLAN_CUDA_H

#include <cudnn_graph.h>

#include "engine/algorithms.h"
#include "engine/card.h"
#include "layers/cudnn/cudnn_choose.h"
#include "layers/cudnn/cudnn_problem.h"

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

/* How many values an attribute has, up to @most of which are read; -1: the library does not say. */
int64_t dti_cudnn_get(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
    cudnnBackendAttributeType_t type, int64_t most, void *values);

/* For which card the library is asked: the one behind the handle, or one that it knows by its
 * properties alone. The other is NULL. */
typedef struct dti_cudnn_target {
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t properties;
} dti_cudnn_target;

/* A card that need not be here. DT_E_DEVICE when the library is too old for that (before 9.8). */
dt_status dti_cudnn_describe(
    cudnnBackendDescriptor_t *out, const dt_card *card, dt_err *err) DT_NODISCARD;

/* Say so to a descriptor: of an operation graph, the heuristics or an execution plan (@type). */
void dti_cudnn_aim(dti_cudnn_bag *b, cudnnBackendDescriptor_t d, cudnnBackendDescriptorType_t type,
    const dti_cudnn_target *of);

/* A graph of one convolution. In bf16 the gradient of the weight is bf16 as well, rounded from
 * sums in fp32: the library has no engine that would leave it in fp32. */
cudnnBackendDescriptor_t dti_cudnn_graph(
    dti_cudnn_bag *b, const dti_cudnn_target *of, const dti_cudnn_problem *p);

/* The library's error in our words. */
dt_status dti_cudnn_failed(cudnnStatus_t s, const char *call, dt_err *err) DT_NODISCARD;

/* An engine that is an algorithm: prepared, and its place in the table. */
typedef struct dti_cudnn_algorithm {
    cudnnBackendDescriptor_t plan;
    int at;
} dti_cudnn_algorithm;

/**
 * struct dti_cudnn_plan - what was found for a shape.
 * @users:  that hold it
 * @kept:   its descriptors; at the end of them two an algorithm, its settings and its plan
 * @algorithm: the fastest first, each with less scratch than the one before; none: no engine is
 * allowed
 * @status: then what the library said last
 */
typedef struct dti_cudnn_plan {
    int users;
    dti_cudnn_bag kept;
    int n_algorithm;
    dti_cudnn_algorithm algorithm[DT_MAX_ALGORITHMS];
    cudnnStatus_t status;
    int n_table;
    dti_cudnn_candidate table[DTI_CUDNN_TABLE];
} dti_cudnn_plan;

/* DT_E_DEVICE or DT_E_NOMEM when the library fails, not when it has no engine. */
dt_status dti_cudnn_find(dti_cudnn_plan **out, const dti_cudnn_target *of,
    const dti_cudnn_problem *p, dt_err *err) DT_NODISCARD;
void dti_cudnn_release(dti_cudnn_plan *plan); /* NULL is allowed */

#endif
