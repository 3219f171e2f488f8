#include "engine/ways.h"

#include <stdio.h>

void dt_ways_add(dt_ways *w, const char *impl, size_t bytes)
{
    if (w->n > 0 && bytes >= w->way[w->n - 1].bytes)
        return;
    const int i = w->n < DT_MAX_WAYS ? w->n++ : DT_MAX_WAYS - 1;
    snprintf(w->way[i].impl, sizeof w->way[i].impl, "%s", impl);
    w->way[i].bytes = bytes;
}

int dt_ways_within(const dt_ways *w, size_t room)
{
    int i = 0;
    while (room != DT_ROOM_ANY && i + 1 < w->n && w->way[i].bytes > room)
        i++;
    return i;
}

int dt_form_room(dt_form_kind form)
{
    switch (form) {
    case DT_BACKWARD:
    case DT_RESTORE:
        return 1;
    case DT_BACKWARD2:
    case DT_DERIVE_B:
        return 2;
    case DT_FORWARD:
    case DT_CLONE:
    case DT_EVAL:
    case DT_DERIVE_F:
    case DT_UPDATE:
    case DT_FORMS:
        break;
    }
    return 0;
}

dt_form_kind dt_room_form(int room)
{
    static const dt_form_kind forms[DT_ROOMS] = {DT_FORWARD, DT_BACKWARD, DT_BACKWARD2};
    return forms[room];
}
