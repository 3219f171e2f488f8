/* A product in cuBLASLt's descriptors, and the choice of its algorithm. */
#include "layers/cublas/cublas_product_cuda.h"

static bool passed(dti_product *m, cublasStatus_t s, const char *call)
{
    m->status = s;
    m->call = call;
    return s == CUBLAS_STATUS_SUCCESS;
}

void dti_product_drop(dti_product *m)
{
    if (m->op != NULL)
        cublasLtMatmulDescDestroy(m->op);
    if (m->a != NULL)
        cublasLtMatrixLayoutDestroy(m->a);
    if (m->b != NULL)
        cublasLtMatrixLayoutDestroy(m->b);
    if (m->d != NULL)
        cublasLtMatrixLayoutDestroy(m->d);
    *m = (dti_product){0};
}

void dti_product_set(
    dti_product *m, cublasLtMatmulDescAttributes_t name, const void *value, size_t bytes)
{
    if (m->status == CUBLAS_STATUS_SUCCESS)
        passed(m, cublasLtMatmulDescSetAttribute(m->op, name, value, bytes),
            "cublasLtMatmulDescSetAttribute");
}

/* Ours {rows, columns}, row after row. */
static void layout(
    dti_product *m, cublasLtMatrixLayout_t *l, cudaDataType_t type, int64_t rows, int64_t columns)
{
    if (m->status == CUBLAS_STATUS_SUCCESS)
        passed(m, cublasLtMatrixLayoutCreate(l, type, (uint64_t)columns, (uint64_t)rows, columns),
            "cublasLtMatrixLayoutCreate");
}

bool dti_product_adds_bias(const dt_cublas_problem *p)
{
    return p->bias != 0 && p->direction == DT_CUBLAS_FORWARD;
}

void dti_product_describe(dti_product *m, const dt_cublas_problem *p, bool fused)
{
    const cudaDataType_t type = p->bf16 ? CUDA_R_16BF : CUDA_R_32F;
    const cublasComputeType_t sums = p->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    const cublasOperation_t transposed = CUBLAS_OP_T;
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    const void *const bias = (const void *)(uintptr_t)256; /* stands for one as well aligned */
    *m = (dti_product){0};
    passed(m, cublasLtMatmulDescCreate(&m->op, sums, CUDA_R_32F), "cublasLtMatmulDescCreate");
    if (p->direction == DT_CUBLAS_FORWARD) {
        dti_product_set(m, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed);
        layout(m, &m->a, type, p->out, p->in);
        layout(m, &m->b, type, p->rows, p->in);
        layout(m, &m->d, type, p->rows, p->out);
    } else if (p->direction == DT_CUBLAS_DATA) {
        layout(m, &m->a, type, p->out, p->in);
        layout(m, &m->b, type, p->rows, p->out);
        layout(m, &m->d, type, p->rows, p->in);
    } else {
        dti_product_set(m, CUBLASLT_MATMUL_DESC_TRANSB, &transposed, sizeof transposed);
        layout(m, &m->a, type, p->rows, p->in);
        layout(m, &m->b, type, p->rows, p->out);
        layout(m, &m->d, CUDA_R_32F, p->out, p->in);
    }
    if (!fused || !dti_product_adds_bias(p))
        return;
    dti_product_set(m, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    dti_product_set(m, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
}

static void prefer(dti_product *m, cublasLtMatmulPreference_t to,
    cublasLtMatmulPreferenceAttributes_t name, const void *value, size_t bytes)
{
    if (m->status == CUBLAS_STATUS_SUCCESS)
        passed(m, cublasLtMatmulPreferenceSetAttribute(to, name, value, bytes),
            "cublasLtMatmulPreferenceSetAttribute");
}

/* Sums in one piece, or in pieces added up afterwards in fp32: the same bits every time. */
static void prefer_all(dti_product *m, cublasLtMatmulPreference_t to)
{
    static const cublasLtMatmulPreferenceAttributes_t operands[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const uint64_t most = DT_CUBLAS_WORK;
    const uint32_t align = 16,
                   sums = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    prefer(m, to, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most);
    prefer(m, to, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums, sizeof sums);
    for (size_t i = 0; i < DT_COUNT(operands); i++)
        prefer(m, to, operands[i], &align, sizeof align);
}

void dti_product_choose(
    dti_product *m, cublasLtHandle_t handle, cublasLtMatmulHeuristicResult_t *best)
{
    cublasLtMatmulPreference_t wishes = NULL;
    int n = 0;
    if (m->status == CUBLAS_STATUS_SUCCESS)
        passed(m, cublasLtMatmulPreferenceCreate(&wishes), "cublasLtMatmulPreferenceCreate");
    prefer_all(m, wishes);
    if (m->status == CUBLAS_STATUS_SUCCESS)
        passed(m,
            cublasLtMatmulAlgoGetHeuristic(
                handle, m->op, m->a, m->b, m->d, m->d, wishes, 1, best, &n),
            "cublasLtMatmulAlgoGetHeuristic");
    if (m->status == CUBLAS_STATUS_SUCCESS && n == 0)
        passed(m, CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic");
    if (wishes != NULL)
        cublasLtMatmulPreferenceDestroy(wishes);
}
