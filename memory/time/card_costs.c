/* A table of cards. Where a paper's own rows without any saving tell what convolutions reach, that
 * is the number; else it is a share of the data sheet's peak: 0.75 of it for the fastest
 * convolutions and 0.33 for those without scratch, 0.8 for products of matrices, 0.5 for
 * convolutions on tensor cores and for the others by as much more or less as in fp32, 0.75 of the
 * memory's rate and 0.8 of the link's; cards.def says which older rows have other shares.
 *
 * Convolutions of one channel each reach 0.0044 of the peak, by MobileNet's 163 images a second on
 * a Titan X with kernels made for them (Apache MXNet, pull request 7393; 167 by this table): they
 * wait for loads, which neither more arithmetic nor tensor cores hasten. Of one pixel the Titan Xp
 * has the Titan X's share of what its fastest reach; of the other cards no number was found, and
 * they reach there what others do. */
#include "memory/time/card_costs.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/numbers.h"

#define CONV 0.75
#define DEPTHWISE 0.0044
#define SMALL 0.33
#define MATRIX 0.8
#define HALF 0.5
#define MEMORY 0.75
#define LINK 0.8

/* A row from a data sheet: peak 10^12 operations a second in fp32, of tensor cores with fp32 sums
 * in 16 bits and in TF32, without sparsity, and peak 10^9 bytes a second of the memory and the
 * link. */
#define SHEET(name, title, mib, peak, half, tf32, memory, link)                                    \
    {                                                                                              \
        name, title, mib, CONV *(peak), CONV *(peak), DEPTHWISE *(peak), SMALL *(peak),            \
            MATRIX *(peak), HALF *(half), HALF *(tf32), MEMORY *(memory), LINK *(link),            \
            LINK *(link), "data sheet", 0, 0                                                       \
    }

#define DT_CARD_SPEED(...) {__VA_ARGS__},
#define DT_CARD_SHEET(...) SHEET(__VA_ARGS__),
static const dt_card_speed cards[] = {
#include "memory/time/cards.def"
};
#undef DT_CARD_SPEED
#undef DT_CARD_SHEET

#define DT_CARD_SPEED(name, ...) name,
#define DT_CARD_SHEET(name, ...) name,
static const char *const names[] = {
#include "memory/time/cards.def"
    NULL};
#undef DT_CARD_SPEED
#undef DT_CARD_SHEET

const dt_card_speed *dt_card_speed_all(size_t *n)
{
    *n = DT_COUNT(cards);
    return cards;
}

const dt_card_speed *dt_card_speed_find(const char *name)
{
    for (size_t i = 0; i < DT_COUNT(cards); i++)
        if (strcmp(cards[i].name, name) == 0)
            return &cards[i];
    return NULL;
}

const char *const *dt_card_speed_names(void)
{
    return names;
}

/* Arithmetic is of one kind of card: where fp32 is given, so is the rest of it. */
static void take_arithmetic(dt_card_speed *to, const dt_card_sheet *sheet)
{
    if (sheet->fp32 > 0) {
        to->conv = to->pointwise = CONV * sheet->fp32;
        to->depthwise = DEPTHWISE * sheet->fp32;
        to->small = SMALL * sheet->fp32;
        to->matrix = MATRIX * sheet->fp32;
        to->half = to->tf32 = 0;
    }
    if (sheet->half > 0) {
        to->half = HALF * sheet->half;
        to->tf32 = to->half / 2;
        if (CONV * sheet->half >= to->conv)
            to->half = dt_max_f64(to->half, to->conv);
    }
}

void dt_card_take_sheet(dt_card_speed *to, const dt_card_sheet *sheet)
{
    take_arithmetic(to, sheet);
    if (sheet->memory > 0)
        to->memory = MEMORY * sheet->memory;
    if (sheet->link > 0)
        to->out = to->in = LINK * sheet->link;
    if (sheet->disk_out > 0)
        to->disk_out = sheet->disk_out;
    if (sheet->disk_in > 0)
        to->disk_in = sheet->disk_in;
}

/* Products of single channels go without tensor cores. */
void dt_card_take_tf32(dt_card_speed *to)
{
    const double times = dt_max_f64(1, to->tf32 / to->conv);
    to->conv *= times;
    to->pointwise *= times;
    to->small *= times;
    to->matrix *= times;
}

/* A link's first byte takes this long, and so does an op: what a launch costs. */
static const double latency = 1e-5, launch = 5e-6;

/* Of the machine around it, whose processor may make updates: ZeRO-Offload (ATC 2021) has its Adam
 * take 0.51 s for 2 billion parameters and 2.57 for 10, so 109 GB/s of 28 bytes each; the two
 * seconds are quoted, and were not checked against the paper. */
static const double host_memory = 1.09e11;

static dt_link disk_link(double rate)
{
    return (dt_link){1e-4, rate > 0 ? rate * 1e9 : 1.6e9};
}

void dt_costs_of_card(dt_costs *out, const dt_card_speed *card)
{
    const double fp32[DT_WORKS] = {[DT_WORK_MATRIX] = card->matrix,
        [DT_WORK_CONV] = card->conv,
        [DT_WORK_CONV_POINTWISE] = card->pointwise,
        [DT_WORK_CONV_DEPTHWISE] = card->depthwise,
        [DT_WORK_CONV_SMALL] = card->small};
    *out = dt_costs_default;
    snprintf(out->name, sizeof out->name, "%s", card->title);
    out->simulated = true;
    for (int w = 0; w < DT_WORKS; w++) {
        const bool faster = card->half > 0 && w != DT_WORK_CONV_DEPTHWISE;
        out->flops[w][DT_F32] = fp32[w] * 1e12;
        out->flops[w][DT_BF16] = (faster ? card->half * fp32[w] / card->conv : fp32[w]) * 1e12;
    }
    out->bytes = card->memory * 1e9;
    out->host = host_memory;
    out->launch = launch;
    out->codec = out->bytes / 2; /* read and written once: cDMA packs on the way to the link */
    out->link[DT_TIER_HOST][DT_TO_TIER] = (dt_link){latency, card->out * 1e9};
    out->link[DT_TIER_HOST][DT_FROM_TIER] = (dt_link){latency, card->in * 1e9};
    out->link[DT_TIER_INPUT][DT_FROM_TIER] = out->link[DT_TIER_HOST][DT_FROM_TIER];
    out->link[DT_TIER_DISK][DT_TO_TIER] = disk_link(card->disk_out);
    out->link[DT_TIER_DISK][DT_FROM_TIER] = disk_link(card->disk_in);
    memcpy(out->thread_link, out->link, sizeof out->link);
}
