/* Profiles as JSON. Reading is one table of members an object: what is not in it is refused. */
#include "memory/time/cost_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/base/json.h"
#include "engine/base/json_write.h"
#include "engine/base/sha256.h"
#include "engine/base/text.h"
#include "engine/config/nearest.h"
#include "memory/codec.h"

enum { MOST_BYTES = 64 << 20, MOST_DEPTH = 8, MOST_VALUES = 4 << 20 };
static const char format[] = "dnntrain-profile 3";

static const char *const stream_name[DT_USUAL_STREAMS] = {
    [DT_USUAL_COMPUTE] = "compute",
    [DT_USUAL_OUT] = "out",
    [DT_USUAL_IN] = "in",
    [DT_USUAL_WRITE] = "write",
    [DT_USUAL_READ] = "read",
    [DT_USUAL_HOST] = "host",
};

/* ---- reading ---- */

/* In which entry of its list each link and pair of streams stands, from 1; 0: in none so far.
 * @at: the one that is read */
typedef struct entry_of {
    int at, link[2][DT_TIERS][DT_TIER_DIRECTIONS], pair[DT_USUAL_STREAMS][DT_USUAL_STREAMS];
} entry_of;

typedef struct reading {
    const char *path;
    dt_costs *costs;
    dt_densities *densities;
    dt_origin *origin;
    entry_of *entry;
    dt_err *err;
} reading;

/* What sums and quotients of stay finite, and whole numbers of them within 64 bits. */
#define MOST_RATE 1e21   /* bytes or operations a second */
#define MOST_SECONDS 1e7 /* of an op or a step */
#define MOST_RATIO 1e9   /* of an op's seconds to its floor */

static dt_status number_to(
    const reading *r, const cJSON *o, const char *key, double least, double most, double *to)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);
    if (!cJSON_IsNumber(v))
        return DT_FAIL(r->err, DT_E_DATA, "%s: '%s' must be a number", r->path, key);
    *to = v->valuedouble;
    if (!(*to >= least) || !(*to <= most))
        return DT_FAIL(r->err, DT_E_DATA, "%s: '%s' is %g, must be from %g to %g", r->path, key,
            *to, least, most);
    return DT_OK;
}

static dt_status number(const reading *r, const cJSON *o, const char *key, double least, double *to)
{
    return number_to(r, o, key, least, MOST_SECONDS, to);
}

/* Of a second: bytes, operations. */
static dt_status rate(const reading *r, const cJSON *o, const char *key, double *to)
{
    return number_to(r, o, key, 1, MOST_RATE, to);
}

static dt_status whole_to(
    const reading *r, const cJSON *o, const char *key, double most, int64_t *to)
{
    double v;
    DT_CHECK(number_to(r, o, key, 0, most, &v));
    *to = (int64_t)v;
    if (v != (double)*to)
        return DT_FAIL(
            r->err, DT_E_DATA, "%s: '%s' is %g, must be a whole number", r->path, key, v);
    return DT_OK;
}

static dt_status text(const reading *r, const cJSON *o, const char *key, char *to, size_t bytes)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);
    if (!cJSON_IsString(v) || strlen(v->valuestring) >= bytes)
        return DT_FAIL(r->err, DT_E_DATA, "%s: '%s' must be a text of less than %zu bytes", r->path,
            key, bytes);
    memcpy(to, v->valuestring, strlen(v->valuestring) + 1);
    dt_text_clean(to);
    return DT_OK;
}

enum { MEMBERS = 16 }; /* no object has more */

/* A name that is none of these, which end with NULL. */
static dt_status unknown(
    const reading *r, const char *name, const char *whose, const char *const *names)
{
    char all[256];
    const char *close = dt_nearest(name, names);
    return DT_FAIL(r->err, DT_E_DATA, "%s: '%.64s' is nothing that %s has%s%s%s: %s", r->path, name,
        whose, close != NULL ? "; did you mean '" : "; there are", close != NULL ? close : "",
        close != NULL ? "'? There are" : "", dt_list_words(all, sizeof all, names));
}

/* An object of these members alone: a misspelt one would be passed over. Of two of one name
 * dt_json_parse has told. */
static dt_status only(const reading *r, const cJSON *o, const char *whose, const char *const *names)
{
    for (const cJSON *v = o->child; v != NULL; v = v->next) {
        size_t i = 0;
        while (names[i] != NULL && strcmp(names[i], v->string) != 0)
            i++;
        if (names[i] == NULL)
            return unknown(r, v->string, whose, names);
    }
    return DT_OK;
}
#define ONLY(r, o, whose, ...) DT_CHECK(only(r, o, whose, (const char *const[]){__VA_ARGS__, NULL}))

/* Every member of an object by name. */
typedef struct member {
    const char *name;
    dt_status (*read)(const reading *r, const cJSON *value);
} member;

static dt_status members(const reading *r, const cJSON *o, const member *m, size_t n)
{
    const char *names[MEMBERS + 1] = {NULL};
    DT_ASSERT(n <= MEMBERS);
    for (size_t i = 0; i < n; i++)
        names[i] = m[i].name;
    DT_CHECK(only(r, o, "a profile", names));
    for (size_t i = 0; i < n; i++) {
        const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, m[i].name);
        if (v == NULL)
            return DT_FAIL(
                r->err, DT_E_DATA, "%s: '%s' is missing: the file is cut", r->path, m[i].name);
        DT_CHECK(m[i].read(r, v));
    }
    return DT_OK;
}

static dt_status is(const reading *r, bool right, const char *key, const char *what)
{
    return right ? DT_OK : DT_FAIL(r->err, DT_E_DATA, "%s: '%s' must be %s", r->path, key, what);
}

static dt_status read_format(const reading *r, const cJSON *v)
{
    if (cJSON_IsString(v) && strcmp(v->valuestring, format) == 0)
        return DT_OK;
    return DT_FAIL(r->err, DT_E_DATA,
        "%s: its format is '%.64s', and this program reads '%s'; profile anew", r->path,
        cJSON_IsString(v) ? v->valuestring : "", format);
}

static dt_status read_origin(const reading *r, const cJSON *v)
{
    dt_origin *g = r->origin;
    DT_CHECK(is(r, cJSON_IsObject(v), "origin", "an object"));
    ONLY(r, v, "'origin'", "machine", "isa", "precision", "library", "version", "network", "build",
        "threads");
    DT_CHECK(text(r, v, "machine", g->machine, sizeof g->machine));
    DT_CHECK(text(r, v, "isa", g->isa, sizeof g->isa));
    DT_CHECK(text(r, v, "precision", g->precision, sizeof g->precision));
    DT_CHECK(text(r, v, "library", g->library, sizeof g->library));
    DT_CHECK(text(r, v, "version", g->version, sizeof g->version));
    DT_CHECK(text(r, v, "network", g->network, sizeof g->network));
    if (cJSON_HasObjectItem(v, "build")) /* of a tree without git there is none */
        DT_CHECK(text(r, v, "build", g->build, sizeof g->build));
    return whole_to(r, v, "threads", 1e6, &g->threads);
}

static dt_status read_roof(const reading *r, const cJSON *v)
{
    dt_costs *c = r->costs;
    const char *names[DT_DTYPES + 5] = {"bytes", "host", "rest", "wake"};
    DT_CHECK(is(r, cJSON_IsObject(v), "roof", "an object"));
    for (int t = 0; t < DT_DTYPES; t++)
        names[4 + t] = dt_dtype_name((dt_dtype)t);
    DT_CHECK(only(r, v, "'roof'", names));
    for (int t = 0; t < DT_DTYPES; t++) {
        double flops;
        DT_CHECK(rate(r, v, dt_dtype_name((dt_dtype)t), &flops));
        for (int w = 0; w < DT_WORKS; w++)
            c->flops[w][t] = flops;
    }
    DT_CHECK(rate(r, v, "bytes", &c->bytes));
    if (cJSON_HasObjectItem(v, "host")) /* profiles of processors have none */
        DT_CHECK(rate(r, v, "host", &c->host));
    DT_CHECK(number(r, v, "wake", 0, &c->wake));
    return number(r, v, "rest", 0, &c->rest);
}

static dt_status read_op(const reading *r, const cJSON *v)
{
    char signature[DT_SIGNATURE_BYTES];
    dt_cost_entry e = {.signature = signature};
    DT_CHECK(is(r, cJSON_IsObject(v), "ops", "a list of objects"));
    ONLY(r, v, "an op", "op", "samples", "seconds", "spread", "floor");
    DT_CHECK(text(r, v, "op", signature, sizeof signature));
    DT_CHECK(whole_to(r, v, "samples", 1e9, &e.samples));
    DT_CHECK(number(r, v, "seconds", 0, &e.seconds));
    DT_CHECK(number(r, v, "spread", 0, &e.spread));
    DT_CHECK(number(r, v, "floor", 0, &e.floor));
    if (e.floor > 0 && e.seconds > MOST_RATIO * e.floor)
        return DT_FAIL(r->err, DT_E_DATA,
            "%s: 'floor' is %g, must be 0 or no less than a billionth of the seconds, %g", r->path,
            e.floor, e.seconds);
    if (!(e.seconds > 0))
        return DT_FAIL(r->err, DT_E_DATA,
            "%s: 'seconds' is 0, and every op takes some; profile anew, or leave the entry out",
            r->path);
    return dt_costs_add(r->costs, &e, r->err);
}

/* All of a list; a wrong entry is named by its place, from 1. */
static dt_status entries(const reading *r, const cJSON *list, const char *key,
    dt_status (*read)(const reading *r, const cJSON *entry))
{
    int i = 0;
    DT_CHECK(is(r, cJSON_IsArray(list), key, "a list"));
    for (const cJSON *e = list->child; e != NULL; e = e->next) {
        r->entry->at = ++i;
        DT_TRY(r->err, read(r, e), "%s: entry %d of '%s'", r->path, i, key);
    }
    return DT_OK;
}

static int by_signature(const void *a, const void *b)
{
    return dt_cost_order(*(const dt_cost_entry *const *)a, *(const dt_cost_entry *const *)b);
}

/* Two entries of one op that cannot both hold: at the same number of samples, or one that does not
 * depend on them. */
static dt_status compare_two(const reading *r, const dt_cost_entry *a, const dt_cost_entry *b)
{
    const long long i = a - r->costs->entry + 1, k = b - r->costs->entry + 1;
    if (strcmp(a->signature, b->signature) != 0 || (a->samples != b->samples && a->samples > 0))
        return DT_OK;
    if (a->samples == b->samples)
        return DT_FAIL(r->err, DT_E_DATA,
            "%s: entries %lld and %lld of 'ops' are of the same op and samples, %lld; leave one "
            "out",
            r->path, i < k ? i : k, i < k ? k : i, (long long)a->samples);
    return DT_FAIL(r->err, DT_E_DATA,
        "%s: entry %lld of 'ops': 'samples' is 0, for ops that do not depend on them, and entry "
        "%lld has the same op with %lld; leave one out",
        r->path, i, k, (long long)b->samples);
}

static dt_status check_ops(const reading *r)
{
    const dt_costs *c = r->costs;
    const dt_cost_entry **e = dt_alloc(c->n_entry + 1, sizeof *e);
    if (e == NULL)
        return DT_FAIL(r->err, DT_E_NOMEM, "%s: no memory for its ops", r->path);
    for (size_t i = 0; i < c->n_entry; i++)
        e[i] = &c->entry[i];
    qsort(e, c->n_entry, sizeof *e, by_signature);
    dt_status st = DT_OK;
    for (size_t i = 1; i < c->n_entry && st == DT_OK; i++)
        st = compare_two(r, e[i - 1], e[i]);
    dt_free(e);
    return st;
}

static dt_status read_ops(const reading *r, const cJSON *v)
{
    DT_CHECK(entries(r, v, "ops", read_op));
    if (r->costs->n_entry == 0)
        return DT_FAIL(r->err, DT_E_DATA,
            "%s: 'ops' is empty, so it says nothing of any op; profile anew", r->path);
    return check_ops(r);
}

static dt_status read_link(const reading *r, const cJSON *v)
{
    char tier[16], direction[16], by[16];
    dt_link link;
    DT_CHECK(is(r, cJSON_IsObject(v), "links", "a list of objects"));
    ONLY(r, v, "a link", "tier", "direction", "by", "latency", "rate");
    DT_CHECK(text(r, v, "tier", tier, sizeof tier));
    DT_CHECK(text(r, v, "direction", direction, sizeof direction));
    DT_CHECK(text(r, v, "by", by, sizeof by));
    DT_CHECK(number(r, v, "latency", 0, &link.latency));
    DT_CHECK(rate(r, v, "rate", &link.rate));
    const int t = strcmp(tier, "input") == 0 ? DT_TIER_INPUT : dt_tier_find(tier);
    const bool out = strcmp(direction, "out") == 0, team = strcmp(by, "team") == 0;
    DT_CHECK(is(r, t >= 0, "tier", "input, host or disk"));
    DT_CHECK(is(r, out || strcmp(direction, "in") == 0, "direction", "out or in"));
    DT_CHECK(is(r, team || strcmp(by, "thread") == 0, "by", "team or thread"));
    const int d = out ? DT_TO_TIER : DT_FROM_TIER;
    if (r->entry->link[team][t][d] != 0)
        return DT_FAIL(r->err, DT_E_DATA,
            "%s: the link of tier '%s', direction '%s', by '%s' is entry %d already; leave one out",
            r->path, tier, direction, by, r->entry->link[team][t][d]);
    r->entry->link[team][t][d] = r->entry->at;
    (team ? r->costs->link : r->costs->thread_link)[t][d] = link;
    return DT_OK;
}

static dt_status read_links(const reading *r, const cJSON *v)
{
    return entries(r, v, "links", read_link);
}

/* Also one that this build is without: the profile may be of one that has it. */
static dt_status check_codec(const reading *r, const char *name)
{
    enum { MOST = 64 };
    const char *names[MOST + 1] = {NULL};
    size_t n;
    const dt_codec *const *all = dt_codec_all(&n);
    if (dti_codec_find(name) != NULL || dt_codec_wants(name) != NULL)
        return DT_OK;
    for (size_t i = 0; i < n && i < MOST; i++)
        names[i] = all[i]->name;
    return unknown(r, name, "the table of codecs", names);
}

/* Sorted, so that equal ones stand together. */
static dt_status check_rates(const reading *r)
{
    for (size_t i = 1; i < r->costs->n_rate; i++) {
        const dt_codec_rate *a = &r->costs->rate[i - 1], *b = &r->costs->rate[i];
        if (strcmp(a->codec, b->codec) == 0 && a->across == b->across && a->density >= b->density)
            return DT_FAIL(r->err, DT_E_DATA,
                "%s: two entries of 'codecs' are of '%s' at density %g%s; leave one out", r->path,
                a->codec, a->density, a->across ? ", across the link" : "");
    }
    return DT_OK;
}

static dt_status read_codec(const reading *r, const cJSON *v)
{
    dt_codec_rate codec = {.density = 0};
    DT_CHECK(is(r, cJSON_IsObject(v), "codecs", "a list of objects"));
    ONLY(r, v, "a codec", "codec", "density", "pack", "unpack", "across");
    DT_CHECK(text(r, v, "codec", codec.codec, sizeof codec.codec));
    DT_CHECK(check_codec(r, codec.codec));
    DT_CHECK(number_to(r, v, "density", 0, 1, &codec.density));
    DT_CHECK(rate(r, v, "pack", &codec.pack));
    DT_CHECK(rate(r, v, "unpack", &codec.unpack));
    const cJSON *across = cJSON_GetObjectItemCaseSensitive(v, "across");
    DT_CHECK(is(r, across == NULL || cJSON_IsBool(across), "across", "true or false"));
    codec.across = cJSON_IsTrue(across);
    return dt_costs_add_rate(r->costs, &codec, r->err);
}

static dt_status read_codecs(const reading *r, const cJSON *v)
{
    return entries(r, v, "codecs", read_codec);
}

static dt_status stream_of(const reading *r, const cJSON *o, const char *key, int *to)
{
    char name[16];
    DT_CHECK(text(r, o, key, name, sizeof name));
    for (*to = 0; *to < DT_USUAL_STREAMS; ++*to)
        if (strcmp(stream_name[*to], name) == 0)
            return DT_OK;
    return DT_FAIL(
        r->err, DT_E_DATA, "%s: '%s' must be compute, out, in, write, read or host", r->path, key);
}

static dt_status read_pair(const reading *r, const cJSON *v)
{
    int stream, beside;
    double times;
    DT_CHECK(is(r, cJSON_IsObject(v), "slowed", "a list of objects"));
    ONLY(r, v, "a pair of streams", "stream", "beside", "times");
    DT_CHECK(stream_of(r, v, "stream", &stream));
    DT_CHECK(stream_of(r, v, "beside", &beside));
    DT_CHECK(number(r, v, "times", 1, &times));
    if (r->entry->pair[stream][beside] != 0)
        return DT_FAIL(r->err, DT_E_DATA,
            "%s: stream '%s' beside '%s' is entry %d already; leave one out", r->path,
            stream_name[stream], stream_name[beside], r->entry->pair[stream][beside]);
    r->entry->pair[stream][beside] = r->entry->at;
    r->costs->slow[stream][beside] = times;
    return DT_OK;
}

static dt_status read_slow(const reading *r, const cJSON *v)
{
    return entries(r, v, "slowed", read_pair);
}

static dt_status read_density(const reading *r, const cJSON *v)
{
    DT_CHECK(is(r, cJSON_IsObject(v), "density", "an object"));
    for (const cJSON *e = v->child; e != NULL; e = e->next) {
        double room, mean;
        DT_CHECK(is(r, cJSON_IsObject(e), e->string, "an object of two shares, 'room' and 'mean'"));
        ONLY(r, e, "a density", "room", "mean");
        DT_CHECK(number_to(r, e, "room", 0, 1, &room));
        DT_CHECK(number_to(r, e, "mean", 0, 1, &mean));
        DT_CHECK(is(r, mean <= room, e->string, "shares, mean <= room"));
        DT_CHECK(dt_densities_add(r->densities, e->string, room, mean, r->err));
    }
    return DT_OK;
}

static dt_status parse(const reading *r, const char *bytes, size_t n)
{
    static const member all[] = {
        {"format", read_format},
        {"origin", read_origin},
        {"roof", read_roof},
        {"links", read_links},
        {"slowed", read_slow},
        {"codecs", read_codecs},
        {"density", read_density},
        {"ops", read_ops},
    };
    cJSON *o = NULL;
    dt_err why = {0};
    dt_status st = dt_json_parse(&o, bytes, n, MOST_DEPTH, MOST_VALUES, &why);
    if (st != DT_OK)
        return DT_FAIL(r->err, st,
            "%s: no profile, or damaged: %.*s; 'dnntrain profile CONFIG --out FILE' makes one",
            r->path, (int)strcspn(why.text, "\n"), why.text);
    st = is(r, cJSON_IsObject(o), "a profile", "an object");
    const cJSON *version = st == DT_OK ? cJSON_GetObjectItemCaseSensitive(o, "format") : NULL;
    if (version != NULL) /* another one has other members, and says so first */
        st = read_format(r, version);
    if (st == DT_OK)
        st = members(r, o, all, DT_COUNT(all));
    cJSON_Delete(o);
    if (st == DT_OK)
        st = dt_costs_seal(r->costs, r->err);
    return st != DT_OK ? st : check_rates(r);
}

#define NEITHER                                                                                    \
    "neither a profile, which 'dnntrain profile CONFIG --out FILE' makes, nor lines NAME = SHARE " \
    "of a section [density]"

dt_status dti_profile_parse(dt_costs *costs, dt_densities *densities, dt_origin *origin,
    const char *bytes, size_t n, const char *path, dt_err *err)
{
    dt_sha256 sum;
    entry_of entry = {.at = 0};
    const reading r = {path, costs, densities, origin, &entry, err};
    *costs = dt_costs_default;
    *origin = (dt_origin){.threads = 0};
    dt_sha256_init(&sum);
    dt_sha256_add(&sum, bytes, n);
    dt_sha256_text(&sum, costs->hash);
    const dt_status st = parse(&r, bytes, n);
    snprintf(costs->name, sizeof costs->name, "%.100s", origin->machine);
    return st;
}

/* Of a file that does not begin as a profile does. */
static dt_status read_densities(dt_densities *to, const char *text, const char *path, dt_err *err)
{
    if (text[strspn(text, " \t\r\n")] == '\0')
        return DT_FAIL(err, DT_E_DATA, "%s: it is empty, and " NEITHER, path);
    dt_status st = dti_densities_open(to, path, err);
    if (st == DT_E_CONFIG) /* as a text it is written like one, and is data all the same */
        st = DT_E_DATA;
    return st == DT_OK ? st : DT_FAIL(err, st, "%s: " NEITHER, path);
}

dt_status dt_profile_read(dt_costs *costs, dt_densities *densities, dt_origin *origin,
    bool *measured, const char *path, dt_err *err)
{
    char *text = NULL;
    size_t n = 0;
    *costs = dt_costs_default;
    *origin = (dt_origin){.threads = 0};
    DT_CHECK(dt_read_file(&text, &n, path, MOST_BYTES, DT_E_CONFIG, err));
    const char *begin = dt_behind_mark(text, n);
    n -= (size_t)(begin - text);
    *measured = begin[strspn(begin, " \t\r\n")] == '{';
    const dt_status st = *measured
                             ? dti_profile_parse(costs, densities, origin, begin, n, path, err)
                             : read_densities(densities, begin, path, err);
    dt_free(text);
    return st;
}

static void differs(
    char to[DT_ORIGIN_DIFFERS], const char *what, const char *file, const char *here)
{
    const size_t at = strlen(to);
    if (strcmp(file, here) != 0)
        snprintf(to + at, DT_ORIGIN_DIFFERS - at, "%s%s is '%.80s' there and '%.80s' here",
            at > 0 ? "; " : "", what, file, here);
}

bool dt_origin_other_build(const dt_origin *file, const dt_origin *here)
{
    return strcmp(file->version, here->version) == 0 && file->build[0] != '\0' &&
           here->build[0] != '\0' && strcmp(file->build, here->build) != 0;
}

bool dt_origin_differs(const dt_origin *file, const dt_origin *here, char what[DT_ORIGIN_DIFFERS])
{
    char a[32], b[32];
    what[0] = '\0';
    snprintf(a, sizeof a, "%lld", (long long)file->threads);
    snprintf(b, sizeof b, "%lld", (long long)here->threads);
    differs(what, "the machine", file->machine, here->machine);
    differs(what, "the instruction set", file->isa, here->isa);
    differs(what, "the precision", file->precision, here->precision);
    differs(what, "the library", file->library, here->library);
    differs(what, "the version", file->version, here->version);
    differs(what, "the number of threads", a, b);
    return what[0] != '\0';
}

dt_status dt_origin_same(
    const dt_origin *file, const dt_origin *here, const char *path, dt_err *err)
{
    char what[DT_ORIGIN_DIFFERS];
    return !dt_origin_differs(file, here, what)
               ? DT_OK
               : DT_FAIL(err, DT_E_CONFIG,
                     "%s: measured elsewhere: %s; measure here by 'dnntrain profile', or "
                     "set memory.any_profile = on",
                     path, what);
}

/* ---- writing ---- */

static void add_ops(dt_json *to, const dt_costs *c)
{
    dt_json list = dt_json_list(to, "ops");
    for (size_t i = 0; i < c->n_entry; i++) {
        const dt_cost_entry *e = &c->entry[i];
        dt_json o = dt_json_element(&list);
        dt_json_text(&o, "op", e->signature);
        dt_json_number(&o, "samples", (double)e->samples);
        dt_json_number(&o, "seconds", e->seconds);
        dt_json_number(&o, "spread", e->spread);
        dt_json_number(&o, "floor", e->floor);
        dt_json_leave(&list, &o);
    }
    dt_json_leave(to, &list);
}

static void add_link(dt_json *list, const dt_costs *c, int tier, int direction, bool team)
{
    const dt_link *l = &(team ? c->link : c->thread_link)[tier][direction];
    if (!dti_costs_has_link(c, tier, direction, team))
        return;
    dt_json o = dt_json_element(list);
    dt_json_text(&o, "tier", tier == DT_TIER_INPUT ? "input" : dt_tier_name(tier));
    dt_json_text(&o, "direction", direction == DT_TO_TIER ? "out" : "in");
    dt_json_text(&o, "by", team ? "team" : "thread");
    dt_json_number(&o, "latency", l->latency);
    dt_json_number(&o, "rate", l->rate);
    dt_json_leave(list, &o);
}

/* Those that were measured: a default would look like one of them. */
static void add_links(dt_json *to, const dt_costs *c)
{
    dt_json list = dt_json_list(to, "links");
    for (int t = 0; t < DT_TIERS; t++)
        for (int d = 0; d < DT_TIER_DIRECTIONS; d++) {
            add_link(&list, c, t, d, true);
            add_link(&list, c, t, d, false);
        }
    dt_json_leave(to, &list);
}

static void add_slow(dt_json *to, const dt_costs *c)
{
    dt_json list = dt_json_list(to, "slowed");
    for (int i = 0; i < DT_USUAL_STREAMS; i++)
        for (int k = 0; k < DT_USUAL_STREAMS; k++) {
            if (c->slow[i][k] <= 1)
                continue;
            dt_json o = dt_json_element(&list);
            dt_json_text(&o, "stream", stream_name[i]);
            dt_json_text(&o, "beside", stream_name[k]);
            dt_json_number(&o, "times", c->slow[i][k]);
            dt_json_leave(&list, &o);
        }
    dt_json_leave(to, &list);
}

static void add_codecs(dt_json *to, const dt_costs *c)
{
    dt_json list = dt_json_list(to, "codecs");
    for (size_t i = 0; i < c->n_rate; i++) {
        dt_json o = dt_json_element(&list);
        dt_json_text(&o, "codec", c->rate[i].codec);
        dt_json_number(&o, "density", c->rate[i].density);
        dt_json_number(&o, "pack", c->rate[i].pack);
        dt_json_number(&o, "unpack", c->rate[i].unpack);
        if (c->rate[i].across)
            dt_json_flag(&o, "across", true);
        dt_json_leave(&list, &o);
    }
    dt_json_leave(to, &list);
}

static void add_origin(dt_json *to, const dt_origin *g)
{
    dt_json o = dt_json_inner(to, "origin");
    dt_json_text(&o, "machine", g->machine);
    dt_json_text(&o, "isa", g->isa);
    dt_json_text(&o, "precision", g->precision);
    dt_json_text(&o, "library", g->library);
    dt_json_text(&o, "version", g->version);
    if (g->build[0] != '\0')
        dt_json_text(&o, "build", g->build);
    dt_json_text(&o, "network", g->network);
    dt_json_number(&o, "threads", (double)g->threads);
    dt_json_leave(to, &o);
}

static void add_roof(dt_json *to, const dt_costs *c)
{
    dt_json o = dt_json_inner(to, "roof");
    for (int t = 0; t < DT_DTYPES; t++)
        dt_json_number(&o, dt_dtype_name((dt_dtype)t), c->flops[DT_WORK_MATRIX][t]);
    dt_json_number(&o, "bytes", c->bytes);
    if (c->host != dt_costs_default.host)
        dt_json_number(&o, "host", c->host);
    dt_json_number(&o, "rest", c->rest);
    dt_json_number(&o, "wake", c->wake);
    dt_json_leave(to, &o);
}

/* What is not known is left out. */
static void add_densities(dt_json *to, const dt_densities *d)
{
    dt_json shares = dt_json_inner(to, "density");
    for (size_t i = 0; i < d->n; i++) {
        if (d->line[i].share < 0)
            continue;
        dt_json o = dt_json_inner(&shares, d->line[i].glob);
        dt_json_number(&o, "room", d->line[i].share);
        dt_json_number(&o, "mean", d->line[i].mean);
        dt_json_leave(&shares, &o);
    }
    dt_json_leave(to, &shares);
}

dt_status dt_profile_text(char **out, size_t *bytes, const dt_costs *costs,
    const dt_densities *densities, const dt_origin *origin, dt_err *err)
{
    char *printed;
    dt_json o = dt_json_begin();
    dt_json_text(&o, "format", format);
    add_origin(&o, origin);
    add_roof(&o, costs);
    add_links(&o, costs);
    add_slow(&o, costs);
    add_codecs(&o, costs);
    add_densities(&o, densities);
    add_ops(&o, costs);
    DT_CHECK(dt_json_end(&o, &printed, "a profile", err));
    *out = dt_strdup(printed);
    *bytes = *out != NULL ? strlen(*out) : 0;
    cJSON_free(printed);
    return *out != NULL ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory for a profile");
}
