/* The table of cards by name. */
#include "engine/card.h"

#include <string.h>

#include "engine/base/error.h"

#define DT_CARD(...) {__VA_ARGS__},
static const dt_card cards[] = {
#include "engine/cards.def"
};
#undef DT_CARD

#define DT_CARD(name, ...) name,
static const char *const names[] = {
#include "engine/cards.def"
    NULL};
#undef DT_CARD

static const dt_card_limits limits[] = {
    {8, 0, 2048, 32, 163 << 10},
    {8, 6, 1536, 16, 99 << 10},
    {8, 9, 1536, 24, 99 << 10},
    {9, 0, 2048, 32, 227 << 10},
    {12, 0, 1536, 24, 99 << 10},
};

const dt_card *dt_card_find(const char *name)
{
    for (size_t i = 0; i < DT_COUNT(cards); i++)
        if (strcmp(cards[i].name, name) == 0)
            return &cards[i];
    return NULL;
}

const char *const *dt_card_names(void)
{
    return names;
}

const dt_card_limits *dt_card_limits_of(const dt_card *c)
{
    size_t i = 0;
    while (i < DT_COUNT(limits) && (limits[i].major != c->major || limits[i].minor != c->minor))
        i++;
    DT_ASSERT(i < DT_COUNT(limits)); /* every card's compute capability has a line */
    return &limits[i];
}
