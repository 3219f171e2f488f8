/* Which op was the first to make a value that is not finite: looked for by running a step again. */
#include <stdio.h>
#include <string.h>

#include "engine/runner/runner_parts.h"

/* Infinities and NaNs are the numbers whose exponent is all ones, and a bf16 is half a float. */
static bool all_finite(const void *bytes, size_t n, dt_dtype t)
{
    const uint16_t *half = bytes;
    const size_t each = dt_dtype_bytes(t) / sizeof *half, count = n / sizeof *half;
    for (size_t i = each - 1; i < count; i += each)
        if ((half[i] & 0x7F80u) == 0x7F80u)
            return false;
    return true;
}

static void look(void *self, const dt_plan_tensor *t, const void *bytes)
{
    dt_runner *r = self;
    const bool value = t->role == DT_ROLE_ACTIVATIONS || t->role == DT_ROLE_ACTIVATION_GRADIENTS;
    if (r->blamed[0] != '\0' || (!value && t->role != DT_ROLE_GRADIENTS) ||
        all_finite(bytes, t->bytes, value ? r->o.graph->dtype : DT_F32))
        return;
    const dt_call *c = &r->shown->call;
    const bool back = c->form == DT_BACKWARD || c->form == DT_BACKWARD2;
    if (c->node == NULL)
        snprintf(r->blamed, sizeof r->blamed, "'%s', which adds gradients up", r->shown->name);
    else
        snprintf(r->blamed, sizeof r->blamed, "layer '%s' (%s), %s, in '%s'", c->node->name,
            c->node->desc->name, back ? "backward" : "forward", t->name);
}

void dt_runner_blame(dt_runner *r, bool on)
{
    r->blame = (dt_probe){r, look};
    r->probe = on ? &r->blame : NULL;
    if (on)
        r->blamed[0] = '\0';
}

const char *dt_runner_blamed(const dt_runner *r)
{
    return r->blamed[0] != '\0' ? r->blamed : NULL;
}
