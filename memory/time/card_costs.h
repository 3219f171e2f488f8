/* What cards do in a second, where none can be measured: predictions for them are simulations. */
#ifndef DT_MEMORY_TIME_CARD_COSTS_H
#define DT_MEMORY_TIME_CARD_COSTS_H

#include "memory/time/costs.h"

/**
 * struct dt_card_speed - what training reaches on a card.
 * @name @title: as in the configuration; as NVIDIA calls it
 * @mib:         memory
 * @conv @pointwise @depthwise @small: 10^12 operations a second of convolutions in fp32: by the
 *               fastest algorithms; by these with kernels of one pixel; of one channel each; and by
 *               those with the least scratch
 * @matrix:      of products of matrices in fp32
 * @half:        of the fastest convolutions in the 16-bit type that its tensor cores multiply; the
 *               others gain by as much, but for those of one channel each; 0: as in fp32
 * @tf32:        the same of products in TF32, where that is faster than fp32; 0: it has none
 * @memory:      10^9 bytes a second of its memory
 * @out @in:     10^9 bytes a second to and from the host's pinned memory
 * @source:      where the numbers are from
 * @disk_out @disk_in: 10^9 bytes a second to and from the machine's disk; 0: one drive's of 1.6
 */
typedef struct dt_card_speed {
    const char *name, *title;
    int64_t mib;
    double conv, pointwise, depthwise, small, matrix, half, tf32, memory, out, in;
    const char *source;
    double disk_out, disk_in;
} dt_card_speed;

const dt_card_speed *dt_card_speed_all(size_t *n);
const dt_card_speed *dt_card_speed_find(const char *name); /* NULL when there is none */
const char *const *dt_card_speed_names(void);              /* NULL-terminated, for dt_unknown */

/* What a data sheet says: peak 10^12 operations a second in fp32 and, with sums in fp32, in 16
 * bits; peak 10^9 bytes a second of its memory and its link; and those of a disk. 0: it does not
 * say. */
typedef struct dt_card_sheet {
    double fp32, half, memory, link, disk_out, disk_in;
} dt_card_sheet;

/* Have a card reach of what a data sheet says the shares that the table's cards do: in 16 bits no
 * less than in fp32 unless the sheet says less, and in TF32, which the sheet does not say, half of
 * what it has in 16 bits, as of all cards from Ampere on. */
void dt_card_take_sheet(dt_card_speed *to, const dt_card_sheet *sheet);

/* Have it multiply fp32 as TF32 where it can. */
void dt_card_take_tf32(dt_card_speed *to);

/* The costs of a machine with this card. Release with dt_costs_deinit. */
void dt_costs_of_card(dt_costs *out, const dt_card_speed *card);

#endif
