/* Facts of the machine, its libraries and the network, as texts. */
#include "session/origin.h"

#include <dnntrain.h>
#include <stdio.h>

#include "layers/onednn/onednn.h"
#include "session/environment.h"
#include "session/version.h"

void dti_session_origin(const dt_session *s, dt_origin *to)
{
    char name[DT_FACT_BYTES];
    *to = (dt_origin){.threads = s->context.device == DT_CUDA ? 0 : s->threads};
    snprintf(to->machine, sizeof to->machine, "%s",
        s->context.device == DT_CUDA ? s->card.about : dt_cpu_name(name));
    snprintf(to->isa, sizeof to->isa, "%s", dt_session_isa(s));
    snprintf(to->precision, sizeof to->precision, "%s", dt_session_precision(s));
    snprintf(to->library, sizeof to->library, "%s", dt_onednn_version());
    snprintf(to->version, sizeof to->version, "%s", dt_version());
    snprintf(to->build, sizeof to->build, "%s", dt_build_facts().git);
    snprintf(to->network, sizeof to->network, "%s", s->graph->name);
}
