/* In how many parts a batch is taken, where a policy has a rule for that and the configuration does
 * not say it. */
#ifndef DT_SESSION_PARTS_H
#define DT_SESSION_PARTS_H

#include "session/session.h"

/* Set the session's micro_batch by the rule of the first policy that has one (struct dt_parts): the
 * most samples that may be taken at once, rounded as it says, and down to what divides train.batch.
 * Left alone where the configuration gives a number above 0, and with train.update = early, which
 * takes a batch at once. What was chosen is noted. Programs are planned for it, about log2 of the
 * batch; the last part of dt_session_open. DT_E_CONFIG and DT_E_NOMEM as planning has them. */
dt_status dti_session_choose_parts(dt_session *s, dt_err *err) DT_NODISCARD;

/* Whether a line says how many samples are taken at once: train.micro_batch, and not 0. */
bool dti_session_names_parts(const dt_session *s);

/* Whether a run of this configuration under these policies would have its parts chosen so. */
bool dti_session_leaves_parts_to(const dt_session *s, const dt_policies *p);

/* What exact means where a policy chose the parts, for bits are then not those of the batch that
 * was asked for: "for parts of 8, as keep_all with train.micro_batch = 8"; "" where none did. */
enum { DT_PARTS_TEXT = 96 };
const char *dt_session_exact_for(char to[DT_PARTS_TEXT], const dt_session *s);

#endif
