/* From text to plans. The text may be anything: what is read is bounded by its size, and what is
 * wrong is told with its line. */
#include "memory/plan_text/plan_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers_text.h"
#include "engine/base/text.h"
#include "memory/codec.h"
#include "memory/plan_text/plan_text_internal.h"

/* ---- lines, words and numbers ---- */

/**
 * struct scan - a place in the text.
 * @name:     of the file, for messages
 * @line:     number of the current line, from 1
 * @at @end:  what is left of it
 * @next @stop: what follows it
 */
typedef struct scan {
    const char *name;
    size_t line;
    const char *at, *end, *next, *stop;
    dt_err *err;
} scan;

/* A stretch of printable ASCII. */
typedef struct word {
    const char *p;
    size_t n;
} word;

/* For "%.*s": long values are cut. */
#define SHOW(w) ((w).n < 60 ? (int)(w).n : 60), (w).p

/* DT_E_DATA */
DT_PRINTF(2, 3) static dt_status scan_bad(const scan *s, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return DT_FAIL(s->err, DT_E_DATA, "%s:%zu: %s", s->name, s->line, text);
}

static dt_status scan_no_memory(const scan *s)
{
    return DT_FAIL(s->err, DT_E_NOMEM, "%s: no memory for the plan", s->name);
}

static dt_status check_line(const scan *s)
{
    const size_t n = (size_t)(s->end - s->at);
    if (n > DTI_PLAN_LINE_BYTES)
        return scan_bad(
            s, "the line has %zu bytes, at most %d are allowed", n, DTI_PLAN_LINE_BYTES);
    for (const char *p = s->at; p < s->end; p++)
        if (*p < ' ' || *p > '~')
            return scan_bad(s, "byte 0x%02x in column %td; write \\x%02x", (unsigned char)*p,
                p - s->at + 1, (unsigned char)*p);
    return DT_OK;
}

/* Go to the next line that is no comment and not blank; *more is false at the end of the text. */
static dt_status scan_line(scan *s, bool *more)
{
    while (s->next < s->stop) {
        const char *end = memchr(s->next, '\n', (size_t)(s->stop - s->next));
        s->line++;
        s->at = s->next;
        s->end = end != NULL ? end : s->stop;
        s->next = end != NULL ? end + 1 : s->stop;
        if (end != NULL && end > s->at && end[-1] == '\r')
            s->end--;
        while (s->at < s->end && *s->at == ' ')
            s->at++;
        *more = s->at < s->end && *s->at != '#';
        if (*more)
            return check_line(s);
    }
    *more = false;
    return DT_OK;
}

/* The next word of the line, or one of no bytes at its end. */
static word scan_word(scan *s)
{
    while (s->at < s->end && *s->at == ' ')
        s->at++;
    word w = {s->at, 0};
    while (s->at < s->end && *s->at != ' ')
        s->at++;
    w.n = (size_t)(s->at - w.p);
    return w;
}

/* The rest of the line without blanks around. */
static word scan_rest(scan *s)
{
    while (s->at < s->end && *s->at == ' ')
        s->at++;
    const char *end = s->end;
    while (end > s->at && end[-1] == ' ')
        end--;
    const word w = {s->at, (size_t)(end - s->at)};
    s->at = s->end;
    return w;
}

static bool word_is(word w, const char *text)
{
    return w.n == strlen(text) && memcmp(w.p, text, w.n) == 0;
}

/* The first of @n that is called so, or -1. */
static int find_word(word w, const char *(*name)(int i), int n)
{
    for (int i = 0; i < n; i++)
        if (word_is(w, name(i)))
            return i;
    return -1;
}

/* Take text off the front of *w, if it begins so. */
static bool word_take(word *w, const char *text)
{
    const size_t n = strlen(text);
    if (w->n < n || memcmp(w->p, text, n) != 0)
        return false;
    *w = (word){w->p + n, w->n - n};
    return true;
}

/* What is before the last c, which is dropped, and after it; false without a c. */
static bool word_cut(word w, char c, word *before, word *after)
{
    for (size_t i = w.n; i-- > 0;)
        if (w.p[i] == c) {
            *before = (word){w.p, i};
            *after = (word){w.p + i + 1, w.n - i - 1};
            return true;
        }
    return false;
}

/* Decimal, without sign, blanks or leading zeros, at most @most. */
static dt_status scan_number(const scan *s, const char *what, word w, uint64_t most, uint64_t *out)
{
    const char *at = w.p, *end = w.p + w.n;
    const bool written = w.n > 0 && (w.n == 1 || w.p[0] != '0');
    uint64_t v = 0;
    const bool fits = !written || dt_scan_u64(&at, end, &v);
    if (!written || (fits && at != end))
        return scan_bad(s, "%s '%.*s' is not a decimal number", what, SHOW(w));
    if (!fits || v > most)
        return scan_bad(s, "%s %.*s is larger than %" PRIu64, what, SHOW(w), most);
    *out = v;
    return DT_OK;
}

/* Finite and not negative. */
static dt_status scan_flops(const scan *s, word w, double *out)
{
    char text[64], *end = text;
    double v = 0;
    if (w.n > 0 && w.n < sizeof text && w.p[0] >= '0' && w.p[0] <= '9') {
        memcpy(text, w.p, w.n);
        text[w.n] = '\0';
        if (strspn(text, "0123456789.e+-") == w.n)
            v = dt_strtod(text, &end);
    }
    if (end == text || *end != '\0' || !isfinite(v))
        return scan_bad(s, "flops '%.*s' is not a finite decimal number", SHOW(w));
    *out = v;
    return DT_OK;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Undo the escapes; to holds @bytes, NUL included. */
static dt_status scan_escaped(const scan *s, const char *what, word w, char *to, size_t bytes)
{
    size_t k = 0;
    if (w.n == 0)
        return scan_bad(s, "%s is missing", what);
    if (!word_is(w, "\\"))
        for (size_t i = 0; i < w.n; k++) {
            char c = w.p[i++];
            if (c == '\\') {
                const int high = w.n - i >= 3 ? hex_digit(w.p[i + 1]) : -1;
                const int low = high >= 0 ? hex_digit(w.p[i + 2]) : -1;
                if (low < 0 || w.p[i] != 'x' || high + low == 0)
                    return scan_bad(s,
                        "%s '%.*s': \\ is not followed by x and two of 0-9a-f, not 00", what,
                        SHOW(w));
                c = (char)(high * 16 + low);
                i += 3;
            }
            if (k + 1 >= bytes)
                return scan_bad(s, "%s '%.*s' is longer than %zu bytes", what, SHOW(w), bytes - 1);
            to[k] = c;
        }
    to[k] = '\0';
    return DT_OK;
}

/* ---- the names of a section, found by name once the section is over ---- */

/**
 * struct dict - the names of a table.
 * @what:   of its records, for messages
 * @names:  the first name; the next ones follow every @each bytes
 * @sorted: NULL until the section is over
 */
typedef struct dict {
    const char *what, *names;
    size_t each, n, cap;
    struct mark {
        size_t line;
        bool numbered; /* declared with #INDEX */
    } * mark;
    dti_entry *sorted;
} dict;

/* A name as it stands in the text: NAME or NAME#INDEX. */
typedef struct reference {
    char name[DT_TENSOR_NAME_BYTES];
    bool numbered;
    uint64_t index;
} reference;

static dt_status read_reference(const dict *d, const scan *s, word w, reference *r)
{
    word name = w, index;
    r->numbered = word_cut(w, '#', &name, &index);
    if (r->numbered)
        DT_CHECK(scan_number(s, d->what, index, INT32_MAX, &r->index));
    return scan_escaped(s, d->what, name, r->name, sizeof r->name);
}

/* The next record's name, with its escapes undone. */
static dt_status dict_declare(dict *d, const scan *s, word w, char name[DT_TENSOR_NAME_BYTES])
{
    reference r;
    if (!dt_grow(&d->mark, &d->cap, d->n, sizeof *d->mark))
        return scan_no_memory(s);
    DT_CHECK(read_reference(d, s, w, &r));
    if (r.numbered && r.index != d->n)
        return scan_bad(s, "%s '%.*s' has number %zu", d->what, SHOW(w), d->n);
    memcpy(name, r.name, strlen(r.name) + 1);
    d->mark[d->n++] = (struct mark){s->line, r.numbered};
    return DT_OK;
}

/* The section is over. Refuses a name that stands for two records. */
static dt_status dict_close(dict *d, const scan *s, const char *names, size_t each)
{
    d->names = names;
    d->each = each;
    d->sorted = dt_alloc(d->n, sizeof *d->sorted);
    if (d->sorted == NULL)
        return scan_no_memory(s);
    for (size_t i = 0; i < d->n; i++)
        d->sorted[i] = (dti_entry){names + i * each, (int32_t)i};
    dti_sort_entries(d->sorted, d->n);
    for (size_t i = 1; i < d->n; i++) {
        const dti_entry *a = &d->sorted[i - 1], *b = &d->sorted[i];
        const struct mark *ma = &d->mark[a->id], *mb = &d->mark[b->id];
        if (strcmp(a->text, b->text) == 0 && !(ma->numbered && mb->numbered)) {
            scan at = *s;
            char name[DTI_CELL_BYTES];
            dti_escape_name(b->text, name);
            at.line = mb->line;
            return scan_bad(&at,
                "%s '%.60s' is already on line %zu; tell them apart by #%" PRId32 " and #%" PRId32,
                d->what, name, ma->line, a->id, b->id);
        }
    }
    return DT_OK;
}

/* Place of the first entry that is not before text. */
static size_t lower_bound(const dict *d, const char *text)
{
    size_t low = 0, high = d->n;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (strcmp(d->sorted[mid].text, text) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static dt_status dict_find(const dict *d, const scan *s, word w, int32_t *id)
{
    reference r;
    DT_CHECK(read_reference(d, s, w, &r));
    const size_t at = lower_bound(d, r.name);
    uint64_t i = d->n;
    if (r.numbered)
        i = r.index;
    else if (at < d->n)
        i = (uint64_t)d->sorted[at].id;
    if (i >= d->n || strcmp(d->names + i * d->each, r.name) != 0)
        return scan_bad(s, "there is no %s '%.*s'", d->what, SHOW(w));
    if (!r.numbered && at + 1 < d->n && strcmp(d->sorted[at + 1].text, r.name) == 0)
        return scan_bad(s, "several are called %s '%.*s'; add #NUMBER", d->what, SHOW(w));
    *id = (int32_t)i;
    return DT_OK;
}

static void dict_deinit(dict *d)
{
    dt_free(d->mark);
    dt_free(d->sorted);
}

/* ---- header and tables ---- */

typedef enum section { IN_HEADER, IN_REFUSALS, IN_NODES, IN_TENSORS, IN_OPS, IN_ROWS } section;

typedef struct parser {
    scan s;
    dt_plan *p;
    size_t cap_refused, cap_node, cap_text, cap_tensor, cap_op, cap_arg, cap_row, cap_line,
        cap_reason;
    section section;
    dict nodes, tensors, ops;
} parser;

static dt_status line_end(parser *x)
{
    const word w = scan_rest(&x->s);
    return w.n == 0 ? DT_OK : scan_bad(&x->s, "'%.*s' is one field too many", SHOW(w));
}

/* LETTER:compute, LETTER:compute/host, or LETTER:KIND/TIER */
static dt_status parse_stream(parser *x, word w)
{
    dt_plan *p = x->p;
    word letter, kind, tier = {w.p, 0};
    dt_stream s = {.kind = 0};
    if (!word_cut(w, ':', &letter, &kind) || letter.n != 1 || letter.p[0] < 'a' ||
        letter.p[0] > 'z')
        return scan_bad(&x->s, "stream '%.*s' is not LETTER:KIND/TIER", SHOW(w));
    s.letter = letter.p[0];
    (void)word_cut(kind, '/', &kind, &tier);
    const int of_kind = find_word(kind, dti_stream_kind_name, DT_STREAM_KINDS);
    const bool alone = of_kind == DT_STREAM_COMPUTE && tier.n == 0;
    const int of_tier = alone ? 0 : find_word(tier, dt_tier_name, DT_TIERS);
    if (of_kind < 0 || of_tier < 0 ||
        (of_kind == DT_STREAM_COMPUTE && !alone && of_tier != DT_TIER_HOST))
        return scan_bad(&x->s,
            "stream '%.*s' is neither compute, compute/host, nor in or out and a tier", SHOW(w));
    s.kind = (uint8_t)of_kind;
    s.tier = (uint8_t)of_tier;
    for (int i = 0; i < p->n_stream; i++)
        if (p->stream[i].letter == s.letter)
            return scan_bad(&x->s, "two streams are called %c", s.letter);
    if (p->n_stream == DT_MAX_STREAMS)
        return scan_bad(&x->s, "more than %d streams", DT_MAX_STREAMS);
    p->stream[p->n_stream++] = s;
    return DT_OK;
}

static dt_status parse_streams(parser *x, word w)
{
    if (word_is(w, "-"))
        return DT_OK;
    for (size_t from = 0, to = 0; to <= w.n; to++)
        if (to == w.n || w.p[to] == ',') {
            DT_CHECK(parse_stream(x, (word){w.p + from, to - from}));
            from = to + 1;
        }
    return DT_OK;
}

static dt_status parse_field(parser *x, const dti_field *f)
{
    word w = scan_word(&x->s);
    char *to = (char *)x->p + f->at;
    uint64_t v = 0;
    const word whole = w;
    if (!word_take(&w, f->key) || !word_take(&w, "="))
        return scan_bad(&x->s, "'%.*s' stands where %s=... is due", SHOW(whole), f->key);
    if (f->kind == DTI_STREAM_TABLE)
        return parse_streams(x, w);
    if (f->kind == DTI_TEXT)
        return scan_escaped(&x->s, f->key, w, to, f->bytes);
    const uint64_t most = f->kind == DTI_U64   ? UINT64_MAX
                          : f->kind == DTI_I64 ? INT64_MAX
                                               : INT32_MAX;
    DT_CHECK(scan_number(&x->s, f->key, w, most, &v));
    const int32_t small = (int32_t)(v & INT32_MAX);
    memcpy(to, f->kind == DTI_I32 ? (const void *)&small : (const void *)&v, f->bytes);
    return DT_OK;
}

static dt_status parse_header(parser *x)
{
    word w = scan_word(&x->s);
    if (!word_is(w, "dt-plan"))
        return scan_bad(
            &x->s, "'%.*s' begins no plan: a plan begins with 'dt-plan " DTI_VERSION "'", SHOW(w));
    w = scan_word(&x->s);
    if (!word_is(w, DTI_VERSION))
        return scan_bad(&x->s,
            "version '%.*s' of the format is not read, only " DTI_VERSION
            ": write the plan again, as dnntrain plan CONFIG --text FILE does",
            SHOW(w));
    for (size_t i = 0; i < DTI_FIELDS; i++)
        DT_CHECK(parse_field(x, &dti_fields[i]));
    return line_end(x);
}

enum { MOST_REFUSED = 64 }; /* no ladder has so many rungs */

static dt_status parse_refused(parser *x)
{
    dt_plan *p = x->p;
    dt_plan_refusal r = {.policy = ""};
    if (p->n_refused == MOST_REFUSED)
        return scan_bad(&x->s, "more than %d refusals", (int)MOST_REFUSED);
    if (!dt_grow(&p->refused, &x->cap_refused, p->n_refused, sizeof *p->refused))
        return scan_no_memory(&x->s);
    DT_CHECK(scan_escaped(&x->s, "policy", scan_word(&x->s), r.policy, sizeof r.policy));
    DT_CHECK(
        scan_escaped(&x->s, "algorithms", scan_word(&x->s), r.algorithms, sizeof r.algorithms));
    DT_CHECK(scan_escaped(&x->s, "why", scan_rest(&x->s), r.why, sizeof r.why));
    p->refused[p->n_refused++] = r;
    return DT_OK;
}

/* OFFSET, in the arena, or TIER:OFFSET, or TIER:OFFSET/NEXT. */
static dt_status parse_home(const parser *x, word w, dt_plan_tensor *t)
{
    word tier, at = w, off, next = w;
    bool two = false;
    t->persistent = true;
    if (word_cut(w, ':', &tier, &at)) {
        const int of_tier = find_word(tier, dt_tier_name, DT_TIERS);
        if (of_tier < DT_TIER_HOST)
            return scan_bad(&x->s, "no tensor lives in the tier '%.*s'", SHOW(tier));
        t->tier = (uint8_t)of_tier;
        two = word_cut(at, '/', &off, &next);
        at = two ? off : at;
    }
    DT_CHECK(scan_number(&x->s, "home", at, UINT64_MAX, &t->home));
    t->next = t->home;
    return two ? scan_number(&x->s, "next", next, UINT64_MAX, &t->next) : DT_OK;
}

static dt_status parse_tensor(parser *x)
{
    dt_plan *p = x->p;
    dt_plan_tensor t = {.name = ""};
    char role[32];
    if (!dt_grow(&p->tensor, &x->cap_tensor, p->n_tensor, sizeof *p->tensor))
        return scan_no_memory(&x->s);
    DT_CHECK(dict_declare(&x->tensors, &x->s, scan_word(&x->s), t.name));
    DT_CHECK(scan_escaped(&x->s, "role", scan_word(&x->s), role, sizeof role));
    if (dt_role_find(role) < 0)
        return scan_bad(&x->s, "role '%s' is not known", role);
    t.role = (uint16_t)dt_role_find(role);
    DT_CHECK(scan_number(&x->s, "bytes", scan_word(&x->s), UINT64_MAX, &t.bytes));
    const word home = scan_word(&x->s);
    if (!word_is(home, "-"))
        DT_CHECK(parse_home(x, home, &t));
    p->tensor[p->n_tensor++] = t;
    return line_end(x);
}

/* Undo the escapes of what may have blanks, into the plan's text. */
static dt_status parse_options(parser *x, word w, size_t *at)
{
    dt_plan *p = x->p;
    *at = p->n_text;
    for (size_t i = 0; i <= w.n; i++) {
        char c = i < w.n ? w.p[i] : '\0';
        if (!dt_grow(&p->text, &x->cap_text, p->n_text, 1))
            return scan_no_memory(&x->s);
        if (c == '\\') {
            char one[2];
            const word code = {w.p + i, w.n - i < 4 ? w.n - i : 4};
            DT_CHECK(scan_escaped(&x->s, "options", code, one, sizeof one));
            if (one[0] == '\0')
                return scan_bad(&x->s, "options '%.*s' end in \\", SHOW(w));
            c = one[0];
            i += 3;
        }
        p->text[p->n_text++] = c;
    }
    return DT_OK;
}

static dt_status parse_node(parser *x)
{
    dt_plan *p = x->p;
    dt_plan_node n = {.opts = 0};
    char name[DT_TENSOR_NAME_BYTES];
    if (!dt_grow(&p->node, &x->cap_node, p->n_node, sizeof *p->node))
        return scan_no_memory(&x->s);
    DT_CHECK(dict_declare(&x->nodes, &x->s, scan_word(&x->s), name));
    if (strlen(name) >= sizeof n.name)
        return scan_bad(&x->s, "node '%.60s...' has more than %zu bytes", name, sizeof n.name - 1);
    memcpy(n.name, name, strlen(name) + 1);
    DT_CHECK(parse_options(x, scan_rest(&x->s), &n.opts));
    p->node[p->n_node++] = n;
    return DT_OK;
}

/* PORT= off the front of *w; what names no kernel has none. */
static dt_status parse_port(parser *x, word *w, uint8_t *port)
{
    word before, after;
    char name[DTI_PORT_BYTES];
    *port = DT_PORTS;
    if (!word_cut(*w, '=', &before, &after))
        return DT_OK;
    *w = after;
    for (int i = 0; i < DT_PORTS; i++) {
        dti_port_name(i, name);
        if (word_is(before, name)) {
            *port = (uint8_t)i;
            return DT_OK;
        }
    }
    return scan_bad(&x->s, "port '%.*s' is not known", SHOW(before));
}

/* [PORT=]NAME or [PORT=]NAME[from,to) */
static dt_status parse_arg(parser *x, word w, int mode)
{
    dt_plan *p = x->p;
    dt_plan_arg a = {.mode = (uint8_t)mode};
    DT_CHECK(parse_port(x, &w, &a.port));
    word name = w, range, from, to;
    const bool part = word_cut(w, '[', &name, &range);
    DT_CHECK(dict_find(&x->tensors, &x->s, name, &a.tensor));
    const uint64_t bytes = p->tensor[a.tensor].bytes;
    a.to = bytes;
    if (part) {
        if (range.n == 0 || range.p[range.n - 1] != ')' || !word_cut(range, ',', &from, &to))
            return scan_bad(&x->s, "'%.*s' does not end in [from,to)", SHOW(w));
        to.n--;
        DT_CHECK(scan_number(&x->s, "end of the range", to, bytes, &a.to));
        DT_CHECK(scan_number(&x->s, "start of the range", from, a.to, &a.from));
    }
    if (!dt_grow(&p->arg, &x->cap_arg, p->n_arg, sizeof *p->arg))
        return scan_no_memory(&x->s);
    p->arg[p->n_arg++] = a;
    return DT_OK;
}

static dt_status parse_safe(parser *x, word w, dt_plan_op *o)
{
    word out, in;
    if (o->n_safe == DT_MAX_OVER)
        return scan_bad(&x->s, "'%.*s': more than %d safe pairs", SHOW(w), DT_MAX_OVER);
    if (!word_cut(w, '/', &out, &in))
        return scan_bad(&x->s, "'%.*s' is not OUT/IN", SHOW(w));
    DT_CHECK(dict_find(&x->tensors, &x->s, out, &o->safe[o->n_safe].out));
    DT_CHECK(dict_find(&x->tensors, &x->s, in, &o->safe[o->n_safe].in));
    o->n_safe++;
    return DT_OK;
}

static dt_status parse_algorithm(parser *x, word w, dt_plan_op *o)
{
    word name, work;
    if (o->algorithm[0] != '\0')
        return scan_bad(&x->s, "a second k:%.*s", SHOW(w));
    if (!word_cut(w, '/', &name, &work))
        return scan_bad(&x->s, "'%.*s' is not ALGORITHM/WORK", SHOW(w));
    DT_CHECK(scan_escaped(&x->s, "algorithm", name, o->algorithm, sizeof o->algorithm));
    if (o->algorithm[0] == '\0')
        return scan_bad(&x->s, "'%.*s' names no algorithm", SHOW(w));
    return scan_number(&x->s, "scratch of the algorithm", work, UINT64_MAX, &o->work);
}

/* LAYER/FORM */
static dt_status parse_kernel(parser *x, word w, dt_plan_op *o)
{
    word layer, form;
    if (o->layer[0] != '\0')
        return scan_bad(&x->s, "a second do:%.*s", SHOW(w));
    if (!word_cut(w, '/', &layer, &form))
        return scan_bad(&x->s, "'%.*s' is not LAYER/FORM", SHOW(w));
    DT_CHECK(scan_escaped(&x->s, "layer", layer, o->layer, sizeof o->layer));
    if (o->layer[0] == '\0')
        return scan_bad(&x->s, "'%.*s' names no layer", SHOW(w));
    o->n1 = x->p->batch;
    const int i = find_word(form, dti_form_name, DT_FORMS);
    if (i < 0)
        return scan_bad(&x->s, "form '%.*s' is not known", SHOW(form));
    o->form = (uint8_t)i;
    return DT_OK;
}

static dt_status parse_samples(parser *x, word w, dt_plan_op *o)
{
    word from, to;
    uint64_t n0 = 0, n1 = 0;
    if (!word_cut(w, '/', &from, &to))
        return scan_bad(&x->s, "'%.*s' is not FROM/TO", SHOW(w));
    DT_CHECK(scan_number(&x->s, "end of the samples", to, INT64_MAX, &n1));
    DT_CHECK(scan_number(&x->s, "start of the samples", from, INT64_MAX, &n0));
    o->n0 = (int64_t)n0;
    o->n1 = (int64_t)n1;
    return DT_OK;
}

static const char *codec_name(int i)
{
    size_t n;
    return dt_codec_all(&n)[i]->name;
}

/* *codec: 1 for the first of them */
static dt_status find_codec(const parser *x, word name, int32_t *codec)
{
    size_t n;
    (void)dt_codec_all(&n);
    *codec = find_word(name, codec_name, (int)n) + 1;
    return *codec > 0 ? DT_OK : scan_bad(&x->s, "codec '%.*s' is not known", SHOW(name));
}

/* CODEC/BYTES */
static dt_status parse_packing(parser *x, word w, dt_plan_op *o)
{
    word name, bytes;
    if (!word_cut(w, '/', &name, &bytes))
        return scan_bad(&x->s, "'%.*s' is not CODEC/BYTES", SHOW(w));
    DT_CHECK(find_codec(x, name, &o->codec));
    return scan_number(&x->s, "packed bytes", bytes, UINT64_MAX, &o->packed);
}

/* What a kernel is told; *known becomes false for other words. */
static dt_status parse_call(parser *x, word w, dt_plan_op *o, bool *known)
{
    uint64_t v = 0;
    *known = true;
    if (word_take(&w, "do:"))
        return parse_kernel(x, w, o);
    if (o->layer[0] != '\0') {
        if (word_take(&w, "of:"))
            return dict_find(&x->nodes, &x->s, w, &o->node);
        if (word_take(&w, "samples:"))
            return parse_samples(x, w, o);
        if (word_take(&w, "codec:"))
            return parse_packing(x, w, o);
        if (word_take(&w, "alt:")) {
            DT_CHECK(scan_number(&x->s, "alternative", w, DT_MAX_ALT - 1, &v));
            o->alt = (uint8_t)v;
            return DT_OK;
        }
        if (word_take(&w, "count:")) {
            DT_CHECK(scan_number(&x->s, "count", w, INT64_MAX, &v));
            o->count = (int64_t)v;
            return DT_OK;
        }
        if (word_take(&w, "limit:"))
            return scan_number(&x->s, "limit", w, SIZE_MAX, &o->limit);
        if (word_take(&w, "type:")) {
            o->dtype = DT_BF16;
            return word_is(w, dt_dtype_name(DT_BF16))
                       ? DT_OK
                       : scan_bad(&x->s, "type '%.*s' is not known", SHOW(w));
        }
        o->needs_dx = o->needs_dx || word_is(w, "dx");
        o->vector = o->vector || word_is(w, "vector");
        o->on_host = o->on_host || word_is(w, "host");
    }
    *known =
        o->layer[0] != '\0' && (word_is(w, "dx") || word_is(w, "vector") || word_is(w, "host"));
    return DT_OK;
}

static dt_status parse_op(parser *x)
{
    dt_plan *p = x->p;
    dt_plan_op o = {.first = (int32_t)p->n_arg, .node = DT_NONE};
    char kind[32];
    if (!dt_grow(&p->op, &x->cap_op, p->n_op, sizeof *p->op))
        return scan_no_memory(&x->s);
    DT_CHECK(dict_declare(&x->ops, &x->s, scan_word(&x->s), o.name));
    DT_CHECK(scan_escaped(&x->s, "kind of op", scan_word(&x->s), kind, sizeof kind));
    if (dt_op_kind_find(kind) < 0)
        return scan_bad(&x->s, "kind of op '%s' is not known", kind);
    o.kind = (uint16_t)dt_op_kind_find(kind);
    DT_CHECK(scan_flops(&x->s, scan_word(&x->s), &o.flops));
    for (word w = scan_word(&x->s); w.n > 0; w = scan_word(&x->s)) {
        word v = w;
        bool known;
        DT_CHECK(parse_call(x, w, &o, &known));
        if (known)
            continue;
        if (word_take(&v, "s:"))
            DT_CHECK(parse_safe(x, v, &o));
        else if (word_take(&v, "r:"))
            DT_CHECK(parse_arg(x, v, DT_READ));
        else if (word_take(&v, "w:"))
            DT_CHECK(parse_arg(x, v, DT_WRITE));
        else if (word_take(&v, "u:"))
            DT_CHECK(parse_arg(x, v, DT_UPDATES));
        else if (word_take(&v, "k:"))
            DT_CHECK(parse_algorithm(x, v, &o));
        else
            return scan_bad(&x->s,
                "'%.*s' does not begin with do:, r:, w:, u:, s: or k:, and behind do: it is not "
                "dx, vector or host, nor begins with of:, samples:, codec:, alt:, count:, limit: "
                "or type:",
                SHOW(w));
    }
    o.n = (int32_t)p->n_arg - o.first;
    p->op[p->n_op++] = o;
    return DT_OK;
}

/* ---- rows and their reasons ---- */

static dt_status parse_kind(const parser *x, const word cell[DTI_COLUMNS], dt_row *r)
{
    const word s = cell[DTI_STREAM], k = cell[DTI_KIND];
    int stream = 0;
    while (stream < x->p->n_stream && !(s.n == 1 && s.p[0] == x->p->stream[stream].letter))
        stream++;
    if (stream == x->p->n_stream)
        return scan_bad(&x->s, "stream '%.*s' is none of the header's", SHOW(s));
    r->stream = (uint8_t)stream;
    const int kind = find_word(k, dt_row_name, DT_ROW_KINDS);
    if (kind < 0)
        return scan_bad(&x->s, "kind of row '%.*s' is not known", SHOW(k));
    r->kind = (uint16_t)kind;
    return DT_OK;
}

/* What the kind must have is there, and nothing else. */
static dt_status check_columns(const parser *x, const word cell[DTI_COLUMNS], const dt_row *r)
{
    static const char *const names[DTI_COLUMNS] = {"number", "stream", "kind", "op", "tensor",
        "off", "bytes", "event", "over", "slot", "reason"};
    const dti_row_rule rule = dti_row_rules[r->kind];
    for (int i = DTI_OP; i <= DTI_SLOT; i++) {
        const bool given = !word_is(cell[i], "-");
        if (cell[i].n == 0)
            return scan_bad(&x->s, "the row ends before its %s", names[i]);
        if (!given && (rule.needs & DTI_COLUMN_BIT(i)) != 0)
            return scan_bad(&x->s, "%s needs its %s", dt_row_name(r->kind), names[i]);
        if (given && ((rule.needs | rule.may) & DTI_COLUMN_BIT(i)) == 0)
            return scan_bad(&x->s, "%s has no %s, but here stands '%.*s'", dt_row_name(r->kind),
                names[i], SHOW(cell[i]));
    }
    return DT_OK;
}

static dt_status parse_event(const parser *x, word w, int32_t *event)
{
    uint64_t v = 0;
    if (!word_take(&w, "e"))
        return scan_bad(&x->s, "event '%.*s' does not begin with e", SHOW(w));
    DT_CHECK(scan_number(&x->s, "event", w, INT32_MAX, &v));
    if (v >= (uint64_t)x->p->n_event)
        return scan_bad(
            &x->s, "event %" PRIu64 ", but the header says events=%" PRId32, v, x->p->n_event);
    *event = (int32_t)v;
    return DT_OK;
}

/* Takes =CODEC off the end of *w. */
static dt_status parse_codec(const parser *x, word *w, dt_row *r)
{
    word name;
    if (!word_cut(*w, '=', w, &name))
        return scan_bad(&x->s, "'%.*s' is not TIER:OFFSET=CODEC/BYTES", SHOW(*w));
    return find_codec(x, name, &r->codec);
}

static dt_status parse_slot(const parser *x, word w, dt_row *r)
{
    word tier, at, stored;
    r->stored = r->bytes;
    if (word_cut(w, '/', &w, &stored)) {
        DT_CHECK(parse_codec(x, &w, r));
        DT_CHECK(scan_number(&x->s, "bytes of the slot", stored, UINT64_MAX, &r->stored));
    }
    if (!word_cut(w, ':', &tier, &at))
        return scan_bad(&x->s, "slot '%.*s' is not TIER:OFFSET", SHOW(w));
    const int i = find_word(tier, dt_tier_name, DT_TIERS);
    if (i < 0)
        return scan_bad(&x->s, "tier '%.*s' is not known", SHOW(tier));
    r->tier = (uint8_t)i;
    r->stored = i == DT_TIER_INPUT ? 0 : r->stored;
    return scan_number(&x->s, "slot", at, UINT64_MAX, &r->slot);
}

/* Every reason is kept as it comes; equal ones become one at the end. */
static dt_status parse_reason(parser *x, word w, int32_t *reason)
{
    dt_plan *p = x->p;
    char(*to)[DT_REASON_BYTES];
    if (!dt_grow(&p->reason, &x->cap_reason, p->n_reason, sizeof *p->reason))
        return scan_no_memory(&x->s);
    to = &p->reason[p->n_reason];
    DT_CHECK(scan_escaped(&x->s, "reason", w, *to, sizeof *to));
    *reason = (int32_t)p->n_reason++;
    return DT_OK;
}

static dt_status parse_cells(parser *x, const word cell[DTI_COLUMNS], dt_row *r)
{
    if (!word_is(cell[DTI_OP], "-"))
        DT_CHECK(dict_find(&x->ops, &x->s, cell[DTI_OP], &r->op));
    if (!word_is(cell[DTI_TENSOR], "-"))
        DT_CHECK(dict_find(&x->tensors, &x->s, cell[DTI_TENSOR], &r->tensor));
    if (!word_is(cell[DTI_OFF], "-"))
        DT_CHECK(scan_number(&x->s, "off", cell[DTI_OFF], UINT64_MAX, &r->off));
    if (!word_is(cell[DTI_BYTES], "-"))
        DT_CHECK(scan_number(&x->s, "bytes", cell[DTI_BYTES], UINT64_MAX, &r->bytes));
    if (!word_is(cell[DTI_EVENT], "-"))
        DT_CHECK(parse_event(x, cell[DTI_EVENT], &r->event));
    if (!word_is(cell[DTI_OVER], "-"))
        DT_CHECK(dict_find(&x->tensors, &x->s, cell[DTI_OVER], &r->over));
    if (!word_is(cell[DTI_SLOT], "-"))
        DT_CHECK(parse_slot(x, cell[DTI_SLOT], r));
    if (!word_is(cell[DTI_REASON], "-"))
        DT_CHECK(parse_reason(x, cell[DTI_REASON], &r->reason));
    return DT_OK;
}

static dt_status parse_row(parser *x)
{
    dt_plan *p = x->p;
    word cell[DTI_COLUMNS];
    dt_row r = {
        .op = DT_NONE, .tensor = DT_NONE, .over = DT_NONE, .event = DT_NONE, .reason = DT_NONE};
    uint64_t index = p->n_row;
    if (!dt_grow(&p->row, &x->cap_row, p->n_row, sizeof *p->row) ||
        !dt_grow(&p->line, &x->cap_line, p->n_row, sizeof *p->line))
        return scan_no_memory(&x->s);
    for (int i = 0; i < DTI_REASON; i++)
        cell[i] = scan_word(&x->s);
    cell[DTI_REASON] = scan_rest(&x->s);
    if (!word_is(cell[DTI_ROW], "-")) /* by hand, among others */
        DT_CHECK(scan_number(&x->s, "number of the row", cell[DTI_ROW], UINT64_MAX, &index));
    if (index != p->n_row)
        return scan_bad(&x->s,
            "row %" PRIu64 " stands where row %zu is due; - stands for whichever is", index,
            p->n_row);
    DT_CHECK(parse_kind(x, cell, &r));
    DT_CHECK(check_columns(x, cell, &r));
    DT_CHECK(parse_cells(x, cell, &r));
    p->line[p->n_row] = x->s.line;
    p->row[p->n_row++] = r;
    return DT_OK;
}

/* Make equal reasons one, numbered in the order in which rows first use them. */
static dt_status merge_reasons(parser *x)
{
    dt_plan *p = x->p;
    size_t n = 0;
    dti_entry *v = dt_alloc(p->n_reason, sizeof *v);
    int32_t *to = v != NULL ? dt_alloc(p->n_reason, sizeof *to) : NULL;
    if (to == NULL) {
        dt_free(v);
        return scan_no_memory(&x->s);
    }
    for (size_t i = 0; i < p->n_reason; i++)
        v[i] = (dti_entry){p->reason[i], (int32_t)i};
    dti_sort_entries(v, p->n_reason);
    /* The first of equal ones has the lowest number. */
    for (size_t i = 0, first = 0; i < p->n_reason; i++) {
        if (strcmp(v[first].text, v[i].text) != 0)
            first = i;
        to[v[i].id] = v[first].id;
    }
    for (size_t i = 0; i < p->n_reason; i++) {
        if (to[i] == (int32_t)i) {
            memmove(p->reason[n], p->reason[i], sizeof *p->reason);
            to[i] = (int32_t)n++;
        } else {
            to[i] = to[to[i]];
        }
    }
    p->n_reason = n;
    for (size_t i = 0; i < p->n_row; i++)
        if (p->row[i].reason != DT_NONE)
            p->row[i].reason = to[p->row[i].reason];
    dt_free(v);
    dt_free(to);
    return DT_OK;
}

/* ---- a plan ---- */

/* Go on to a section; those passed over are empty. */
static dt_status enter(parser *x, section to)
{
    if (to < x->section)
        return scan_bad(&x->s, "refusals come before nodes, nodes before tensors, tensors before "
                               "ops, ops before rows");
    if (x->section < IN_TENSORS && to >= IN_TENSORS)
        DT_CHECK(dict_close(&x->nodes, &x->s, (const char *)x->p->node, sizeof *x->p->node));
    if (x->section < IN_OPS && to >= IN_OPS)
        DT_CHECK(dict_close(&x->tensors, &x->s, (const char *)x->p->tensor, sizeof *x->p->tensor));
    if (x->section < IN_ROWS && to == IN_ROWS)
        DT_CHECK(dict_close(&x->ops, &x->s, (const char *)x->p->op, sizeof *x->p->op));
    x->section = to;
    return DT_OK;
}

static dt_status parse_record(parser *x)
{
    if (x->section == IN_HEADER) {
        DT_CHECK(parse_header(x));
        return enter(x, IN_REFUSALS);
    }
    const char *start = x->s.at;
    const word w = scan_word(&x->s);
    if (word_is(w, "refused")) {
        DT_CHECK(enter(x, IN_REFUSALS));
        return parse_refused(x);
    }
    if (word_is(w, "node")) {
        DT_CHECK(enter(x, IN_NODES));
        return parse_node(x);
    }
    if (word_is(w, "tensor")) {
        DT_CHECK(enter(x, IN_TENSORS));
        return parse_tensor(x);
    }
    if (word_is(w, "op")) {
        DT_CHECK(enter(x, IN_OPS));
        return parse_op(x);
    }
    x->s.at = start;
    DT_CHECK(enter(x, IN_ROWS));
    return parse_row(x);
}

static dt_status parse_text(parser *x)
{
    bool more;
    for (;;) {
        DT_CHECK(scan_line(&x->s, &more));
        if (!more)
            break;
        DT_CHECK(parse_record(x));
    }
    if (x->section == IN_HEADER && x->s.line == 0)
        return DT_FAIL(x->s.err, DT_E_DATA, "%s: there is no plan: it is empty", x->s.name);
    if (x->section == IN_HEADER)
        return scan_bad(&x->s, "there is no plan: no line begins with dt-plan");
    DT_CHECK(enter(x, IN_ROWS));
    if ((size_t)x->p->n_event > x->p->n_row)
        return scan_bad(
            &x->s, "events=%" PRId32 ", but there are only %zu rows", x->p->n_event, x->p->n_row);
    return merge_reasons(x);
}

/* @line: number of the text's first line in its file, less one. */
static dt_status parse(
    dt_plan **out, const char *name, const char *text, size_t bytes, size_t line, dt_err *err)
{
    *out = NULL;
    if (bytes > DTI_PLAN_TEXT_BYTES)
        return DT_FAIL(err, DT_E_DATA, "%s: %zu bytes, at most %d are allowed", name, bytes,
            DTI_PLAN_TEXT_BYTES);
    parser x = {.s = {.name = name,
                    .line = line,
                    .next = dt_behind_mark(text, bytes),
                    .stop = text + bytes,
                    .err = err},
        .p = dt_alloc(1, sizeof *x.p),
        .nodes.what = "node",
        .tensors.what = "tensor",
        .ops.what = "op"};
    if (x.p == NULL)
        return scan_no_memory(&x.s);
    const dt_status st = parse_text(&x);
    dict_deinit(&x.nodes);
    dict_deinit(&x.tensors);
    dict_deinit(&x.ops);
    if (st != DT_OK) {
        dt_plan_destroy(x.p);
        return st;
    }
    *out = x.p;
    return DT_OK;
}

dt_status dti_plan_parse(
    dt_plan **out, const char *name, const char *text, size_t bytes, dt_err *err)
{
    return parse(out, name, text, bytes, 0, err);
}

static bool begins_plan(const char *at, const char *end)
{
    static const char start[] = "dt-plan ";
    const size_t n = sizeof start - 1;
    while (at < end && *at == ' ')
        at++;
    return (size_t)(end - at) >= n && memcmp(at, start, n) == 0;
}

/* Where the plan behind the one at @from begins, and how many lines there are up to there. */
static const char *next_plan(const char *from, const char *end, size_t *lines)
{
    const char *at = from;
    bool within = false;
    *lines = 0;
    while (at < end && !(within && begins_plan(at, end))) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        within = within || begins_plan(at, end);
        at = newline != NULL ? newline + 1 : end;
        ++*lines;
    }
    return at;
}

dt_status dt_plans_parse(
    dt_plans *to, const char *name, const char *text, size_t bytes, dt_err *err)
{
    const char *at = dt_behind_mark(text, bytes), *end = text + bytes;
    size_t line = 0, lines;
    *to = (dt_plans){0};
    if (bytes > DT_PLANS_TEXT_BYTES)
        return DT_FAIL(err, DT_E_DATA, "%s: %zu bytes, at most %d are allowed", name, bytes,
            DT_PLANS_TEXT_BYTES);
    do {
        const char *next = next_plan(at, end, &lines);
        if (!dt_grow(&to->plan, &to->cap, to->n, sizeof(dt_plan *)))
            return DT_FAIL(err, DT_E_NOMEM, "no memory for plans");
        DT_CHECK(parse(&to->plan[to->n], name, at, (size_t)(next - at), line, err));
        to->n++;
        line += lines;
        at = next;
    } while (at < end);
    return DT_OK;
}

void dt_plans_deinit(dt_plans *p)
{
    for (size_t i = 0; i < p->n; i++)
        dt_plan_destroy(p->plan[i]);
    dt_free(p->plan);
    *p = (dt_plans){0};
}
