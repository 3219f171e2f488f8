/* The upper part of a plan's picture: what the addresses hold, op by op. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "session/human.h"
#include "tools/plan_map_internal.h"
#include "tools/xml.h"

enum { LEAST_WIDE = 26, LEAST_TALL = 12, LEAST_LETTERS = 10 }; /* of a box that bears a name */

/* A time that a tensor is on the device. */
typedef struct stay {
    int32_t tensor;
    uint64_t off;
    int64_t from, to;
} stay;

typedef void on_stay(const dti_map *m, const stay *s);

static void leave(dti_map *m, int32_t tensor, int64_t now, on_stay *each)
{
    if (m->since[tensor] < 0)
        return;
    const stay s = {tensor, m->off[tensor], m->since[tensor], now};
    m->since[tensor] = -1;
    each(m, &s);
}

/* Of tensors of one role, or of all (-1). A tensor that takes another's bytes ends its stay. */
static void all_stays(dti_map *m, int role, on_stay *each)
{
    const dt_plan *p = m->p;
    int64_t now = 0;
    for (size_t i = 0; i < p->n_row; i++) {
        const dt_row *r = &p->row[i];
        now += r->kind == DT_ROW_COMPUTE;
        if (r->kind == DT_ROW_PLACE) {
            if (r->over >= 0)
                leave(m, r->over, now, each);
            if (role >= 0 && p->tensor[r->tensor].role != role)
                continue;
            m->since[r->tensor] = now;
            m->off[r->tensor] = r->off;
        } else if (r->kind == DT_ROW_RELEASE) {
            leave(m, r->tensor, now, each);
        }
    }
    for (size_t i = 0; i < p->n_tensor; i++)
        leave(m, (int32_t)i, m->ops, each);
}

static void box(const dti_map *m, const stay *s)
{
    const dt_plan_tensor *t = &m->p->tensor[s->tensor];
    char role[DT_HUMAN_BYTES], bytes[DT_HUMAN_BYTES];
    const double x = dti_map_across(m, (double)s->from);
    const double y = dti_map_up(m, (double)(s->off + t->bytes));
    if (!dti_map_begin(m, NULL, x, y, dti_map_across(m, (double)s->to) - x,
            dti_map_up(m, (double)s->off) - y, s->tensor))
        return;
    dti_xml_text(m->f, t->name);
    fprintf(
        m->f, ", %s, %s", dt_human_role(role, (dt_role)t->role), dt_human_bytes(bytes, t->bytes));
    dti_map_end(m);
}

static bool is_dark(int role)
{
    return role == DT_ROLE_WEIGHTS || role == DT_ROLE_GRADIENTS || role == DT_ROLE_BUFFERS ||
           role == DT_ROLE_OPTIMIZER;
}

static void name_in(
    const dti_map *m, int role, double x, double y, double tall, double wide, const char *name)
{
    const size_t room = wide > 8 ? (size_t)((wide - 8) / DTI_MAP_LETTER) : 0;
    if (wide < LEAST_WIDE || tall < LEAST_TALL || (room < LEAST_LETTERS && strlen(name) > room))
        return;
    fprintf(m->f, "<text%s x=\"%.1f\" y=\"%.1f\">", is_dark(role) ? " class=\"light\"" : "", x + 4,
        y + tall / 2 + 4);
    dti_xml_cut(m->f, name, room);
    fprintf(m->f, "</text>\n");
}

static void box_name(const dti_map *m, const stay *s)
{
    const dt_plan_tensor *t = &m->p->tensor[s->tensor];
    const double x = dti_map_across(m, (double)s->from), end = dti_map_across(m, (double)s->to);
    const double y = dti_map_up(m, (double)(s->off + t->bytes));
    name_in(m, t->role, x, y, dti_map_up(m, (double)s->off) - y, end - x, t->name);
}

/* ---- what stays ---- */

/* What lies mixed at the bottom of the arena is drawn by role: as many bytes, one above the other.
 * @off: from where on; where it ends. */
static uint64_t band(const dti_map *m, int role, uint64_t off, bool name)
{
    char text[96], human[DT_HUMAN_BYTES], bytes[DT_HUMAN_BYTES];
    uint64_t sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < m->p->n_tensor; i++)
        if (dt_plan_resident(&m->p->tensor[i]) && m->p->tensor[i].role == role) {
            sum += m->p->tensor[i].bytes;
            n++;
        }
    if (n == 0)
        return off;
    const double x = dti_map_across(m, 0), y = dti_map_up(m, (double)(off + sum));
    const double wide = dti_map_across(m, (double)m->ops) - x;
    const double tall = dti_map_up(m, (double)off) - y;
    snprintf(text, sizeof text, "%s, %s in %zu tensors", dt_human_role(human, (dt_role)role),
        dt_human_bytes(bytes, sum), n);
    if (name)
        name_in(m, role, x, y, tall, wide, text);
    else if (dti_map_begin(m, dt_role_name((dt_role)role), x, y, wide, tall, role)) {
        fputs(text, m->f);
        dti_map_end(m);
    }
    return off + sum;
}

static void bands(const dti_map *m, bool name)
{
    uint64_t off = 0;
    for (int role = 0; role < DT_ROLE_COUNT; role++)
        off = band(m, role, off, name);
}

void dti_map_addresses(dti_map *m)
{
    fprintf(m->f,
        "<svg x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.1f\" viewBox=\"%d %.1f %d %.1f\">"
        "<g class=\"zoom both\">\n<g data-of=\"role\">\n",
        DTI_MAP_LEFT, m->top, DTI_MAP_WIDTH - DTI_MAP_LEFT - DTI_MAP_RIGHT, m->tall, DTI_MAP_LEFT,
        m->top, DTI_MAP_WIDTH - DTI_MAP_LEFT - DTI_MAP_RIGHT, m->tall);
    bands(m, false);
    fputs("</g>\n", m->f);
    for (int role = 0; role < DT_ROLE_COUNT; role++) {
        fprintf(m->f, "<g class=\"%s\" data-of=\"tensor\">\n", dt_role_name((dt_role)role));
        all_stays(m, role, box);
        fputs("</g>\n", m->f);
    }
    fputs("</g>\n<g class=\"names\">\n", m->f);
    bands(m, true);
    all_stays(m, -1, box_name);
    fputs("</g></svg>\n", m->f);
}

/* ---- numbers beside them ---- */

static void tick(const dti_map *m, uint64_t at)
{
    char bytes[DT_HUMAN_BYTES];
    const double y = dti_map_up(m, (double)at);
    fprintf(m->f,
        "<g data-y=\"%.1f\"><text class=\"end\" x=\"%d\" y=\"%.1f\">%s</text>"
        "<path class=\"line\" d=\"M%d %.1fH%d\"/></g>\n",
        y, DTI_MAP_LEFT - DTI_MAP_GAP, y + 4, dt_human_bytes(bytes, at), DTI_MAP_LEFT - 4, y,
        DTI_MAP_WIDTH - DTI_MAP_RIGHT);
}

/* Or, where the picture would be mostly empty below it, words. */
static void budget(const dti_map *m)
{
    char bytes[DT_HUMAN_BYTES];
    const uint64_t at = m->budget;
    const bool over = m->p->peak > at;
    if (at == 0)
        return;
    const bool drawn = at <= m->scale;
    const double y = drawn ? dti_map_up(m, (double)at) : m->top;
    fprintf(m->f, "<g data-y=\"%.1f\">", y);
    if (drawn)
        fprintf(m->f, "<path class=\"budget\" d=\"M%d %.1fH%d\"/>\n", DTI_MAP_LEFT, y,
            DTI_MAP_WIDTH - DTI_MAP_RIGHT);
    fprintf(m->f, "<text class=\"%s\" x=\"%d\" y=\"%.1f\">budget %s%s</text></g>\n",
        over ? "end limit over" : "end limit", DTI_MAP_WIDTH - DTI_MAP_RIGHT, y - 4,
        dt_human_bytes(bytes, at),
        over    ? ", exceeded"
        : drawn ? ""
                : ", far above");
}

/* The op at which it is. */
static const char *peak_name(const dti_map *m)
{
    int64_t now = 0;
    for (size_t i = 0; i < m->p->n_row; i++)
        if (m->p->row[i].kind == DT_ROW_COMPUTE && now++ == m->peak)
            return m->p->op[m->p->row[i].op].name;
    return "";
}

static void peak(const dti_map *m)
{
    if (m->peak < 0)
        return;
    const double x = dti_map_across(m, (double)m->peak + 0.5);
    const bool right = x > DTI_MAP_WIDTH / 2;
    fprintf(m->f,
        "<g data-x=\"%.1f\"><path class=\"peak\" d=\"M%.1f %.1fl-4-7h8z\"/><text%s x=\"%.1f\" "
        "y=\"%.1f\">peak: ",
        x, x, m->top, right ? " class=\"end\"" : "", right ? x - 8 : x + 8, m->top - 4);
    dti_xml_text(m->f, peak_name(m));
    fprintf(m->f, "</text></g>\n");
}

void dti_map_axis(const dti_map *m)
{
    const double zero = dti_map_up(m, 0), stays = dti_map_up(m, (double)m->p->persistent);
    const double most = dti_map_up(m, (double)m->p->peak);
    fputs("<g class=\"axis\">\n", m->f);
    tick(m, 0);
    if (zero - stays > DTI_MAP_LINE && stays - most > DTI_MAP_LINE)
        tick(m, m->p->persistent);
    tick(m, m->p->peak);
    fputs("</g>\n", m->f);
    budget(m);
    peak(m);
}
