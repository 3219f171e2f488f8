/* What a machine takes for what a plan does: seconds of its ops, how fast bytes move and are
 * packed, and how work done at the same time slows each other. Filled from a measurement
 * (memory/time/cost_file.h), from the constants of a card (memory/time/card_costs.h), or with the
 * defaults. A plan never reads a clock: the same costs give the same plan. */
#ifndef DT_MEMORY_TIME_COSTS_H
#define DT_MEMORY_TIME_COSTS_H

#include "engine/plan.h"
#include "engine/tier.h"
#include "memory/density.h"

typedef enum dt_direction { DT_TO_TIER, DT_FROM_TIER, DT_TIER_DIRECTIONS } dt_direction;

/* Where a number comes from, the best first. */
typedef enum dt_cost_source {
    DT_COST_MEASURED, /* of this op, at this number of samples */
    DT_COST_BETWEEN,  /* between two measured numbers of samples, or beyond them */
    DT_COST_SCALED,   /* of this op at another number of samples, by their floors */
    DT_COST_KIND,     /* the op's floor, times the median of measured ÷ floor of its kind */
    DT_COST_FLOOR,    /* the floor: a card's constants, or the defaults */
    DT_COST_SOURCES
} dt_cost_source;

const char *dt_cost_source_name(int s);

typedef struct dti_cost {
    double seconds;
    dt_cost_source source;
} dti_cost;

/* What decides an op's time but the number of samples: layer, form, type, algorithm, options, and
 * bytes of its parameters and of a sample of its values. Two ops of equal text take equally long.
 * Of ops that belong to no layer it has all bytes, and the number of samples is 0. */
enum { DT_SIGNATURE_BYTES = 320 };
void dt_cost_signature(
    const dt_plan *p, const dt_plan_op *op, char to[DT_SIGNATURE_BYTES], int64_t *samples);

/**
 * struct dt_cost_entry - an op that was measured.
 * @samples: 0: its time does not depend on them
 * @floor:   seconds below which this machine cannot be, from its roof
 * @spread:  (third quartile - first) ÷ median
 */
typedef struct dt_cost_entry {
    char *signature;
    int64_t samples;
    double seconds, spread, floor;
} dt_cost_entry;

/* For qsort and bsearch of such entries: by signature, then by samples. */
int dt_cost_order(const void *a, const void *b);

/* Moving so many bytes takes latency + bytes ÷ rate. */
typedef struct dt_link {
    double latency, rate;
} dt_link;

/* Values of a density, packed and unpacked: raw bytes a second. @across: the packed bytes lie
 * behind the link to the host, where copies of a device have them; else beside the values. */
typedef struct dt_codec_rate {
    char codec[16];
    double density, pack, unpack;
    bool across;
} dt_codec_rate;

/* The median of measured ÷ floor over a layer's form; form DT_FORMS: over all of the layer. */
typedef struct dt_kind_ratio {
    char layer[DT_LAYER_NAME_BYTES];
    uint8_t form;
    double ratio;
} dt_kind_ratio;

/**
 * struct dt_costs - a machine.
 * @name:      of the machine or card, for reports
 * @hash:      SHA-256 of what it was read from; "" otherwise
 * @simulated: of a machine that is not here
 * @entry:     sorted by signature and samples
 * @flops @bytes: the roof: operations a second by kind and type, bytes a second of the memory
 * @host:      bytes a second of the host's memory, where its processor computes beside a device
 * @launch:    seconds every op takes at least
 * @slower:    what an op loses by an algorithm that the workspace limits, as a share of its time
 * @link @thread_link: by tier and direction, the whole team copying or a stream's own thread; that
 * of the input tier is the decoded batch
 * @codec @rate: raw bytes a second of codecs that are not in the table; and of those that are,
 * sorted by codec and density
 * @slow:      by stream and other stream: how many times as long a row takes while the other works
 * @wake:      seconds after an event until a stream that waits for it goes on
 * @rest:      seconds of a step that are no row's
 * @scale:     ops take so many times as long, but for packing, which goes by @codec and @rate:
 *             calibrated; 1 otherwise
 */
typedef struct dt_costs {
    char name[128], hash[DT_SHA256_TEXT];
    bool simulated;
    size_t n_entry, cap_entry;
    dt_cost_entry *entry;
    size_t n_kind;
    dt_kind_ratio *kind;
    double flops[DT_WORKS][DT_DTYPES], bytes, host, launch, slower, codec;
    dt_link link[DT_TIERS][DT_TIER_DIRECTIONS], thread_link[DT_TIERS][DT_TIER_DIRECTIONS];
    size_t n_rate, cap_rate;
    dt_codec_rate *rate;
    double slow[DT_USUAL_STREAMS][DT_USUAL_STREAMS];
    double wake, rest, scale;
} dt_costs;

/* Where nothing was measured: 200 GFLOP/s, half as long again by the algorithms of fewest bytes,
 * 8 GB/s to the host, 1.6 to a disk, and 5 through a codec. Good for an order, not for seconds. */
extern const dt_costs dt_costs_default;

/* Whether they are of a profile or a card: by defaults, only the order of times counts. */
bool dt_costs_known(const dt_costs *c);
/* Whose seconds they give: "measured" of a profile, "simulated" of a card, "defaults". */
const char *dt_costs_word(const dt_costs *c);
/* The same in a sentence, of what they say a plan takes: "predicted" or "simulated"; where nothing
 * was measured it stands beside a word of that. */
const char *dt_costs_said(const dt_costs *c);

void dt_costs_deinit(dt_costs *c);

/* Add to a sum all that copies, codecs and streams take; and, by the sum of the file that they were
 * read from, what ops take. */
void dti_costs_sum(const dt_costs *c, dt_sha256 *sum);

/* Add what was measured; the entry's text is copied. Sealing sorts, and finds the ratios of kinds:
 * before it nothing is to be asked. Of two equal entries the fastest is kept. DT_E_NOMEM. */
dt_status dt_costs_add(dt_costs *c, const dt_cost_entry *e, dt_err *err) DT_NODISCARD;
dt_status dt_costs_add_rate(dt_costs *c, const dt_codec_rate *r, dt_err *err) DT_NODISCARD;
dt_status dt_costs_seal(dt_costs *c, dt_err *err) DT_NODISCARD;

/* Take over the ops of @older that @to, which is sealed, has not at the same number of samples; and
 * what is known of the disk, if @to knows only defaults. DT_E_NOMEM. */
dt_status dt_costs_merge(dt_costs *to, const dt_costs *older, dt_err *err) DT_NODISCARD;

/* Seconds of a compute row, and the least that the roof allows. @p: whose table has the op. */
dti_cost dti_costs_op(const dt_costs *c, const dt_plan *p, const dt_plan_op *op);
/* No more than it takes in pieces of whatever numbers of samples, or whole: by several measured
 * numbers of them pieces may take less. */
double dti_costs_op_in_pieces(const dt_costs *c, const dt_plan *p, const dt_plan_op *op);
double dt_costs_floor(const dt_costs *c, const dt_plan *p, const dt_plan_op *op);

/* Seconds of a copy row, packing included; @density: of the values, if their codec goes by it;
 * @team: the whole team makes it. */
double dti_costs_copy(const dt_costs *c, const dt_row *r, double density, bool team);

/* How far n predictions are off, as a share of what the mean of what was measured would be: 0 where
 * they are exact, 1 where the mean is as good (the relative absolute error of CSWAP, Chen et al.
 * 2021, section IV-C). Infinity where all was measured alike, and nothing was predicted so. */
double dt_relative_absolute_error(const double *predicted, const double *measured, size_t n);

/* Bytes a second of values that a codec packs (or unpacks) at a density. */
double dt_costs_rate(const dt_costs *c, const char *codec, double density, bool pack);

/* Whether a link is other than the default, which stands in for those that nobody measured. */
bool dti_costs_has_link(const dt_costs *c, int tier, int direction, bool team);

/* Seconds to move bytes. */
static inline double dti_link_seconds(const dt_link *l, double bytes)
{
    return l->latency + bytes / l->rate;
}

#endif
