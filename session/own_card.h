/* A card that the configuration describes as its data sheet does: section [card]. */
#ifndef DT_SESSION_OWN_CARD_H
#define DT_SESSION_OWN_CARD_H

#include "session/session.h"

/* What memory.simulate calls it. */
extern const char dti_own_card[];

/* The costs of a machine with it, over those of the card that it is like; their name has all that
 * was said. DT_E_CONFIG where too little is. */
dt_status dti_own_card_costs(const dt_session *s, dt_costs *to, dt_err *err) DT_NODISCARD;

/* Where no card is simulated, nobody reads the section: DT_E_CONFIG for a key of it. */
dt_status dti_own_card_unused(const dt_session *s, dt_err *err) DT_NODISCARD;

#endif
