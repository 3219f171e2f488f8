/* What a loss is told of a sample: labels, words of 32 bits. */
#ifndef DT_ENGINE_LABEL_H
#define DT_ENGINE_LABEL_H

#include <stdint.h>
#include <string.h>

#include "engine/base/compiler.h"

/* Of what does not count: it has neither loss nor gradient, and is no hit and no miss. The bits are
 * those of a NaN, so it is no value either. */
enum { DT_LABEL_NONE = -1 };

/* What a label is: a class, one for each row of scores; or the bits of an fp32 value, one for each
 * element of what the loss reads: any number, or one from 0 to 1. */
typedef enum dt_label_kind { DT_LABEL_CLASS, DT_LABEL_VALUE, DT_LABEL_PROBABILITY } dt_label_kind;

DT_BOTH static inline float dt_label_value(int32_t label)
{
    float v;
    memcpy(&v, &label, sizeof v);
    return v;
}

/* A NaN does not count. */
DT_BOTH static inline int32_t dt_label_of_value(float v)
{
    int32_t label;
    memcpy(&label, &v, sizeof label);
    return v == v ? label : (int32_t)DT_LABEL_NONE;
}

#endif
