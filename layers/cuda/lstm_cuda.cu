/* The LSTM on the card. What does not wait for a step is done for a chunk of steps at once, whose
 * rows are sorted by step and then by sample, as on the processor; a step forward or back is a
 * product and a kernel that goes over samples and channels. In bf16 a step reads the h that y
 * holds; all else between steps is fp32. */
#include "layers/cuda/product.cuh"

DT_C_HEADERS
#include "layers/sequence/lstm.h"
DT_C_HEADERS_END

enum { LSTM_GATES = 4, LSTM_CHUNK_ROWS = 4096 };

/**
 * struct lstm_job - one execution, and a launch of its kernels.
 * @chunk: steps at a time
 * @first @many @step: of the chunk at hand, its first step and how many; the step at hand
 * @gate:  rows of the chunk, [4 out]: sums of gates, then gates, in backward then their gradients
 * @cell:  [n][out]: c so far; in backward its gradient
 * @next:  [n][4 out]: gradients of the gates of the first step behind the chunk
 * @dh:    [n][out]: what of dh comes from the step behind
 * @saved @cells: the stashes, NULL where they are not wanted
 */
typedef struct lstm_job {
    const void *x, *dy;
    void *y, *dx;
    const float *ih, *hh, *bias[2];
    float *dih, *dhh, *dbias[2], *saved, *cells, *gate, *cell, *next, *dh;
    int64_t n, steps, in, out, chunk, first, many, step;
    bool again;
    dt_dtype type;
} lstm_job;

/* Where a value of the step at hand lies: @i of samples times channels. */
typedef struct lstm_place {
    int64_t sample, unit, at; /* at: of [n][steps][out] */
    float *gate;              /* the first of four, @out apart */
} lstm_place;

DT_DEVICE lstm_place lstm_place_of(const lstm_job *j, int64_t i)
{
    lstm_place p;
    p.sample = dti_quotient(i, j->out);
    p.unit = i - p.sample * j->out;
    p.at = (p.sample * j->steps + j->step) * j->out + p.unit;
    p.gate = j->gate + ((j->step - j->first) * j->n + p.sample) * LSTM_GATES * j->out + p.unit;
    return p;
}

/* Sums to gates, c and h. */
DT_DEVICE void lstm_advance(const lstm_job *j, dt_dtype t)
{
    for (int64_t i = dti_first(); i < j->n * j->out; i += dti_stride()) {
        const lstm_place p = lstm_place_of(j, i);
        const float in = dti_curve_sigmoid(p.gate[0]), forget = dti_curve_sigmoid(p.gate[j->out]);
        const float g = dti_curve_tanh(p.gate[2 * j->out]);
        const float out = dti_curve_sigmoid(p.gate[3 * j->out]);
        const float c = forget * (j->step > 0 ? j->cell[i] : 0.0f) + in * g;
        j->cell[i] = c;
        dti_store(j->y, p.at, t, out * dti_curve_tanh(c));
        if (j->cells != NULL)
            j->cells[p.at] = c;
        if (j->saved != NULL) {
            float *to = j->saved + (p.at - p.unit) * LSTM_GATES + p.unit;
            to[0] = in;
            to[j->out] = forget;
            to[2 * j->out] = g;
            to[3 * j->out] = out;
        }
    }
}

DT_KERNELS(lstm_advance, lstm_job)

/* Gates of a chunk's rows, from their sums or from where forward has kept them. */
DT_KERNEL(lstm_gates, lstm_job)
{
    const lstm_job *j = &given;
    const int64_t width = LSTM_GATES * j->out;
    for (int64_t i = dti_first(); i < j->many * j->n * width; i += dti_stride()) {
        const int64_t row = dti_quotient(i, width), k = i - row * width;
        const int64_t step = dti_quotient(row, j->n), sample = row - step * j->n;
        if (!j->again)
            j->gate[i] = j->saved[(sample * j->steps + j->first + step) * width + k];
        else if (k / j->out == 2)
            j->gate[i] = dti_curve_tanh(j->gate[i]);
        else
            j->gate[i] = dti_curve_sigmoid(j->gate[i]);
    }
}

/* Gates become their gradients. */
DT_DEVICE void lstm_retreat(const lstm_job *j, dt_dtype t)
{
    const bool last = j->step + 1 == j->steps;
    for (int64_t i = dti_first(); i < j->n * j->out; i += dti_stride()) {
        const lstm_place p = lstm_place_of(j, i);
        const float in = p.gate[0], forget = p.gate[j->out];
        const float g = p.gate[2 * j->out], out = p.gate[3 * j->out];
        const float c = dti_curve_tanh(j->cells[p.at]);
        const float before = j->step > 0 ? j->cells[p.at - j->out] : 0.0f;
        const float dh = (last ? 0.0f : j->dh[i]) + dti_load(j->dy, p.at, t);
        const float dc = (last ? 0.0f : j->cell[i]) + dh * out * (1 - c * c);
        p.gate[0] = dc * g * (in * (1 - in));
        p.gate[j->out] = dc * before * (forget * (1 - forget));
        p.gate[2 * j->out] = dc * in * (1 - g * g);
        p.gate[3 * j->out] = dh * c * (out * (1 - out));
        j->cell[i] = dc * forget;
    }
}

DT_KERNELS(lstm_retreat, lstm_job)

/* The first step's gradients, for the chunk before. */
DT_KERNEL(lstm_keep, lstm_job)
{
    for (int64_t i = dti_first(); i < given.n * LSTM_GATES * given.out; i += dti_stride())
        given.next[i] = given.gate[i];
}

/* --- products --- */

/* Rows of the chunk, of a value [n][steps][width], from step @from on. */
static dti_operand lstm_rows(const lstm_job *j, const void *value, int64_t width, int64_t from)
{
    dti_operand o =
        dti_rows_of((const char *)value + (size_t)(from * width) * dt_dtype_bytes(j->type),
            j->steps * width, true);
    o.each = j->n;
    o.far = width;
    return o;
}

static void lstm_multiply_x(const lstm_job *j, void *queue)
{
    const int64_t width = LSTM_GATES * j->out;
    dti_product_job p =
        dti_product_job_of(j->many * j->n, width, j->in, lstm_rows(j, j->x, j->in, j->first),
            dti_columns_as_rows(j->ih, j->in), dti_rows_of(j->gate, width, false));
    p.bias = j->bias[0];
    p.more = j->bias[1];
    dti_product_launch(&p, j->type, queue);
}

/* h times its weight, to the sums of @many steps from @step on, of which none is the first. */
static void lstm_add_h(const lstm_job *j, int64_t step, int64_t many, void *queue)
{
    const int64_t width = LSTM_GATES * j->out;
    float *gate = j->gate + (step - j->first) * j->n * width;
    dti_product_job p =
        dti_product_job_of(many * j->n, width, j->out, lstm_rows(j, j->y, j->out, step - 1),
            dti_columns_as_rows(j->hh, j->out), dti_rows_of(gate, width, false));
    p.plus = gate;
    dti_product_launch(&p, j->type, queue);
}

static void lstm_multiply_next(const lstm_job *j, void *queue)
{
    const int64_t width = LSTM_GATES * j->out;
    const bool within = j->step + 1 < j->first + j->many;
    const float *next = within ? j->gate + (j->step + 1 - j->first) * j->n * width : j->next;
    const dti_product_job p =
        dti_product_job_of(j->n, j->out, width, dti_rows_of(next, width, false),
            dti_rows_of(j->hh, j->out, false), dti_rows_of(j->dh, j->out, false));
    dti_product_launch(&p, j->type, queue);
}

/* Gradients of both weights, and of the biases, by the chunk's rows. Before the first step h is 0.
 */
static void lstm_multiply_rows(const lstm_job *j, void *queue)
{
    const int64_t width = LSTM_GATES * j->out, skip = j->first == 0 ? 1 : 0;
    const bool add = j->first + j->many < j->steps;
    dti_product_job p =
        dti_product_job_of(width, j->in, j->many * j->n, dti_columns_as_rows(j->gate, width),
            lstm_rows(j, j->x, j->in, j->first), dti_rows_of(j->dih, j->in, false));
    p.plus = add ? j->dih : NULL;
    dti_product_launch(&p, j->type, queue);
    p = dti_product_job_of(width, j->out, (j->many - skip) * j->n,
        dti_columns_as_rows(j->gate + skip * j->n * width, width),
        lstm_rows(j, j->y, j->out, j->first + skip - 1), dti_rows_of(j->dhh, j->out, false));
    p.plus = add ? j->dhh : NULL;
    dti_product_launch(&p, j->type, queue);
    if (j->dbias[0] != NULL)
        dti_sums_launch(j->gate, j->many * j->n, width, add, j->dbias[0], j->dbias[1], queue);
}

static void lstm_multiply_gates(const lstm_job *j, void *queue)
{
    const int64_t width = LSTM_GATES * j->out;
    if (j->dx == NULL)
        return;
    const dti_product_job p =
        dti_product_job_of(j->many * j->n, j->in, width, dti_rows_of(j->gate, width, false),
            dti_rows_of(j->ih, j->in, false), lstm_rows(j, j->dx, j->in, j->first));
    dti_product_launch(&p, j->type, queue);
}

/* --- forward and backward --- */

static dt_status lstm_forward(lstm_job *j, void *queue, dt_err *err)
{
    for (j->first = 0; j->first < j->steps; j->first += j->many) {
        j->many = j->steps - j->first < j->chunk ? j->steps - j->first : j->chunk;
        lstm_multiply_x(j, queue);
        for (j->step = j->first; j->step < j->first + j->many; j->step++) {
            if (j->step > 0)
                lstm_add_h(j, j->step, 1, queue);
            DT_LAUNCH_OF(lstm_advance, j->type, dti_grid_of(j->n * j->out), queue, *j);
        }
    }
    return dt_cuda_launched("lstm forward", err);
}

static void lstm_find_gates(lstm_job *j, void *queue)
{
    const int64_t skip = j->first == 0 ? 1 : 0;
    if (j->again) {
        lstm_multiply_x(j, queue);
        lstm_add_h(j, j->first + skip, j->many - skip, queue);
    }
    DT_LAUNCH(
        lstm_gates, dti_grid_of(j->many * j->n * LSTM_GATES * j->out), DTI_THREADS, queue, *j);
}

static dt_status lstm_backward(lstm_job *j, void *queue, dt_err *err)
{
    for (int64_t i = dti_ceil_div(j->steps, j->chunk); i-- > 0;) {
        const dti_span s = dti_span_of(j->steps, j->chunk, i);
        j->first = s.begin;
        j->many = s.end - s.begin;
        lstm_find_gates(j, queue);
        for (j->step = s.end; j->step-- > s.begin;) {
            if (j->step + 1 < j->steps)
                lstm_multiply_next(j, queue);
            DT_LAUNCH_OF(lstm_retreat, j->type, dti_grid_of(j->n * j->out), queue, *j);
        }
        DT_LAUNCH(lstm_keep, dti_grid_of(j->n * LSTM_GATES * j->out), DTI_THREADS, queue, *j);
        lstm_multiply_rows(j, queue);
        lstm_multiply_gates(j, queue);
    }
    return dt_cuda_launched("lstm backward", err);
}

/* --- ops --- */

/* Gives every part its space in scratch; returns the bytes of all. */
static size_t lstm_lay_out(lstm_job *j, float *work, bool back)
{
    const int64_t state = j->n * j->out;
    int64_t at = 0;
    j->gate = dti_take_scratch(work, &at, j->chunk * j->n * LSTM_GATES * j->out);
    j->cell = dti_take_scratch(work, &at, state);
    j->next = back ? dti_take_scratch(work, &at, LSTM_GATES * state) : NULL;
    j->dh = back ? dti_take_scratch(work, &at, state) : NULL;
    return (size_t)at * sizeof(float);
}

static lstm_job lstm_job_of(const dt_call *c)
{
    const dt_lstm *o = (const dt_lstm *)c->node->opts;
    const dt_shape x = dt_graph_shape(c->graph, c->node->in[0]);
    lstm_job j;
    memset(&j, 0, sizeof j);
    j.n = c->n;
    j.steps = x.h * x.w;
    j.in = x.c;
    j.out = o->out;
    j.chunk = dti_ceil_div(LSTM_CHUNK_ROWS, j.n);
    j.chunk = j.chunk < j.steps ? j.chunk : j.steps;
    j.type = c->dtype;
    j.again = c->form == DT_BACKWARD && o->keep == DTI_LSTM_KEEP_CELLS;
    return j;
}

static dt_status lstm_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    lstm_job j = lstm_job_of(c);
    (void)err;
    f->work_bytes = lstm_lay_out(&j, NULL, c->form == DT_BACKWARD);
    return DT_OK;
}

static dt_status lstm_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    const bool back = c->form == DT_BACKWARD, bias = c->node->info.n_param > 2;
    lstm_job j = lstm_job_of(c);
    (void)state;
    DT_ASSERT(a->n == c->n);
    (void)lstm_lay_out(&j, (float *)a->port[DT_WORK], back);
    j.x = a->port[DT_X];
    j.y = a->port[DT_Y];
    j.dy = a->port[DT_DY];
    j.dx = a->port[DT_DX];
    j.ih = (const float *)a->port[DT_P];
    j.hh = (const float *)a->port[DT_P + 1];
    j.dih = (float *)a->port[DT_DP];
    j.dhh = (float *)a->port[DT_DP + 1];
    for (int i = 0; i < 2 && bias; i++) {
        j.bias[i] = (const float *)a->port[DT_P + 2 + i];
        j.dbias[i] = (float *)a->port[DT_DP + 2 + i];
    }
    j.saved = (float *)a->port[DT_S + DTI_LSTM_GATES];
    j.cells = (float *)a->port[DT_S + DTI_LSTM_CELLS];
    return back ? lstm_backward(&j, a->queue, err) : lstm_forward(&j, a->queue, err);
}

DT_CUDA_TABLE(lstm, lstm_facts, NULL, lstm_run, NULL);
