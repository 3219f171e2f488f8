/* What a plan's picture is made of: boxes, and lanes in which they lie. In a page boxes bear the
 * number of their tensor or op in place of a name, and its script knows the rest. */
#ifndef DT_TOOLS_PLAN_MAP_BOX_H
#define DT_TOOLS_PLAN_MAP_BOX_H

#include <stdio.h>

#include "engine/plan.h"
#include "memory/time/simulate.h"

/* A plan to be drawn, which must be verified; borrowed. @time: its rows as predicted; @measured: as
 * they were traced; both may be NULL, and rows that have no duration are left out. @budget: bytes
 * that the device may use; 0: any. @costs: those that @time is by; NULL where it is. */
typedef struct dti_plan_picture {
    const dt_plan *plan;
    const dt_timeline *time, *measured;
    uint64_t budget;
    const dt_costs *costs;
} dti_plan_picture;

/* In pixels. */
enum { DTI_MAP_WIDTH = 1000, DTI_MAP_LEFT = 84, DTI_MAP_RIGHT = 16, DTI_MAP_TALL = 400 };
enum { DTI_MAP_LANE = 12, DTI_MAP_COPIES = 26, DTI_MAP_GAP = 6, DTI_MAP_LINE = 15 };
#define DTI_MAP_LETTER 5.8 /* how wide a letter is at 11 pixels, roughly */
#define DTI_MAP_LARGER 1.7 /* so many times as large in a page whose window is narrow */

/* How wide @n bytes of a name are: short ones have much of letters that are narrow, so that a mean
 * over all letters does not tell whether they fit. In pixels of DejaVu Sans, which is wide. */
double dti_map_wide(const char *name, size_t n);

/* A rectangle of a class (NULL: that of its group) begins: what it is follows, then dti_map_end. In
 * a page it is number @i of a table, which is all of it. False: nothing is to follow. */
bool dti_map_begin(
    FILE *f, bool page, const char *class, double x, double y, double w, double h, int64_t i);
/* The same in a lane of DTI_MAP_LANE pixels, which begins at @y: in a page the rules of the class
 * "lane" say how tall it is, and it begins at 0. @more: attributes for the page's script; "" */
bool dti_map_begin_in_lane(
    FILE *f, bool page, double x, double y, double w, int64_t i, const char *more);
void dti_map_end(FILE *f);

/* What is in a lane from @y on, and goes by ops or by seconds, in a frame that clips it. */
void dti_map_lane(FILE *f, bool page, double y, double tall);
void dti_map_lane_end(FILE *f);
/* Whether a stream runs ops, as the host's does beside a card where that updates; others copy. */
static inline bool dti_map_of_ops(const dt_plan *p, int stream)
{
    return p->stream[stream].kind == DT_STREAM_COMPUTE;
}

/* "ops", "ops, host", "to host" */
void dti_map_lane_name(const dt_plan *p, int stream, FILE *f);

#endif
