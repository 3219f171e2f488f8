/* A card that the configuration describes as its data sheet does: section [card]. */
#ifndef DT_SESSION_OWN_CARD_H
#define DT_SESSION_OWN_CARD_H

#include "memory/time/card_costs.h"
#include "session/session.h"

/* What memory.simulate calls it. */
extern const char dti_own_card[];

/* What it does in a second, over what the card does that it is like. DT_E_CONFIG where too little
 * is said. */
dt_status dti_own_card_speed(const dt_session *s, dt_card_speed *to, dt_err *err) DT_NODISCARD;

/* Title and numbers, so that no two that differ are called the same. */
void dti_own_card_name(const dt_session *s, char *to, size_t bytes);

/* Where no card or one of the list is simulated, nobody reads the section: DT_E_CONFIG for a key of
 * it, but for one that stands in the file beside a card of the list, for another time. */
dt_status dti_own_card_unused(const dt_session *s, dt_err *err) DT_NODISCARD;

#endif
