/* Whether a tensor that is swapped is packed on its way (CSWAP, Chen et al., CLUSTER 2021,
 * equations 1 to 4). */
#ifndef DT_MEMORY_POLICIES_CSWAP_GAIN_H
#define DT_MEMORY_POLICIES_CSWAP_GAIN_H

/**
 * struct dti_swap_times - a tensor's swap, in seconds.
 * @out @in:   of the copies as it is
 * @packed_out @packed_in: of the copies as it is packed
 * @pack @unpack: of its codec
 * @hidden_out @hidden_in: of the ops beside which the copies are made
 */
typedef struct dti_swap_times {
    double out, in, packed_out, packed_in, pack, unpack, hidden_out, hidden_in;
} dti_swap_times;

/* Seconds by which a step is shorter if the tensor is packed: what its copies are longer than the
 * ops beside them, as it is, less the same of it packed and all of the codec's time, which nothing
 * hides. Above 0: it is packed. */
double dti_swap_gain(const dti_swap_times *s);

#endif
