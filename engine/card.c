/* The table of cards by name. */
#include "engine/card.h"

#include <string.h>

#include "engine/base/error.h"

/* A new one is a line; a new compute capability a line below, too. */
static const dt_card cards[] = {
    {"a100", "A100 40GB", 8, 0, 108, 40243, 40, 1410, 1215},
    {"a100-80", "A100 80GB", 8, 0, 108, 80998, 40, 1410, 1593},
    {"h100", "H100 80GB", 9, 0, 132, 80998, 50, 1980, 2619},
    {"h200", "H200", 9, 0, 132, 143052, 60, 1980, 3201},
    {"l4", "L4", 8, 9, 58, 22425, 48, 2040, 6251},
    {"rtx3060", "GeForce RTX 3060 12GB", 8, 6, 28, 11878, 3, 1777, 7501},
    {"rtx3090", "GeForce RTX 3090", 8, 6, 82, 24064, 6, 1695, 9751},
    {"rtx4090", "GeForce RTX 4090", 8, 9, 128, 24064, 72, 2520, 10501},
    {"rtx5090", "GeForce RTX 5090", 12, 0, 170, 32051, 96, 2407, 14001},
};

static const dt_card_limits limits[] = {
    {8, 0, 2048, 32, 163 << 10},
    {8, 6, 1536, 16, 99 << 10},
    {8, 9, 1536, 24, 99 << 10},
    {9, 0, 2048, 32, 227 << 10},
    {12, 0, 1536, 24, 99 << 10},
};

const dt_card *dt_card_all(size_t *n)
{
    *n = DT_COUNT(cards);
    return cards;
}

const dt_card *dt_card_find(const char *name)
{
    for (size_t i = 0; i < DT_COUNT(cards); i++)
        if (strcmp(cards[i].name, name) == 0)
            return &cards[i];
    return NULL;
}

const dt_card_limits *dt_card_limits_of(const dt_card *c)
{
    size_t i = 0;
    while (i < DT_COUNT(limits) && (limits[i].major != c->major || limits[i].minor != c->minor))
        i++;
    DT_ASSERT(i < DT_COUNT(limits)); /* every card's compute capability has a line */
    return &limits[i];
}
