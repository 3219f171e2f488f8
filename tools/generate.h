/* Text that a network writes, character by character. */
#ifndef DT_TOOLS_GENERATE_H
#define DT_TOOLS_GENERATE_H

#include "session/session.h"

/**
 * struct dt_generate_opts - what to write.
 * @count:  characters
 * @prompt: what it goes on from; NULL: the beginning of the held-out text
 * @temperature: 0: always the likeliest character; 1: as the network sees it; more: freer
 * @seed:   of the draws: the same seed, weights and machine, the same text
 */
typedef struct dt_generate_opts {
    int64_t count;
    const char *prompt;
    double temperature;
    uint64_t seed;
} dt_generate_opts;

/* Write the prompt and @count characters on stdout as they come. The network, whose data.source
 * must be text, is shown as many characters before the next one as its context holds; it must be
 * causal. DT_E_CONFIG for another source, or a prompt with characters the text does not have. */
dt_status dti_generate(dt_session *s, const dt_generate_opts *o, dt_err *err) DT_NODISCARD;

#endif
