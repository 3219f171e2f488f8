/* How fast a device that works later than it is told copies to and from pinned memory, within its
 * own memory, and packs: what a profile wants to know of it, on queues of its own. */
#ifndef DT_SESSION_DEVICE_RATES_H
#define DT_SESSION_DEVICE_RATES_H

#include "engine/driver.h"

typedef struct dti_device_rates dti_device_rates;

/* With so many bytes on either side, of which a copy takes a part. DT_E_NOMEM or DT_E_DEVICE where
 * they are not to be had. */
dt_status dti_device_rates_open(
    dti_device_rates **out, const dt_driver *d, uint64_t bytes, dt_err *err) DT_NODISCARD;
void dti_device_rates_close(dti_device_rates *r); /* NULL is allowed */

/* Copy [at, at + bytes) to the device or from it, and wait. By one thread at a time. */
dt_status dti_device_rates_copy(
    dti_device_rates *r, bool to, uint64_t at, size_t bytes, dt_err *err) DT_NODISCARD;

/* Bytes read and written a second, within the device's memory. */
dt_status dti_device_rates_own(
    dti_device_rates *r, double *bytes_a_second, dt_err *err) DT_NODISCARD;

/* Seconds in which @count fp32 of the host's, once they are there, are packed and unpacked: the
 * packed bytes, at most half of the device_rates' bytes, in the device's memory, or @across the
 * link. A quarter of these bytes has room for the values. */
dt_status dti_device_rates_codec(dti_device_rates *r, const dt_codec *codec, const float *values,
    size_t count, size_t packed, bool across, double *pack, double *unpack,
    dt_err *err) DT_NODISCARD;

#endif
