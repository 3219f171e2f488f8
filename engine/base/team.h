/* A team of threads that share out a job whose tasks can be done in any order.
 *
 * Each thread that runs jobs has a team of its own, as large as dt_cpu_threads() says when it runs
 * one: itself and helpers, which start with the first job and end with the thread. Whoever has time
 * takes the next tasks, so what is asked of a task is that it does the same whoever does it;
 * denormal numbers are treated by all as by the one that runs the job.
 *
 * OpenMP's parallel loops wait at their end for every thread of the team. On a machine that does
 * other work as well, one of them is often not running, and the others wait until the system lets
 * it, a time slice of milliseconds for a loop of some hundred microseconds. Here the one that runs
 * the job waits for a helper only if it has begun to work on it; one that has not run meanwhile
 * finds nothing left to do. So a second thread may help less than it should but does not hold up
 * the first.
 */
#ifndef DT_ENGINE_BASE_TEAM_H
#define DT_ENGINE_BASE_TEAM_H

#include <stdint.h>

/* Task i of a job. Within a task, jobs are run by the thread alone. */
typedef void dt_team_task(const void *job, int64_t i);

/* Run task(job, i) once for every i in [0, n), and return when all are done. A thread gets
 * neighbours as long as there are any. Never fails: where the system gives no threads there are
 * fewer helpers. */
void dt_team_run(int64_t n, dt_team_task *task, const void *job);

/* The same, each thread's tasks from the last to the first: of what the job before went through
 * upwards, the end is still in the cache. */
void dt_team_run_back(int64_t n, dt_team_task *task, const void *job);

/* Within a task: which of the team's threads does it, from 0 to dt_cpu_threads() - 1 of the thread
 * that runs the job. Elsewhere 0. */
int dt_team_member(void);

/* Another team is about to work, a library's: helpers that watch for the next job leave it the
 * processors at once. */
void dt_team_rest(void);

#endif
