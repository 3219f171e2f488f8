/* For ini*.c only: layers as the file writes them. */
#ifndef DT_MODELS_INI_PARTS_H
#define DT_MODELS_INI_PARTS_H

#include "models/ini.h"

typedef struct dti_ini_layer {
    dt_section s;
    char at[256]; /* "FILE:LINE: [KIND NAME]", how every message begins */
    const dt_layer_desc *desc;
    void *opts;
    int n_in;
    int32_t in[DT_MAX_IN]; /* layers above, or DT_GRAPH_INPUT */
    int32_t shares;        /* layer above whose weight it uses, or DT_SHARES_NONE */
    bool read;             /* by a layer below */
} dti_ini_layer;

typedef struct dti_ini_net {
    dt_config *c;
    size_t n;
    dti_ini_layer *layer;
    dt_err *err;
    dt_status status; /* of the first error */
} dti_ini_net;

/* Remember the first error; and say what is wrong with the file, and go on. */
void dti_ini_note(dti_ini_net *t, dt_status st);
#define DTI_INI_WRONG(t, ...) dti_ini_note((t), DT_FAIL((t)->err, DT_E_CONFIG, __VA_ARGS__))

/* The layer of this name, or t->n. */
size_t dti_ini_find(const dti_ini_net *t, const char *name);

/* Where a key of a layer stands, or the layer itself. */
void dti_ini_key_place(
    const dti_ini_net *t, char *to, size_t bytes, const dti_ini_layer *l, const char *key);

/* ini_wire.c: the inputs of layer i, and the owner of its weight. */
void dti_ini_wire(dti_ini_net *t, size_t i);

/* ini_graph.c: *g belongs to the caller after a failure too. */
dt_status dti_ini_graph(const dti_ini_net *t, const dt_model_opts *o, dt_graph **g) DT_NODISCARD;

#endif
