/* FlashNeuron's choice of what goes to the disk (Bae et al., FAST 2021, section 3.2 and figure 6),
 * in numbers alone. */
#ifndef DT_MEMORY_POLICIES_FLASHNEURON_SELECT_H
#define DT_MEMORY_POLICIES_FLASHNEURON_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * struct dti_flash_value - a value that forward leaves for backward, in the order of production.
 * @bytes:   as it is
 * @ratio:   times as many as when it is packed; 1 or less: it is not to be packed
 * @seconds: of its copy out, as it is
 * @chosen:  it goes
 */
typedef struct dti_flash_value {
    uint64_t bytes;
    double ratio, seconds;
    bool chosen;
} dti_flash_value;

/* Choose among @n values so that @spill bytes or more go, or all. First in their order. If their
 * copies take longer than @forward seconds, those that can be packed are (the result: true), and
 * the last one chosen that cannot be is exchanged for others that can, the best ratio first, once
 * and then as long as it still takes longer. */
bool dti_flash_select(dti_flash_value *v, size_t n, uint64_t spill, double forward);

#endif
