/* Reading metrics.jsonl. */
#include "tools/course.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/base/json.h"
#include "session/run_dir.h"

enum { LINE_DEPTH = 4, LINE_VALUES = 64 };
static const size_t most_bytes = (size_t)1 << 30, enough_bytes = (size_t)1 << 25;

static const char *const key[DTI_COLUMNS] = {"step", "loss", "lr", "images_per_second", "top1"};

void dti_course_table_deinit(dti_course_table *t)
{
    for (int c = 0; c < DTI_COLUMNS; c++)
        dt_free(t->v[c]);
}

bool dti_course_room(dti_course_table *t)
{
    bool room = true;
    size_t cap = t->cap;
    for (int c = 0; c < DTI_COLUMNS; c++) {
        cap = t->cap; /* of each column the same */
        room = room && dt_grow(&t->v[c], &cap, t->n, sizeof *t->v[c]);
    }
    t->cap = cap;
    return room;
}

static bool add_row(dti_course_table *t, const cJSON *line)
{
    if (!dti_course_room(t))
        return false;
    for (int c = 0; c < DTI_COLUMNS; c++) {
        const cJSON *v = cJSON_GetObjectItemCaseSensitive(line, key[c]);
        t->v[c][t->n] = cJSON_IsNumber(v) ? v->valuedouble : (double)NAN;
    }
    t->n++;
    return true;
}

/* Evaluations are few, and all wanted. */
static bool left_out(dti_course *c, const char *text, size_t n)
{
    static const char eval[] = "\"split\": \"eval\"";
    if (c->each == 1 || c->line++ % c->each == 0)
        return false;
    for (size_t i = 0; i + sizeof eval <= n; i++)
        if (memcmp(text + i, eval, sizeof eval - 1) == 0)
            return false;
    return true;
}

static dt_status add_line(dti_course *c, const char *text, size_t n, dt_err *err)
{
    cJSON *line = NULL;
    bool room = true;
    if (left_out(c, text, n))
        return DT_OK;
    if (dt_json_parse(&line, text, n, LINE_DEPTH, LINE_VALUES, NULL) != DT_OK) {
        c->bad++;
        return DT_OK;
    }
    const cJSON *split = cJSON_GetObjectItemCaseSensitive(line, "split");
    if (cJSON_IsString(split) && strcmp(split->valuestring, "train") == 0)
        room = add_row(&c->train, line);
    else if (cJSON_IsString(split) && strcmp(split->valuestring, "eval") == 0)
        room = add_row(&c->eval, line);
    else
        c->bad++;
    cJSON_Delete(line);
    return room ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory for the course of the run");
}

static dt_status read_lines(dti_course *c, const char *folder, dt_err *err)
{
    char path[4200], *text = NULL;
    size_t bytes = 0;
    if (snprintf(path, sizeof path, "%s/" DT_RUN_METRICS, folder) >= (int)sizeof path)
        return DT_FAIL(err, DT_E_IO, "'%s': the name is too long", folder);
    DT_CHECK(dt_read_file(&text, &bytes, path, most_bytes, DT_E_IO, err));
    dt_status st = DT_OK;
    c->each = bytes / enough_bytes + 1;
    for (const char *at = text; at < text + bytes && st == DT_OK;) {
        const char *end = memchr(at, '\n', (size_t)(text + bytes - at));
        end = end != NULL ? end : text + bytes;
        st = add_line(c, at, (size_t)(end - at), err);
        at = end + 1;
    }
    dt_free(text);
    return st;
}

/* A page without it is better than none. */
dt_status dti_course_read(dti_course *c, const char *folder, dt_err *err)
{
    dt_err why = {0};
    const dt_status st = read_lines(c, folder, &why);
    if (st == DT_E_NOMEM)
        return DT_FAIL(err, st, "no memory for the course of the run");
    if (st != DT_OK)
        snprintf(c->why, sizeof c->why, "%.*s", (int)strcspn(why.text, "\n"), why.text);
    return DT_OK;
}

void dti_course_deinit(dti_course *c)
{
    dti_course_table_deinit(&c->train);
    dti_course_table_deinit(&c->eval);
}
