/* The life of a value drawn over the ops of its plan, in a line of text. */
#ifndef DT_TOOLS_VALUE_DRAW_H
#define DT_TOOLS_VALUE_DRAW_H

#include "tools/plan_value.h"

/* What stands above such lines: where backward begins; and below them: what the marks mean.
 * @left: columns before the drawing, for names. */
void dti_value_draw_head(const dti_value_view *w, int left);
void dti_value_draw_legend(int left);

/* A line for the value that is looked at, under the name of its tensor. */
void dti_value_draw(const dti_value_view *w, int left);

#endif
