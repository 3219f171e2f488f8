/* A card by its data sheet. */
#include "session/own_card.h"

#include <stdio.h>
#include <string.h>

const char dti_own_card[] = "own";

/* What is said in numbers, 0 where it is not. @wanted: unless the card is like another one */
enum { NUMBERS = 6 };
typedef struct number {
    const char *key;
    double value;
    bool wanted;
} number;

static void numbers_of(const dt_card_opts *o, number to[NUMBERS])
{
    const number all[NUMBERS] = {{"fp32", o->fp32, true}, {"half", o->half, false},
        {"bandwidth", o->bandwidth, true}, {"link", o->link, true},
        {"disk_out", o->disk_out, false}, {"disk_in", o->disk_in, false}};
    memcpy(to, all, sizeof all);
}

static const dt_card_speed *like_of(const dt_card_opts *o)
{
    return o->like != NULL ? dt_card_speed_find(o->like) : NULL;
}

/* As much of a title as leaves the numbers room, and no part of a letter. */
static int title_bytes(const char *title)
{
    enum { MOST = 40 };
    size_t n = strlen(title);
    for (n = n < MOST ? n : MOST; n > 0 && ((unsigned char)title[n] & 0xc0) == 0x80; n--)
        ;
    return (int)n;
}

void dti_own_card_name(const dt_session *s, char *to, size_t bytes)
{
    const dt_card_opts *o = &s->opts.card;
    const dt_card_speed *like = like_of(o);
    number said[NUMBERS];
    size_t at = o->title != NULL
                    ? (size_t)snprintf(to, bytes, "%.*s", title_bytes(o->title), o->title)
                : like != NULL ? (size_t)snprintf(to, bytes, "like %.32s", like->title)
                               : (size_t)snprintf(to, bytes, "own card");
    numbers_of(o, said);
    for (size_t i = 0; i < NUMBERS && at < bytes; i++)
        if (said[i].value > 0)
            at += (size_t)snprintf(to + at, bytes - at, ", %s %.6g", said[i].key, said[i].value);
}

/* Seconds are to stay numbers that one can read. */
static dt_status check(const dt_session *s, dt_err *err)
{
    static const double least = 1e-3;
    const dt_card_opts *o = &s->opts.card;
    char asked[DT_ASKED];
    number said[NUMBERS];
    numbers_of(o, said);
    for (size_t i = 0; i < NUMBERS; i++) {
        if (said[i].wanted && o->like == NULL && !(said[i].value > 0))
            return DT_FAIL(err, DT_E_CONFIG,
                "%s: [card] says no %s; give its number, or like = CARD",
                dt_session_asked(asked, s, "memory", "simulate"), said[i].key);
        if (said[i].value > 0 && said[i].value < least)
            return DT_FAIL(err, DT_E_CONFIG, "%s: must be 0, or %g and more",
                dt_session_asked(asked, s, "card", said[i].key), least);
    }
    return DT_OK;
}

dt_status dti_own_card_speed(const dt_session *s, dt_card_speed *to, dt_err *err)
{
    const dt_card_opts *o = &s->opts.card;
    const dt_card_speed *like = like_of(o);
    const dt_card_sheet sheet = {o->fp32, o->half, o->bandwidth, o->link, o->disk_out, o->disk_in};
    if (o->like != NULL && like == NULL)
        return dti_session_unknown(s, "card", "like", "card", dt_card_speed_names(), err);
    DT_CHECK(check(s, err));
    *to = like != NULL ? *like : (dt_card_speed){.title = ""};
    dt_card_take_sheet(to, &sheet);
    return DT_OK;
}

static dt_status unused(const dt_session *s, const char *key, dt_err *err)
{
    char asked[DT_ASKED];
    const char *listed = s->opts.memory.simulate;
    dt_session_asked(asked, s, "card", key);
    if (listed == NULL)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: no card is simulated; set memory.simulate = own, or leave [card] out", asked);
    if (!dt_config_typed(s->config, "card", key))
        return DT_OK;
    return DT_FAIL(err, DT_E_CONFIG,
        "%s: memory.simulate = %s takes nothing of [card]; set memory.simulate = own and card.like "
        "= %s, or leave it out",
        asked, listed, listed);
}

dt_status dti_own_card_unused(const dt_session *s, dt_err *err)
{
    number said[NUMBERS];
    numbers_of(&s->opts.card, said);
    if (s->opts.card.title != NULL)
        DT_CHECK(unused(s, "title", err));
    if (s->opts.card.like != NULL)
        DT_CHECK(unused(s, "like", err));
    for (size_t i = 0; i < NUMBERS; i++)
        if (said[i].value > 0)
            DT_CHECK(unused(s, said[i].key, err));
    return DT_OK;
}
