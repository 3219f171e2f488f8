/* Inside plan text: the lines of a plan, for printing, parsing and comparing. */
#ifndef DT_MEMORY_PLAN_TEXT_PLAN_TEXT_INTERNAL_H
#define DT_MEMORY_PLAN_TEXT_PLAN_TEXT_INTERNAL_H

#include <stdio.h>

#include "engine/plan.h"

/* A refusal of which every byte is escaped, which is the longest cell. */
enum { DTI_CELL_BYTES = 4 * DT_REFUSAL_BYTES + 16 };
_Static_assert((int)DT_REFUSAL_BYTES >= (int)DT_TENSOR_NAME_BYTES &&
                   (int)DT_REFUSAL_BYTES >= (int)DT_REASON_BYTES,
    "names with #INDEX and reasons are no longer");

#define DTI_VERSION "3" /* of the format */

/* The fields of the header, in their order. */
typedef enum dti_field_kind {
    DTI_TEXT,
    DTI_I64,
    DTI_U64,
    DTI_I32,
    DTI_STREAM_TABLE
} dti_field_kind;
typedef struct dti_field {
    const char *key;
    dti_field_kind kind;
    size_t at, bytes; /* in dt_plan */
} dti_field;
enum { DTI_FIELDS = 18 };
extern const dti_field dti_fields[DTI_FIELDS];
/* Names of ports and forms; a port out of range as ?PORT. */
enum { DTI_PORT_BYTES = 16 };
void dti_port_name(int port, char to[DTI_PORT_BYTES]);
const char *dti_form_name(int form);
const char *dti_stream_kind_name(int kind);
void dti_escape_name(const char *name, char to[DTI_CELL_BYTES]);
void dti_field_text(const dt_plan *p, const dti_field *f, char to[DTI_CELL_BYTES]);

/* Columns of a row. */
enum {
    DTI_ROW,
    DTI_STREAM,
    DTI_KIND,
    DTI_OP,
    DTI_TENSOR,
    DTI_OFF,
    DTI_BYTES,
    DTI_EVENT,
    DTI_OVER,
    DTI_SLOT,
    DTI_REASON,
    DTI_COLUMNS
};
typedef struct dti_cells {
    char text[DTI_COLUMNS][DTI_CELL_BYTES];
} dti_cells;

/* Which columns rows of a kind have: always, or perhaps. */
typedef struct dti_row_rule {
    unsigned needs, may;
} dti_row_rule;
extern const dti_row_rule dti_row_rules[DT_ROW_KINDS];
#define DTI_COLUMN_BIT(c) (1u << (c))

/* A plan and which of its names are not unique. */
typedef struct dti_names {
    const dt_plan *p;
    bool *node_twice, *tensor_twice,
        *op_twice; /* NULL when memory was out: then found by looking at all */
} dti_names;
void dti_names_init(dti_names *n, const dt_plan *p);
void dti_names_deinit(dti_names *n);

void dti_row_cells(const dti_names *n, size_t row, dti_cells *c);

/* Whole lines without the newline; a row's is without its number and padding. */
void dti_refusal_line(const dti_names *n, size_t refusal, FILE *f);
void dti_node_line(const dti_names *n, size_t node, FILE *f);
void dti_tensor_line(const dti_names *n, size_t tensor, FILE *f);
void dti_op_line(const dti_names *n, size_t op, FILE *f);
void dti_row_line(const dti_names *n, size_t row, FILE *f);

/* A text and whose it is, to be sorted by text, then by id. */
typedef struct dti_entry {
    const char *text;
    int32_t id;
} dti_entry;
void dti_sort_entries(dti_entry *v, size_t n);

#endif
