/* What the lines of a plan say: fields of the header, names of records, cells of rows. */
#include "memory/plan_text/plan_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers_text.h"
#include "memory/codec.h"
#include "memory/plan_text/plan_text_internal.h"

#define FIELD(key, kind, member)                                                                   \
    {                                                                                              \
        key, kind, offsetof(dt_plan, member), sizeof(((dt_plan *)0)->member)                       \
    }
const dti_field dti_fields[DTI_FIELDS] = {
    FIELD("net", DTI_TEXT, net),
    FIELD("device", DTI_TEXT, device),
    FIELD("program", DTI_TEXT, program),
    FIELD("policy", DTI_TEXT, policy),
    FIELD("pool", DTI_TEXT, pool),
    FIELD("batch", DTI_I64, batch),
    FIELD("budget", DTI_U64, budget),
    FIELD("persistent", DTI_U64, persistent),
    FIELD("peak", DTI_U64, peak),
    FIELD("bound", DTI_U64, bound),
    FIELD("host", DTI_U64, tier_peak[DT_TIER_HOST]),
    FIELD("disk", DTI_U64, tier_peak[DT_TIER_DISK]),
    FIELD("out", DTI_U64, out_bytes),
    FIELD("in", DTI_U64, in_bytes),
    FIELD("events", DTI_I32, n_event),
    FIELD("home_n", DTI_I64, home_n),
    FIELD("threads", DTI_I32, threads),
    FIELD("streams", DTI_STREAM_TABLE, stream),
};
#undef FIELD

#define B(c) DTI_COLUMN_BIT(DTI_##c)
#define MEM (B(TENSOR) | B(OFF) | B(BYTES))
const dti_row_rule dti_row_rules[DT_ROW_KINDS] = {
    [DT_ROW_PLACE] = {MEM, B(OVER)},
    [DT_ROW_RELEASE] = {MEM, 0},
    [DT_ROW_COMPUTE] = {B(OP), B(EVENT)},
    [DT_ROW_COPY_OUT] = {MEM | B(SLOT), B(OP) | B(EVENT)},
    [DT_ROW_COPY_IN] = {MEM | B(SLOT), B(OP) | B(EVENT)},
    [DT_ROW_WAIT] = {B(EVENT), 0},
};
#undef MEM
#undef B

/* A name stands between blanks and beside the marks of arguments; a reason has the rest of its
 * line. */
static void escape(const char *s, bool reason, char to[DTI_CELL_BYTES])
{
    static const char hex[] = "0123456789abcdef";
    const size_t n = strlen(s);
    size_t k = 0;
    if (n == 0)
        to[k++] = '\\';
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)s[i];
        const bool plain =
            c > ' ' && c < 0x7f && c != '\\' && (reason || strchr("#[/=", c) == NULL);
        const bool inner = reason && c == ' ' && i > 0 && i + 1 < n;
        if ((plain || inner) && !(c == '-' && n == 1)) {
            to[k++] = (char)c;
        } else {
            to[k++] = '\\';
            to[k++] = 'x';
            to[k++] = hex[c >> 4];
            to[k++] = hex[c & 15];
        }
    }
    to[k] = '\0';
}

static const char *const port_names[] = {
    [DT_X] = "x",
    [DT_DX] = "dx",
    [DT_P] = "p",
    [DT_DP] = "dp",
    [DT_Q] = "q",
    [DT_D] = "d",
    [DT_S] = "s",
    [DT_M] = "m",
    [DT_Y] = "y",
    [DT_DY] = "dy",
    [DT_LABELS] = "labels",
    [DT_METRICS] = "metrics",
    [DT_WORK] = "work",
};
_Static_assert(DT_COUNT(port_names) == DT_PORTS, "a name a port");

static const char *const form_names[DT_FORMS] = {[DT_FORWARD] = "forward",
    [DT_RECOMPUTE] = "recompute",
    [DT_EVAL] = "eval",
    [DT_BACKWARD] = "backward",
    [DT_BACKWARD2] = "backward2",
    [DT_DERIVE_F] = "derive_forward",
    [DT_DERIVE_B] = "derive_backward",
    [DT_RESTORE] = "restore",
    [DT_UPDATE] = "update"};

static const char *const stream_kinds[] = {"compute", "out", "in"};
_Static_assert(DT_COUNT(stream_kinds) == DT_STREAM_KINDS, "a name a kind");

const char *dti_stream_kind_name(int kind)
{
    return stream_kinds[kind];
}

const char *dti_form_name(int form)
{
    return form_names[form];
}

void dti_port_name(int port, char to[DTI_PORT_BYTES])
{
    int first = port < DT_PORTS ? port : DT_PORTS - 1;
    while (port_names[first] == NULL)
        first--;
    const bool one = first >= DT_Y; /* the others are numbered */
    if (port >= DT_PORTS)
        snprintf(to, DTI_PORT_BYTES, "?%d", port);
    else if (one)
        snprintf(to, DTI_PORT_BYTES, "%s", port_names[first]);
    else
        snprintf(to, DTI_PORT_BYTES, "%s%d", port_names[first], port - first);
}

void dti_escape_name(const char *name, char to[DTI_CELL_BYTES])
{
    escape(name, false, to);
}

/* LETTER:KIND/TIER of each stream; the device's that computes has no tier. */
static void streams_text(const dt_plan *p, char to[DTI_CELL_BYTES])
{
    size_t at = 0;
    snprintf(to, DTI_CELL_BYTES, "-");
    for (int s = 0; s < p->n_stream && s < DT_MAX_STREAMS; s++) {
        const dt_stream *x = &p->stream[s];
        at += (size_t)snprintf(to + at, DTI_CELL_BYTES - at, "%s%c:%s", s > 0 ? "," : "", x->letter,
            x->kind < DT_STREAM_KINDS ? stream_kinds[x->kind] : "?");
        if (x->kind != DT_STREAM_COMPUTE || x->tier != 0)
            at += (size_t)snprintf(to + at, DTI_CELL_BYTES - at, "/%s",
                x->tier < DT_TIERS ? dt_tier_name(x->tier) : "?");
    }
}

void dti_field_text(const dt_plan *p, const dti_field *f, char to[DTI_CELL_BYTES])
{
    const char *at = (const char *)p + f->at;
    int64_t i64;
    uint64_t u64;
    int32_t i32;
    switch (f->kind) {
    case DTI_STREAM_TABLE:
        streams_text(p, to);
        return;
    case DTI_TEXT:
        escape(at, false, to);
        return;
    case DTI_I64:
        memcpy(&i64, at, sizeof i64);
        snprintf(to, DTI_CELL_BYTES, "%" PRId64, i64);
        return;
    case DTI_U64:
        memcpy(&u64, at, sizeof u64);
        snprintf(to, DTI_CELL_BYTES, "%" PRIu64, u64);
        return;
    case DTI_I32:
        memcpy(&i32, at, sizeof i32);
        snprintf(to, DTI_CELL_BYTES, "%" PRId32, i32);
        return;
    }
}

static int compare_entries(const void *va, const void *vb)
{
    const dti_entry *a = va, *b = vb;
    const int c = strcmp(a->text, b->text);
    return c != 0 ? c : (a->id > b->id) - (a->id < b->id);
}

void dti_sort_entries(dti_entry *v, size_t n)
{
    qsort(v, n, sizeof *v, compare_entries);
}

/* Whether each of n names, every @each bytes, is borne by another one too; NULL when memory is out.
 */
static bool *find_twice(const char *name, size_t each, size_t n)
{
    dti_entry *v = dt_alloc(n, sizeof *v);
    bool *twice = v != NULL ? dt_alloc(n, sizeof *twice) : NULL;
    if (twice != NULL) {
        for (size_t i = 0; i < n; i++)
            v[i] = (dti_entry){name + i * each, (int32_t)i};
        dti_sort_entries(v, n);
        for (size_t i = 1; i < n; i++)
            if (strcmp(v[i - 1].text, v[i].text) == 0)
                twice[v[i - 1].id] = twice[v[i].id] = true;
    }
    dt_free(v);
    return twice;
}

void dti_names_init(dti_names *n, const dt_plan *p)
{
    n->p = p;
    n->node_twice = find_twice((const char *)p->node, sizeof *p->node, p->n_node);
    n->tensor_twice = find_twice((const char *)p->tensor, sizeof *p->tensor, p->n_tensor);
    n->op_twice = find_twice((const char *)p->op, sizeof *p->op, p->n_op);
}
_Static_assert(offsetof(dt_plan_node, name) == 0 && offsetof(dt_plan_tensor, name) == 0 &&
                   offsetof(dt_plan_op, name) == 0,
    "names are found at the start of their records");

void dti_names_deinit(dti_names *n)
{
    dt_free(n->node_twice);
    dt_free(n->tensor_twice);
    dt_free(n->op_twice);
}

static void name_text(const char *table, size_t each, size_t n, const bool *twice, int32_t id,
    char to[DTI_CELL_BYTES])
{
    if (id < 0 || (size_t)id >= n) {
        snprintf(to, DTI_CELL_BYTES, id == DT_NONE ? "-" : "?%" PRId32, id);
        return;
    }
    const char *name = table + (size_t)id * each;
    bool shared = twice != NULL && twice[id];
    for (size_t i = 0; twice == NULL && i < n; i++)
        shared = shared || (i != (size_t)id && strcmp(name, table + i * each) == 0);
    escape(name, false, to);
    if (shared) {
        const size_t k = strlen(to);
        snprintf(to + k, DTI_CELL_BYTES - k, "#%" PRId32, id);
    }
}

static void node_name(const dti_names *n, int32_t node, char to[DTI_CELL_BYTES])
{
    const dt_plan *p = n->p;
    name_text((const char *)p->node, sizeof *p->node, p->n_node, n->node_twice, node, to);
}

static void tensor_name(const dti_names *n, int32_t tensor, char to[DTI_CELL_BYTES])
{
    const dt_plan *p = n->p;
    name_text((const char *)p->tensor, sizeof *p->tensor, p->n_tensor, n->tensor_twice, tensor, to);
}

static void op_name(const dti_names *n, int32_t op, char to[DTI_CELL_BYTES])
{
    const dt_plan *p = n->p;
    name_text((const char *)p->op, sizeof *p->op, p->n_op, n->op_twice, op, to);
}

/* A number where the kind has one; elsewhere only what should not be there. */
static void number(bool has, uint64_t v, char to[DTI_CELL_BYTES])
{
    if (has || v != 0)
        snprintf(to, DTI_CELL_BYTES, "%" PRIu64, v);
}

/* TIER:OFFSET, and =CODEC/BYTES behind it where the slot holds them packed. */
static void slot_text(const dt_row *r, char to[DTI_CELL_BYTES])
{
    const dt_codec *codec = dt_codec_numbered(r->codec);
    if (r->tier >= DT_TIERS)
        snprintf(to, DTI_CELL_BYTES, "?%d:%" PRIu64, r->tier, r->slot);
    else
        snprintf(to, DTI_CELL_BYTES, "%s:%" PRIu64, dt_tier_name(r->tier), r->slot);
    const size_t k = strlen(to);
    if (codec != NULL)
        snprintf(to + k, DTI_CELL_BYTES - k, "=%s/%" PRIu64, codec->name, r->stored);
    else if (r->codec != 0)
        snprintf(to + k, DTI_CELL_BYTES - k, "=?%" PRId32 "/%" PRIu64, r->codec, r->stored);
}

void dti_row_cells(const dti_names *n, size_t row, dti_cells *c)
{
    const dt_row *r = &n->p->row[row];
    const unsigned needs = r->kind < DT_ROW_KINDS ? dti_row_rules[r->kind].needs : 0;
    for (int i = 0; i < DTI_COLUMNS; i++)
        snprintf(c->text[i], DTI_CELL_BYTES, "-");
    snprintf(c->text[DTI_ROW], DTI_CELL_BYTES, "%zu", row);
    if (r->stream < n->p->n_stream && r->stream < DT_MAX_STREAMS)
        snprintf(c->text[DTI_STREAM], DTI_CELL_BYTES, "%c", n->p->stream[r->stream].letter);
    else
        snprintf(c->text[DTI_STREAM], DTI_CELL_BYTES, "?%d", r->stream);
    if (r->kind < DT_ROW_KINDS)
        snprintf(c->text[DTI_KIND], DTI_CELL_BYTES, "%s", dt_row_name(r->kind));
    else
        snprintf(c->text[DTI_KIND], DTI_CELL_BYTES, "?%d", r->kind);
    op_name(n, r->op, c->text[DTI_OP]);
    tensor_name(n, r->tensor, c->text[DTI_TENSOR]);
    number(needs & DTI_COLUMN_BIT(DTI_OFF), r->off, c->text[DTI_OFF]);
    number(needs & DTI_COLUMN_BIT(DTI_BYTES), r->bytes, c->text[DTI_BYTES]);
    if (r->event != DT_NONE)
        snprintf(c->text[DTI_EVENT], DTI_CELL_BYTES, "e%" PRId32, r->event);
    tensor_name(n, r->over, c->text[DTI_OVER]);
    if ((needs & DTI_COLUMN_BIT(DTI_SLOT)) != 0 || r->tier != 0 || r->slot != 0)
        slot_text(r, c->text[DTI_SLOT]);
    if (r->reason >= 0 && (size_t)r->reason < n->p->n_reason)
        escape(n->p->reason[r->reason], true, c->text[DTI_REASON]);
    else if (r->reason != DT_NONE)
        snprintf(c->text[DTI_REASON], DTI_CELL_BYTES, "?%" PRId32, r->reason);
}

void dti_refusal_line(const dti_names *n, size_t refusal, FILE *f)
{
    const dt_plan_refusal *r = &n->p->refused[refusal];
    char policy[DTI_CELL_BYTES], algorithms[DTI_CELL_BYTES], why[DTI_CELL_BYTES];
    escape(r->policy, false, policy);
    escape(r->algorithms, false, algorithms);
    escape(r->why, true, why);
    fprintf(f, "refused %s %s %s", policy, algorithms, why);
}

void dti_tensor_line(const dti_names *n, size_t tensor, FILE *f)
{
    const dt_plan_tensor *t = &n->p->tensor[tensor];
    char name[DTI_CELL_BYTES], home[DTI_CELL_BYTES] = "-", next[32] = "";
    tensor_name(n, (int32_t)tensor, name);
    if (t->next != t->home)
        snprintf(next, sizeof next, "/%" PRIu64, t->next);
    if (t->persistent && t->tier != DT_AT_DEVICE)
        snprintf(home, sizeof home, "%s:%" PRIu64 "%s",
            t->tier < DT_TIERS ? dt_tier_name(t->tier) : "?", t->home, next);
    else
        number(t->persistent, t->home, home);
    const char *role = t->role < DT_ROLE_COUNT ? dt_role_name((dt_role)t->role) : "?";
    fprintf(f, "tensor %s %s %" PRIu64 " %s", name, role, t->bytes, home);
}

static void arg_text(const dti_names *n, const dt_plan_arg *a, FILE *f)
{
    static const char modes[] = "?rwu"; /* DT_READ, DT_WRITE, DT_UPDATES */
    char name[DTI_CELL_BYTES], port[DTI_PORT_BYTES];
    tensor_name(n, a->tensor, name);
    dti_port_name(a->port, port);
    fprintf(f, " %c:%s%s%s", modes[a->mode <= DT_UPDATES ? a->mode : 0],
        a->port == DT_PORTS ? "" : port, a->port == DT_PORTS ? "" : "=", name);
    const bool known = a->tensor >= 0 && (size_t)a->tensor < n->p->n_tensor;
    if (!known || a->from != 0 || a->to != n->p->tensor[a->tensor].bytes)
        fprintf(f, "[%" PRIu64 ",%" PRIu64 ")", a->from, a->to);
}

void dti_node_line(const dti_names *n, size_t node, FILE *f)
{
    const dt_plan_node *x = &n->p->node[node];
    const char *opts = x->opts < n->p->n_text ? n->p->text + x->opts : "";
    char name[DTI_CELL_BYTES];
    node_name(n, (int32_t)node, name);
    fprintf(f, opts[0] != '\0' ? "node %s " : "node %s", name);
    for (const char *at = opts; *at != '\0'; at++) {
        const bool inner = *at == ' ' && at > opts && at[1] != '\0';
        if (inner || (*at > ' ' && *at <= '~' && *at != '\\'))
            fputc(*at, f);
        else
            fprintf(f, "\\x%02x", (unsigned char)*at);
    }
}

/* CODEC/BYTES, for those that pack. */
static void codec_text(int32_t number, uint64_t bytes, char to[DTI_CELL_BYTES])
{
    const dt_codec *codec = dt_codec_numbered(number);
    if (codec != NULL)
        snprintf(to, DTI_CELL_BYTES, "%s/%" PRIu64, codec->name, bytes);
    else
        snprintf(to, DTI_CELL_BYTES, "?%" PRId32 "/%" PRIu64, number, bytes);
}

/* Which kernel, and what it is told that is not what goes without saying. */
static void kernel_text(const dti_names *n, const dt_plan_op *o, FILE *f)
{
    char name[DTI_CELL_BYTES];
    escape(o->layer, false, name);
    fprintf(f, " do:%s/%s", name, o->form < DT_FORMS ? form_names[o->form] : "?");
    node_name(n, o->node, name);
    if (o->node != DT_NONE)
        fprintf(f, " of:%s", name);
    if (o->alt != 0)
        fprintf(f, " alt:%d", o->alt);
    if (o->dtype != DT_F32)
        fprintf(f, " type:%s", o->dtype == DT_BF16 ? dt_dtype_name(DT_BF16) : "?");
    if (o->n0 != 0 || o->n1 != n->p->batch)
        fprintf(f, " samples:%" PRId64 "/%" PRId64, o->n0, o->n1);
    if (o->count != 0)
        fprintf(f, " count:%" PRId64, o->count);
    if (o->codec != 0 || o->packed != 0) {
        codec_text(o->codec, o->packed, name);
        fprintf(f, " codec:%s", name);
    }
    if (o->limit != DT_LIMIT_ANY)
        fprintf(f, " limit:%" PRIu64, o->limit);
    fprintf(f, "%s%s%s", o->needs_dx ? " dx" : "", o->vector ? " vector" : "",
        o->on_host ? " host" : "");
}

void dti_op_line(const dti_names *n, size_t op, FILE *f)
{
    const dt_plan *p = n->p;
    const dt_plan_op *o = &p->op[op];
    char name[DTI_CELL_BYTES], in[DTI_CELL_BYTES];
    op_name(n, (int32_t)op, name);
    const char *kind = o->kind < DT_OP_KINDS ? dt_op_kind_name((dt_op_kind)o->kind) : "?";
    const bool whole = o->flops == floor(o->flops) && o->flops < 1e15;
    char flops[40];
    dt_snprintf(flops, sizeof flops, whole ? "%.0f" : "%.17g", o->flops);
    fprintf(f, "op %s %s %s", name, kind, flops);
    if (o->layer[0] != '\0')
        kernel_text(n, o, f);
    for (int64_t i = o->first; i < (int64_t)o->first + o->n; i++)
        if (i >= 0 && (size_t)i < p->n_arg)
            arg_text(n, &p->arg[i], f);
    for (int i = 0; i < o->n_safe && i < DT_MAX_OVER; i++) {
        tensor_name(n, o->safe[i].out, name);
        tensor_name(n, o->safe[i].in, in);
        fprintf(f, " s:%s/%s", name, in);
    }
    if (o->algorithm[0] != '\0') {
        escape(o->algorithm, false, name);
        fprintf(f, " k:%s/%" PRIu64, name, o->work);
    }
}

void dti_row_line(const dti_names *n, size_t row, FILE *f)
{
    dti_cells c;
    dti_row_cells(n, row, &c);
    for (int i = DTI_ROW + 1; i < DTI_COLUMNS; i++)
        fprintf(f, i > DTI_ROW + 1 ? " %s" : "%s", c.text[i]);
}
