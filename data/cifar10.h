/* The checks of CIFAR-10's binary files, apart from the source so that they can be fed from memory.
 */
#ifndef DT_DATA_CIFAR10_H
#define DT_DATA_CIFAR10_H

#include "engine/base/error.h"

/* A label, then 32x32 pixels: all red, all green, all blue. */
enum {
    DTI_CIFAR_SIDE = 32,
    DTI_CIFAR_PIXELS = 3 * 32 * 32,
    DTI_CIFAR_RECORD = 1 + DTI_CIFAR_PIXELS
};

/* Whole records, each label below 10 and below @classes. DT_E_DATA names file, record and value;
 * @name is fit for a message. */
dt_status dti_cifar10_check(
    const char *name, const uint8_t *bytes, size_t n, int64_t classes, dt_err *err) DT_NODISCARD;

#endif
