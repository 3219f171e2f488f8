/* Weights in safetensors files, under PyTorch's names ("layer1.0.conv1.weight") and in PyTorch's
 * layouts, fp32. A network's weights are all of its parameters and running statistics; gradients
 * exist for its parameters only.
 *
 * PyTorch's batch norm also counts its batches (NAME.num_batches_tracked, int64). Nothing here
 * needs that count: it is ignored in files and never written; PyTorch fills it in when it loads a
 * state without it.
 */
#ifndef DT_ENGINE_CHECKPOINT_WEIGHTS_H
#define DT_ENGINE_CHECKPOINT_WEIGHTS_H

#include "engine/runner/runner.h"
#include "engine/base/sha256.h"

/* Whether a file holds exactly the weights of a network: the same names, shapes and F32, all values
 * finite. Of a layer in tiles it may hold the whole ("wte.weight") instead of them
 * ("wte.0.weight"). Otherwise DT_E_DATA with a table of what differs and what may help, or with
 * tensor and index of the first value that is not finite. Reads the whole file, a piece at a time.
 *
 * @fresh: globs, with commas between them, of weights that are not asked of the file, and are left
 * as they are; NULL: none.
 */
dt_status dt_weights_check(
    const dt_graph *g, const char *path, const char *fresh, dt_err *err) DT_NODISCARD;

/* DT_E_CONFIG for a glob of @fresh that no weight has. */
dt_status dt_weights_check_fresh(const dt_graph *g, const char *fresh, dt_err *err) DT_NODISCARD;

/* Whether @fresh has all that goes by the numbers of classes and tokens: the last weight with a
 * side of as many values as there are classes, and every embedding. Then these may mean anything.
 */
bool dt_weights_name_anew(const dt_graph *g, const char *fresh);

/* Check a file as above, then put its weights where the runner has them. Nothing has changed after
 * an error, but for one case: a file that breaks or changes between the check and the second read.
 */
dt_status dt_weights_load(dt_runner *r, const dt_graph *g, const dt_map *m, const char *path,
    const char *fresh, dt_err *err) DT_NODISCARD;

/* The same for a file whose every byte has been looked at before, as a checkpoint's: names, shapes
 * and types first, and values only on their way. */
dt_status dti_weights_check_names(const dt_graph *g, const char *path, dt_err *err) DT_NODISCARD;
dt_status dti_weights_load_verified(
    dt_runner *r, const dt_graph *g, const dt_map *m, const char *path, dt_err *err) DT_NODISCARD;

/* Write all weights, in the network's order: the bytes of the file depend on nothing but them. The
 * file appears whole or not at all (see dt_st_write). Values are written as they are, finite or
 * not. They are brought into PyTorch's layout piece by piece (see dti_passage). */
dt_status dt_weights_save(
    dt_runner *r, const dt_graph *g, const dt_map *m, const char *path, dt_err *err) DT_NODISCARD;
/* Before that: DT_E_CONFIG when a file could not list all weights. */
dt_status dti_weights_check(const char *path, const dt_graph *g, dt_err *err) DT_NODISCARD;
/* The same as saving, and add all bytes of the file to @sum on their way. */
dt_status dti_weights_save_sum(dt_runner *r, const dt_graph *g, const dt_map *m, const char *path,
    dt_sha256 *sum, dt_err *err) DT_NODISCARD;

/* The same with the gradients of the parameters, under the parameters' names. */
dt_status dt_gradients_save(
    dt_runner *r, const dt_graph *g, const dt_map *m, const char *path, dt_err *err) DT_NODISCARD;

/* ---- one in memory ---- */

enum { DT_WEIGHT_NAME_BYTES = 2 * DT_NAME_BYTES };

/* A weight: what it is called and is, and whether steps change it by a gradient. */
typedef struct dt_weight_place {
    char name[DT_WEIGHT_NAME_BYTES];
    const dt_param_info *info;
    bool trained;
} dt_weight_place;

/* The @i-th weight of a network, from 0. False: there are no more. */
bool dt_weight_at(const dt_graph *g, size_t i, dt_weight_place *to);

/* All @count values of the weight with that name, in PyTorch's layout. DT_E_CONFIG for a name or a
 * count that is not the network's. */
dt_status dt_weight_read(dt_runner *r, const dt_graph *g, const dt_map *m, const char *name,
    float *to, size_t count, dt_err *err) DT_NODISCARD;

/* The other way. DT_E_DATA for a value that is not finite. *begun: some of the weight has been
 * written, which after a failure is not whole. */
dt_status dt_weight_write(dt_runner *r, const dt_graph *g, const dt_map *m, const char *name,
    const float *from, size_t count, bool *begun, dt_err *err) DT_NODISCARD;

/* ---- for the other files of checkpoints ---- */

/* @whole: of a tile, "wte.3.weight": the name that the whole has, "wte.weight", of which a file may
 * hold it; else "" */
typedef struct dti_weight {
    char name[DT_WEIGHT_NAME_BYTES]; /* NODE.PARAM */
    char whole[DT_WEIGHT_NAME_BYTES];
    dt_part part;
    const dt_param_info *info; /* the graph's */
    int32_t node;
    int param;
} dti_weight;

typedef struct dti_weights {
    size_t n;
    dti_weight *row; /* in the order of nodes, then parameters */
} dti_weights;

/* @all: what is not trained too, running statistics and frozen layers. DT_E_NOMEM. */
dt_status dti_weights_init(dti_weights *w, const dt_graph *g, bool all, dt_err *err) DT_NODISCARD;
void dti_weights_deinit(dti_weights *w);

#endif
