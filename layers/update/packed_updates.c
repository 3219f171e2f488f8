/* The optimizers with moments in 8 bits, ops of no layer: Dettmers et al., "8-bit Optimizers via
 * Block-wise Quantization" (ICLR 2022). A moment is brought to fp32 a block at a time, moved as the
 * optimizer of fp32 does, and packed again (engine/state_codes.h). */
#include "layers/cpu/cpu.h"
#include "layers/plain.h"

#define MOMENT(i) (DT_BIT(DT_M + (i)) | DT_BIT(DTI_SCALES_OF(DT_M + (i))))

#define PACKED(of, moments)                                                                        \
    const dt_layer_desc dt_layer_##of##8 = {                                                       \
        .name = #of "8",                                                                           \
        .summary = #of " with moments in 8 bits",                                                  \
        .form = {[DT_UPDATE] = {.suffix = #of "8",                                                 \
                     .reads = DT_BIT(DT_DP),                                                       \
                     .updates = DT_BIT(DT_P) | (moments)}},                                        \
        .cpu = &dt_##of##8_cpu,                                                                    \
    }

PACKED(sgd, MOMENT(0));
PACKED(adam, MOMENT(0) | MOMENT(1));
PACKED(adamw, MOMENT(0) | MOMENT(1));
PACKED(lion, MOMENT(0));
