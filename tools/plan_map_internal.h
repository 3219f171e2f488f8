/* Inside the picture of a plan: how its parts call each other. */
#ifndef DT_TOOLS_PLAN_MAP_INTERNAL_H
#define DT_TOOLS_PLAN_MAP_INTERNAL_H

#include "memory/usage.h"
#include "tools/plan_map.h"

/* In pixels. */
enum { DTI_MAP_WIDTH = 1000, DTI_MAP_LEFT = 84, DTI_MAP_RIGHT = 16, DTI_MAP_TALL = 400 };
enum { DTI_MAP_LANE = 12, DTI_MAP_COPIES = 26, DTI_MAP_GAP = 6, DTI_MAP_LINE = 15 };
#define DTI_MAP_LETTER 5.8 /* how wide a letter is at 11 pixels, roughly */

/* A row of a lane, and the ops before it. */
typedef struct dti_map_mark {
    size_t row;
    int64_t now;
    uint64_t bytes;
} dti_map_mark;

/**
 * struct dti_map - a plan that is being drawn.
 * @page:   boxes bear numbers in place of names
 * @top:    where its addresses begin; @tall: how far they go
 * @scale:  so many bytes are @tall
 * @ops @turn @peak: ops in all, before backward (all, without one) and before the peak (-1: none)
 * @largest: bytes of a copy
 * @budget: 0: none
 * @since @off: by tensor, at which op and where it was placed; -1: it is not
 * @mark:   room for all rows
 */
typedef struct dti_map {
    const dt_plan *p;
    FILE *f;
    bool page;
    double top, tall;
    uint64_t scale, largest, budget;
    int64_t ops, turn, peak;
    int64_t *since;
    uint64_t *off;
    dti_map_mark *mark;
} dti_map;

static inline double dti_map_across(const dti_map *m, double op)
{
    return DTI_MAP_LEFT + (DTI_MAP_WIDTH - DTI_MAP_LEFT - DTI_MAP_RIGHT) * op / (double)m->ops;
}

static inline double dti_map_up(const dti_map *m, double address)
{
    return m->top + m->tall * (1 - address / (double)m->scale);
}

static inline bool dti_map_is_copy(const dt_row *r)
{
    return r->kind == DT_ROW_COPY_OUT || r->kind == DT_ROW_COPY_IN;
}

/* An attribute, without zeros at its end. */
void dti_map_number(FILE *f, const char *name, double v, int digits);

/* A rectangle of a class (NULL: that of its group) begins: what it is follows, then dti_map_end. In
 * a page it is number @i of a table, which is all of it. False: nothing is to follow. */
bool dti_map_begin(
    const dti_map *m, const char *class, double x, double y, double w, double h, int64_t i);
/* The same in a lane of DTI_MAP_LANE pixels, which begins at @y: in a page the rules of the class
 * "lane" say how tall it is, and it begins at 0. */
bool dti_map_begin_in_lane(FILE *f, bool page, double x, double y, double w, int64_t i);
/* What is in a lane from @y on, and goes by ops or by seconds, in a frame that clips it. */
void dti_map_lane(FILE *f, bool page, double y, double tall);
void dti_map_lane_end(FILE *f);
void dti_map_end(const dti_map *m);

/* Below the addresses: stages of the network, the ops, and a lane for each stream that copies, in
 * which a copy is as tall as it has bytes. How tall all of it is. */
double dti_map_lanes_tall(const dti_map *m);
void dti_map_lanes(const dti_map *m, double y);

/* The lanes in seconds, waits in red. */
double dti_map_time_tall(const dt_plan_picture *v);
void dti_map_time(const dt_plan_picture *v, bool page, FILE *f, double y);

/* "ops", "to host" */
void dti_map_lane_name(const dt_plan *p, int stream, FILE *f);

#endif
