/* The disk tier without io_uring: threads that read and write. */

#include "engine/base/alloc.h"
#include "engine/base/thread.h"
#include "memory/tiers/disk.h"

/* Chunk after chunk, until none is left or one has failed. The lock is held here, and let go while
 * bytes move. */
static void take_part(dti_disk_lane *l, char *bounce)
{
    dti_disk_team *m = l->team;
    while (m->next < m->chunks) {
        const size_t index = m->next++;
        m->busy++;
        pthread_mutex_unlock(&m->lock);
        dti_disk_chunk c;
        dti_disk_chunk_start(&c, l->file, m->now, index, bounce);
        dti_disk_chunk_run(&c, l->file);
        dti_disk_chunk_finish(&c, m->now);
        pthread_mutex_lock(&m->lock);
        dti_disk_chunk_note(&c, m->now);
        if (c.error != 0)
            m->next = m->chunks;
        if (--m->busy == 0)
            pthread_cond_signal(&m->done);
    }
}

static void *help(void *lane)
{
    dti_disk_lane *l = lane;
    dti_disk_team *m = l->team;
    pthread_mutex_lock(&m->lock);
    const int me = m->helpers++;
    pthread_cond_signal(&m->done);
    while (!m->stop) {
        take_part(l, l->bounce != NULL ? l->bounce + (size_t)(me + 1) * DTI_DISK_CHUNK : NULL);
        if (!m->stop)
            pthread_cond_wait(&m->work, &m->lock);
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

void dti_disk_team_run(dti_disk_lane *l, dti_disk_transfer *t)
{
    dti_disk_team *m = l->team;
    pthread_mutex_lock(&m->lock);
    m->now = t;
    m->next = 0;
    m->chunks = dti_disk_chunks(t);
    if (m->chunks > 1)
        pthread_cond_broadcast(&m->work);
    take_part(l, l->bounce);
    while (m->busy > 0)
        pthread_cond_wait(&m->done, &m->lock);
    m->next = m->chunks = 0;
    m->now = NULL;
    pthread_mutex_unlock(&m->lock);
}

static void start_helpers(dti_disk_lane *l, int wanted)
{
    dti_disk_team *m = l->team;
    for (int i = 0; i < wanted; i++) {
        if (dt_thread_start(&m->helper[i], 0, help, l) != 0)
            break;
        pthread_mutex_lock(&m->lock);
        while (m->helpers <= i)
            pthread_cond_wait(&m->done, &m->lock);
        pthread_mutex_unlock(&m->lock);
    }
}

bool dti_disk_team_open(dti_disk_lane *l, int helpers)
{
    dti_disk_team *m = dt_alloc(1, sizeof *m);
    if (m == NULL)
        return false;
    /* with default attributes none of these can fail on Linux */
    (void)pthread_mutex_init(&m->lock, NULL);
    (void)pthread_cond_init(&m->work, NULL);
    (void)pthread_cond_init(&m->done, NULL);
    l->team = m;
    start_helpers(l, helpers < DTI_DISK_HELPERS ? helpers : DTI_DISK_HELPERS);
    return true;
}

void dti_disk_team_close(dti_disk_lane *l)
{
    dti_disk_team *m = l->team;
    if (m == NULL)
        return;
    pthread_mutex_lock(&m->lock);
    m->stop = true;
    pthread_cond_broadcast(&m->work);
    const int helpers = m->helpers;
    pthread_mutex_unlock(&m->lock);
    for (int i = 0; i < helpers; i++)
        (void)pthread_join(m->helper[i], NULL);
    (void)pthread_mutex_destroy(&m->lock);
    (void)pthread_cond_destroy(&m->work);
    (void)pthread_cond_destroy(&m->done);
    dt_free(m);
    l->team = NULL;
}
