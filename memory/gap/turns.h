/* A queue of copies that follow each other, and the longest that an op waits for one of them if one
 * more had its turn. That is asked for many that might be next, and the queue changes rarely: what
 * is known of it as it is, and what one asked for before did to those behind it, is not found
 * twice. To the last bit it is what running the whole queue gives. */
#ifndef DT_MEMORY_GAP_TURNS_H
#define DT_MEMORY_GAP_TURNS_H

#include "engine/base/error.h"

/**
 * struct dti_turn - of a copy, in seconds. The caller's:
 * @ready: it begins no sooner
 * @early @takes: the queue is busy with it for so long, one after the other
 * @by:    an op waits if it is done later
 * @own:   where the wait for it is told; 0: it counts among those of the others
 * The queue's:
 * @free:  when those before it are done
 * @before @behind: the longest wait for any before it; for itself and those behind
 * @next:  the next turn, or this one, that has a wait of its own; n: there is none
 * @seen:  how often what is behind was found for another @free
 */
typedef struct dti_turn {
    double ready, early, takes, by;
    size_t own;
    double free, before, behind;
    size_t next, seen;
} dti_turn;

/**
 * struct dti_turn_seen - what becomes of a turn and those behind it if it is free at a time.
 * @behind: the longest wait, up to the next turn with one of its own if that is still shifted
 * @next:   when that one is free
 */
typedef struct dti_turn_seen {
    double free, behind, next;
} dti_turn_seen;

/**
 * struct dti_turns - a queue.
 * @turn:    n + 1, the last without a copy
 * @seen:    by turn, the last few that were found
 * @shifted: room for when each is free with one more before it
 * @own:     n_own + 1 waits that are told alone, with the one more asked for last; from 1 on
 * @own_without: the same without it
 */
typedef struct dti_turns {
    size_t n, n_own;
    dti_turn *turn;
    dti_turn_seen *seen;
    double *shifted, *own, *own_without;
} dti_turns;

/* Room for so many. Release with dti_turns_close even after a failure. DT_E_NOMEM. */
dt_status dti_turns_open(dti_turns *t, size_t room, dt_err *err) DT_NODISCARD;
void dti_turns_close(dti_turns *t);

/* The first n are set, n_own of them with waits of their own, and the queue is free at a time. */
void dti_turns_run(dti_turns *t, size_t n, size_t n_own, double free);

/* The longest wait for any, if one more came before the turn @at; never below 0. */
double dti_turns_wait_with(dti_turns *t, size_t at, const dti_turn *more);

#endif
