/* For plan_parse*.c only: a plan while its text is read. */
#ifndef DT_MEMORY_PLAN_TEXT_PLAN_PARSE_PARTS_H
#define DT_MEMORY_PLAN_TEXT_PLAN_PARSE_PARTS_H

#include "memory/plan_text/plan_dict.h"

typedef enum dti_section {
    DTI_IN_HEADER,
    DTI_IN_NODES,
    DTI_IN_TENSORS,
    DTI_IN_OPS,
    DTI_IN_ROWS
} dti_section;

typedef struct dti_parser {
    dti_scan s;
    dt_plan *p;
    size_t cap_node, cap_text, cap_tensor, cap_op, cap_arg, cap_row, cap_reason;
    dti_section section;
    dti_dict nodes, tensors, ops;
} dti_parser;

/* A line, or what is left of it behind "tensor" and "op", into the plan. */
dt_status dti_parse_header(dti_parser *x) DT_NODISCARD;
dt_status dti_parse_node(dti_parser *x) DT_NODISCARD;
dt_status dti_parse_tensor(dti_parser *x) DT_NODISCARD;
dt_status dti_parse_op(dti_parser *x) DT_NODISCARD;
dt_status dti_parse_row(dti_parser *x) DT_NODISCARD;

/* Make equal reasons one, numbered in the order in which rows first use them. */
dt_status dti_merge_reasons(dti_parser *x) DT_NODISCARD;

#endif
