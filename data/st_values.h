/* Numbers of a tensor in a safetensors file, whatever their type, as fp32. */
#ifndef DT_DATA_ST_VALUES_H
#define DT_DATA_ST_VALUES_H

#include "engine/checkpoint/safetensors.h"

enum { DTI_ST_SOME = 512 }; /* read at a time, at most */

/* Elements [at, at + n) of @e, n at most DTI_ST_SOME. As dt_st_read. */
dt_status dti_st_values(const dt_st_file *f, const dt_st_entry *e, int64_t at, int64_t n, float *to,
    dt_err *err) DT_NODISCARD;

#endif
