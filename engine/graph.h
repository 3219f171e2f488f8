/* The network as its author wrote it: layers and the values between them. Value i is the output of
 * node i; value DT_GRAPH_INPUT is the image. Nodes are in topological order by construction. */
#ifndef DT_ENGINE_GRAPH_H
#define DT_ENGINE_GRAPH_H

#include "engine/base/names.h"
#include "engine/dtype.h"
#include "engine/layer.h"

enum { DT_GRAPH_INPUT = -1, DT_SHARES_NONE = -1, DT_NAME_BYTES = 96 };

/* Outputs [first, first + its own) of the @of that the whole layer has; of = 0: it is whole. */
typedef struct dt_part {
    int64_t first, of;
} dt_part;

typedef struct dt_node {
    const dt_layer_desc *desc;
    char name[DT_NAME_BYTES]; /* PyTorch's module path, "layer1.0.conv1" */
    char with[DT_NAME_BYTES]; /* of the layer fused into it, else "" */
    int32_t key;              /* of its random numbers; fusing nodes does not change it */
    dt_part part;             /* of a layer that is cut into tiles */
    void *opts;               /* desc->opts_bytes of them, owned */
    char *opts_text;          /* as an INI file would say them, "key=value key=value", owned */
    int n_in;
    int32_t in[DT_MAX_IN]; /* producing node, or DT_GRAPH_INPUT */
    bool frozen;           /* stays as it is, and computes as in an evaluation */
    float rate;            /* what its learning rate is multiplied by; 0: nothing */
    int32_t shares;        /* node whose parameter 0 stands in for its own, or DT_SHARES_NONE */
    dt_layer_info info;
} dt_node;

typedef struct dt_graph {
    char name[DT_NAME_BYTES];
    dt_shape input; /* n = 1 */
    dt_dtype dtype; /* of values and their gradients; fp32 until it is set, before any plan */
    int64_t classes;
    int32_t next_key;
    size_t n_node, cap;
    dt_node *node;
    dt_names names;
} dt_graph;

/* A network without layers, called @name, which is copied; @input: of a sample, n = 1. DT_E_CONFIG
 * for a name that is none or too long, an input that is empty or too large, and less than one
 * class; DT_E_NOMEM. Whoever made it destroys it, with the layers that were added; plans and
 * runners of it borrow it. */
dt_status dt_graph_create(
    dt_graph **out, const char *name, dt_shape input, int64_t classes, dt_err *err) DT_NODISCARD;
void dt_graph_destroy(dt_graph *g);

/* Whether a layer that is not frozen normalises over the batch in training, so that smaller parts
 * of one give other results. */
bool dt_graph_batch_statistics(const dt_graph *g);

/**
 * dt_graph_add() - append a layer.
 * @opts: struct of the layer's options, copied; NULL: all defaults
 * @in:   nodes (or DT_GRAPH_INPUT) whose values it takes
 * @id:   out: the new node
 *
 * DT_E_CONFIG, naming the layer and its input shapes, when they do not fit or a size overflows.
 */
dt_status dt_graph_add(dt_graph *g, const dt_layer_desc *desc, const char *name, const void *opts,
    const int32_t *in, int n_in, int32_t *id, dt_err *err) DT_NODISCARD;

/**
 * dt_graph_join() - let a layer that is written as several nodes be one.
 * @node: the node appended last
 * @with: the first one of that layer
 * @part: which of the outputs @node makes, {0} if it is no tile
 *
 * They draw random numbers as one node does, so that the first values of tiles are those of the
 * whole, and layers behind them draw what they would behind the whole.
 */
void dt_graph_join(dt_graph *g, int32_t node, int32_t with, dt_part part);

static inline float dti_node_rate(const dt_node *nd)
{
    return nd->rate > 0 ? nd->rate : 1;
}

/* The node whose parameter 0 a node has: its own, or that of the one it shares with. */
static inline int32_t dti_graph_owner(const dt_graph *g, int32_t node)
{
    const int32_t shares = g->node[node].shares;
    return shares == DT_SHARES_NONE ? node : shares;
}
/* By node: the last of those that share its parameter, or DT_SHARES_NONE, and how many these are
 * (NULL: nobody asks). */
void dti_graph_sharing(const dt_graph *g, int32_t *last, int32_t *n);

dt_shape dt_graph_shape(const dt_graph *g, int32_t value);      /* n = 1 */
size_t dti_graph_value_bytes(const dt_graph *g, int32_t value); /* n = 1 */
/* Type of a value and of its gradient. */
dt_dtype dt_graph_dtype(const dt_graph *g, int32_t value);
/* Type of the input: that of values, or fp32 where a layer reads ids. */
dt_dtype dti_graph_input_dtype(const dt_graph *g);
/* Tokens of one sample, where a layer reads the input as ids; otherwise 0. */
int64_t dt_graph_tokens(const dt_graph *g);
/* How many tokens all layers that read the input as ids know: 0 to one less; 0: none reads it. */
int64_t dt_graph_vocabulary(const dt_graph *g);
/* Scores of some classes: of @n from class @first on. */
typedef struct dt_scores {
    int32_t value;
    int64_t first, n;
} dt_scores;

/* The next scores behind node *at, which is 0 to begin with; false: there are no more. One value of
 * all classes, or, where the output layer is cut into tiles, one a tile. */
bool dt_graph_scores(const dt_graph *g, size_t *at, dt_scores *s);
/* Rows of scores of one sample: as many as these have positions. */
int64_t dt_graph_score_rows(const dt_graph *g);
/* What labels are, and how many one sample has: one a row of scores, or where they are values one
 * for each element of that. */
dt_label_kind dt_graph_label_kind(const dt_graph *g);
int64_t dt_graph_labels(const dt_graph *g);
/* What the loss reads, n = 1; of an output layer in tiles the first one's scores. */
dt_shape dt_graph_output(const dt_graph *g);
/* Classes whose pixels evaluation counts, for scores of a shape and for a whole graph; 0: labels
 * are not of pixels. */
static inline int64_t dt_counted_classes(dt_shape scores)
{
    return scores.w > 1 ? scores.c : 0;
}
int64_t dt_graph_counted(const dt_graph *g);
int32_t dt_graph_find(
    const dt_graph *g, const char *name); /* DT_GRAPH_INPUT - 1 if there is none */

/* The value whose bytes these are, behind identity layers. */
int32_t dt_graph_behind(const dt_graph *g, int32_t value);
/* How many parameters a node uses, a shared one included. */
static inline int dti_graph_params(const dt_node *nd)
{
    return nd->shares == DT_SHARES_NONE ? nd->info.n_param : 1;
}
/* Whether the parameters that a node uses stay as they are: those of the node that has them. */
bool dti_graph_kept(const dt_graph *g, int32_t node);
/* Whether it is a convolution, transposed or not: its weight has the height and width of a kernel.
 */
static inline bool dt_graph_convolves(const dt_node *nd)
{
    return nd->info.n_param > 0 && nd->info.param[0].rank == 4;
}
/* By node: whether something before it is trained, and whether that or the node itself is. */
void dti_graph_trained(const dt_graph *g, bool *before, bool *trained);

/* Trained parameters only, in elements: torchvision's count. */
int64_t dt_graph_parameters(const dt_graph *g);
int64_t dt_param_count(const dt_param_info *p);
/* Place in the whole parameter of element @at of a tile's; *run: how many follow it in both. */
int64_t dti_part_place(const dt_param_info *p, dt_part part, int64_t at, int64_t *run);

/* Checks what only the whole network shows: exactly one loss, last; every value read; class count;
 * an input of ids that no layer takes for values of bf16. */
dt_status dt_graph_check(const dt_graph *g, dt_err *err) DT_NODISCARD;
/* Part of it: that what is fp32 whatever the type of values goes to ports that want that. */
dt_status dt_graph_check_types(const dt_graph *g, dt_err *err) DT_NODISCARD;

#endif
