/* Proof that a plan is sound, from the plan alone. It trusts no index, size or address in it, so
 * plans from files may be handed in. Checked over two runs back to back: every read finds its
 * tensor whole; bytes of live tensors never overlap; a copy, and a use of what was copied, wait for
 * each other and for the last access of the same bytes on every stream; slots are read only after
 * they were written, and hold the tensor as it was when an op last wrote to it; what is at home in
 * a tier is copied to and from its own slot, which nobody else uses, and is home at the end if it
 * was changed; only inputs come from the batch; the declared peaks of device and tiers are the
 * highest ends, that of the device within the budget; everything transient is released at the end.
 */
#ifndef DT_MEMORY_VERIFY_VERIFY_H
#define DT_MEMORY_VERIFY_VERIFY_H

#include "engine/plan.h"

/* DT_E_DATA with "row N: ..." for a plan that is not sound, or "row N, on line M: ..." where it was
 * read from a text. */
dt_status dt_verify(const dt_plan *p, dt_err *err) DT_NODISCARD;

#endif
