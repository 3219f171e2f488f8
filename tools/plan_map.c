/* A plan as a picture: across, the ops in their order; upwards, addresses, what lies there and how
 * far it goes; what colours mean. */
#include "tools/plan_map.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "session/human.h"
#include "tools/plan_map_lanes.h"
#include "tools/plan_map_time.h"
#include "tools/xml.h"

enum { HEAD = 34, CAPTION = 34, BETWEEN = 18, NETWORK_NAME = 60 };
enum { LEAST_TALL = 12, LEAST_LETTERS = 10, BESIDE = 2 }; /* of a box that bears a name */

/* ---- addresses ---- */

static double up(const dti_map *m, double address)
{
    return m->top + m->tall * (1 - address / (double)m->scale);
}

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
    const double y = up(m, (double)(s->off + t->bytes));
    if (!dti_map_begin(m->f, m->page, NULL, x, y, dti_map_across(m, (double)s->to) - x,
            up(m, (double)s->off) - y, s->tensor))
        return;
    dti_xml_text(m->f, t->name);
    fprintf(
        m->f, ", %s, %s", dt_human_role(role, (dt_role)t->role), dt_human_bytes(bytes, t->bytes));
    dti_map_end(m->f);
}

static bool is_dark(int role)
{
    return role == DT_ROLE_WEIGHTS || role == DT_ROLE_GRADIENTS || role == DT_ROLE_BUFFERS ||
           role == DT_ROLE_OPTIMIZER;
}

static void name_in(
    const dti_map *m, int role, double x, double y, double tall, double wide, const char *name)
{
    const double room = wide - 2 * BESIDE;
    const size_t letters = room > 0 ? (size_t)(room / DTI_MAP_LETTER) : 0;
    const bool whole = dti_map_wide(name, strlen(name)) <= room;
    if (tall < LEAST_TALL || (letters < LEAST_LETTERS && !whole))
        return;
    fprintf(m->f, "<text%s x=\"%.1f\" y=\"%.1f\">", is_dark(role) ? " class=\"light\"" : "",
        x + BESIDE, y + tall / 2 + 4);
    dti_xml_cut(m->f, name, whole ? SIZE_MAX : letters);
    fprintf(m->f, "</text>\n");
}

static void box_name(const dti_map *m, const stay *s)
{
    const dt_plan_tensor *t = &m->p->tensor[s->tensor];
    const double x = dti_map_across(m, (double)s->from), end = dti_map_across(m, (double)s->to);
    const double y = up(m, (double)(s->off + t->bytes));
    name_in(m, t->role, x, y, up(m, (double)s->off) - y, end - x, t->name);
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
    const double x = dti_map_across(m, 0), y = up(m, (double)(off + sum));
    const double wide = dti_map_across(m, (double)m->ops) - x;
    const double tall = up(m, (double)off) - y;
    snprintf(text, sizeof text, "%s, %s in %zu tensor%s", dt_human_role(human, (dt_role)role),
        dt_human_bytes(bytes, sum), n, n == 1 ? "" : "s");
    if (name)
        name_in(m, role, x, y, tall, wide, text);
    else if (dti_map_begin(m->f, m->page, dt_role_name((dt_role)role), x, y, wide, tall, role)) {
        fputs(text, m->f);
        dti_map_end(m->f);
    }
    return off + sum;
}

static void bands(const dti_map *m, bool name)
{
    uint64_t off = 0;
    for (int role = 0; role < DT_ROLE_COUNT; role++)
        off = band(m, role, off, name);
}

/* What all addresses hold: what stays as a band a role, and a box for each time that a tensor is
 * placed, in a group a role; their names where there is room. */
static void addresses(dti_map *m)
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
    const double y = up(m, (double)at);
    fprintf(m->f,
        "<g data-y=\"%.1f\"><text class=\"end\" x=\"%d\" y=\"%.1f\">%s</text>"
        "<path class=\"line\" d=\"M%d %.1fH%d\"/></g>\n",
        y, DTI_MAP_LEFT - DTI_MAP_GAP, y + 4, dt_human_bytes(bytes, at), DTI_MAP_LEFT - 4, y,
        DTI_MAP_WIDTH - DTI_MAP_RIGHT);
}

static double peak_across(const dti_map *m)
{
    return dti_map_across(m, (double)m->peak + 0.5);
}

/* Of the budget, or where it would be. */
static double budget_up(const dti_map *m)
{
    return m->budget <= m->scale ? up(m, (double)m->budget) : m->top;
}

/* Whether the budget is at a height where the peak's name is. */
static bool budget_near_peak(const dti_map *m)
{
    const double away = up(m, (double)m->p->peak) - budget_up(m);
    return m->budget > 0 && m->peak >= 0 && fabs(away) < DTI_MAP_LINE;
}

/* Whether what ends on the right would lie over the peak's mark. */
static bool reaches_peak(const dti_map *m, const char *text)
{
    const double wide = dti_map_wide(text, strlen(text)) * (m->page ? DTI_MAP_LARGER : 1);
    return peak_across(m) > DTI_MAP_WIDTH - DTI_MAP_RIGHT - wide - DTI_MAP_GAP;
}

/* Or, where the picture would be mostly empty below it, words. */
static void budget(const dti_map *m)
{
    char bytes[DT_HUMAN_BYTES], text[DT_HUMAN_BYTES + 24];
    const uint64_t at = m->budget;
    const bool over = m->p->peak > at;
    if (at == 0)
        return;
    const bool drawn = at <= m->scale;
    const double y = budget_up(m);
    snprintf(text, sizeof text, "budget %s%s", dt_human_bytes(bytes, at),
        over    ? ", exceeded"
        : drawn ? ""
                : ", far above");
    const bool left = budget_near_peak(m) && reaches_peak(m, text);
    fprintf(m->f, "<g data-y=\"%.1f\">", y);
    if (drawn)
        fprintf(m->f, "<path class=\"budget\" d=\"M%d %.1fH%d\"/>\n", DTI_MAP_LEFT, y,
            DTI_MAP_WIDTH - DTI_MAP_RIGHT);
    fprintf(m->f, "<text class=\"limit%s%s\" x=\"%d\" y=\"%.1f\">%s</text></g>\n",
        left ? "" : " end", over ? " over" : "",
        left ? DTI_MAP_LEFT : DTI_MAP_WIDTH - DTI_MAP_RIGHT, y - 4, text);
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
    const double x = peak_across(m), y = up(m, (double)m->p->peak);
    const double name_y = budget_near_peak(m) ? fmin(y, budget_up(m)) : y; /* not over its line */
    const bool right = x > DTI_MAP_WIDTH / 2;
    fprintf(m->f,
        "<g data-y=\"%.1f\"><g data-x=\"%.1f\"><path class=\"peak\" d=\"M%.1f %.1fl-4-7h8z\"/>"
        "<text class=\"limit%s\" x=\"%.1f\" y=\"%.1f\">peak: ",
        y, x, x, y, right ? " end" : "", right ? x - 8 : x + 8, name_y - 4);
    dti_xml_text(m->f, peak_name(m));
    fprintf(m->f, "</text></g></g>\n");
}

static void axis(const dti_map *m)
{
    const double zero = up(m, 0), stays = up(m, (double)m->p->persistent);
    const double most = up(m, (double)m->p->peak);
    fputs("<g class=\"axis\">\n", m->f);
    tick(m, 0);
    if (zero - stays > DTI_MAP_LINE && stays - most > DTI_MAP_LINE)
        tick(m, m->p->persistent);
    tick(m, m->p->peak);
    fputs("</g>\n", m->f);
    budget(m);
    peak(m);
}

/* ---- what colours mean ---- */

static void entry(FILE *f, double *x, double *y, const char *class, const char *name)
{
    const double w = 30 + DTI_MAP_LETTER * (double)strlen(name);
    if (*x + w > DTI_MAP_WIDTH - DTI_MAP_RIGHT) {
        *x = DTI_MAP_LEFT;
        *y += DTI_MAP_LINE;
    }
    if (f != NULL)
        fprintf(f,
            "<rect class=\"%s\" x=\"%.0f\" y=\"%.0f\" width=\"10\" height=\"10\"/>"
            "<text x=\"%.0f\" y=\"%.0f\">%s</text>\n",
            class, *x, *y - 9, *x + 14, *y, name);
    *x += w;
}

/* What occurs in the plans. */
typedef struct used {
    bool role[DT_ROLE_COUNT], kind[DT_OP_KINDS];
} used;

static used used_in(const dti_plan_picture *v, size_t n)
{
    used u = {0};
    for (size_t k = 0; k < n; k++) {
        for (size_t i = 0; i < v[k].plan->n_tensor; i++)
            u.role[v[k].plan->tensor[i].role] = true;
        for (size_t i = 0; i < v[k].plan->n_op; i++)
            u.kind[v[k].plan->op[i].kind] = true;
    }
    return u;
}

/* Of all plans; @f NULL: nothing is drawn. Where its last line ends. */
static double legend(const dti_plan_picture *v, size_t n, FILE *f, double y)
{
    const used u = used_in(v, n);
    char name[DT_HUMAN_BYTES];
    double x = DTI_MAP_LEFT;
    for (int i = 0; i < DT_ROLE_COUNT; i++)
        if (u.role[i])
            entry(f, &x, &y, dt_role_name((dt_role)i), dt_human_role(name, (dt_role)i));
    x = DTI_MAP_LEFT;
    y += DTI_MAP_LINE;
    if (f != NULL)
        fprintf(f, "<text class=\"end\" x=\"%.0f\" y=\"%.0f\">ops:</text>\n", x - DTI_MAP_GAP, y);
    for (int i = 0; i < DT_OP_KINDS; i++)
        if (u.kind[i])
            entry(f, &x, &y, dt_op_kind_name((dt_op_kind)i), dt_op_kind_name((dt_op_kind)i));
    return y + DTI_MAP_GAP;
}

static void key(FILE *f, const char *class, const char *name)
{
    fprintf(f,
        "<span><svg viewBox=\"0 0 10 10\" aria-hidden=\"true\"><rect class=\"%s\" width=\"10\" "
        "height=\"10\"/></svg>%s</span>\n",
        class, name);
}

void dti_plan_map_key(const dti_plan_picture *v, FILE *f)
{
    const used u = used_in(v, 1);
    char name[DT_HUMAN_BYTES];
    fputs("<p class=\"map key\">\n", f);
    for (int i = 0; i < DT_ROLE_COUNT; i++)
        if (u.role[i])
            key(f, dt_role_name((dt_role)i), dt_human_role(name, (dt_role)i));
    fputs("</p>\n<p class=\"map key\">ops:\n", f);
    for (int i = 0; i < DT_OP_KINDS; i++)
        if (u.kind[i])
            key(f, dt_op_kind_name((dt_op_kind)i), dt_op_kind_name((dt_op_kind)i));
    if (dti_map_waits(v, true))
        key(f, "waits", "ops wait");
    if (dti_map_waits(v, false))
        key(f, "waits apart", "a copy waits");
    fputs("</p>\n", f);
}

/* ---- laying out ---- */

static void count_ops(dti_map *m, const dt_usage *u)
{
    const int32_t row = u->peak < u->n_instant ? u->instant[u->peak].row : -1;
    m->peak = -1;
    for (size_t i = 0; i < m->p->n_row; i++) {
        const dt_row *r = &m->p->row[i];
        if ((int64_t)i == row)
            m->peak = m->ops;
        if (dti_map_is_copy(r) && r->bytes > m->largest)
            m->largest = r->bytes;
        if (r->kind != DT_ROW_COMPUTE)
            continue;
        if (m->turn == m->ops)
            m->turn += m->p->op[r->op].kind != DT_OP_BACKWARD;
        m->ops++;
    }
    m->ops = m->ops > 0 ? m->ops : 1;
}

static void map_free(dti_map *m)
{
    dt_free(m->since);
    dt_free(m->off);
    dt_free(m->mark);
    dt_free(m->waited);
}

static dt_status map_fill(
    dti_map *m, const dti_plan_picture *v, uint64_t scale, bool page, FILE *f, dt_err *err)
{
    const dt_plan *p = v->plan;
    dt_usage u;
    *m = (dti_map){.p = p,
        .f = f,
        .page = page,
        .scale = scale,
        .budget = v->budget,
        .tall = DTI_MAP_TALL,
        .since = dt_alloc(p->n_tensor + 1, sizeof *m->since),
        .off = dt_alloc(p->n_tensor + 1, sizeof *m->off),
        .mark = dt_alloc(p->n_row + 1, sizeof *m->mark),
        .waited = dt_alloc((size_t)p->n_event + 1, sizeof *m->waited)};
    if (m->since == NULL || m->off == NULL || m->mark == NULL || m->waited == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to draw the plan");
    for (size_t i = 0; i < p->n_tensor; i++)
        m->since[i] = -1;
    const dt_status st = dt_plan_usage(p, &u, err);
    if (st == DT_OK)
        count_ops(m, &u);
    dt_usage_deinit(&u);
    return st;
}

/* The addresses that a plan's part shows: up to its peak, and to its budget unless that is far
 * above. */
static uint64_t shown(uint64_t peak, uint64_t budget)
{
    const uint64_t most = peak > 0 ? peak : 1;
    return budget > most && budget / 2 <= most ? budget : most;
}

static void caption(const dti_map *m, double y)
{
    char peak[DT_HUMAN_BYTES], kept[DT_HUMAN_BYTES];
    fprintf(m->f, "<text class=\"caption\" x=\"%d\" y=\"%.0f\">", DTI_MAP_LEFT, y);
    dti_xml_text(m->f, m->p->policy);
    fprintf(m->f, ": %s at the peak, of which %s stay</text>\n", dt_human_bytes(peak, m->p->peak),
        dt_human_bytes(kept, m->p->persistent));
}

/* Of what is as light as something else in grey. */
static void hatching(FILE *f)
{
    static const char text[] =
        "<pattern id=\"%s\" width=\"4\" height=\"4\" patternUnits=\"userSpaceOnUse\">"
        "<rect class=\"%s\" width=\"4\" height=\"4\"/><path class=\"hatch\" d=\"%s\"/></pattern>";
    fputs("<defs>", f);
    fprintf(f, text, "rising", "orange", "M-1 1l2-2M0 4l4-4M3 5l2-2");
    fprintf(f, text, "falling", "grey", "M-1 3l2 2M0 0l4 4M3-1l2 2");
    fprintf(f, text, "again", "navy", "M-1 3l2 2M0 0l4 4M3-1l2 2");
    fprintf(f, text, "packed", "pink", "M2 0v4");
    fputs("</defs>\n", f);
}

static void open_svg(FILE *f, double tall)
{
    fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"map\" viewBox=\"0 0 %d %.0f\">\n",
        DTI_MAP_WIDTH, tall);
}

/* From @y on; how tall it is. A plan that has less to show is less tall. */
static double draw(dti_map *m, double y)
{
    m->tall = DTI_MAP_TALL * (double)shown(m->p->peak, m->budget) / (double)m->scale;
    m->scale = shown(m->p->peak, m->budget);
    m->top = y + CAPTION;
    caption(m, y + 12);
    addresses(m);
    axis(m);
    dti_map_lanes(m, m->top + m->tall + DTI_MAP_GAP);
    return CAPTION + m->tall + DTI_MAP_GAP + dti_map_lanes_tall(m);
}

static void title(const dt_plan *p, FILE *f)
{
    fprintf(f, "<text class=\"title\" x=\"%d\" y=\"22\">", DTI_MAP_LEFT);
    dti_xml_cut(f, p->net, NETWORK_NAME);
    fprintf(f, ", batch %" PRId64 ", program '", p->batch);
    dti_xml_text(f, p->program);
    fprintf(f, "'</text>\n");
}

static double tall_of(const dti_map *m)
{
    return CAPTION + DTI_MAP_TALL * (double)shown(m->p->peak, m->budget) / (double)m->scale +
           DTI_MAP_GAP + dti_map_lanes_tall(m);
}

static void draw_all(dti_map *m, const dti_plan_picture *v, size_t n, FILE *f)
{
    double tall = HEAD, y = HEAD;
    for (size_t i = 0; i < n; i++)
        tall += tall_of(&m[i]) + (i + 1 < n ? BETWEEN : 0);
    const double below = legend(v, n, NULL, tall + 20), time = dti_map_time_tall(&v[0]);
    open_svg(f, below + (n == 1 ? time : 0));
    fprintf(f, "<style>\n%s</style>\n", dti_plan_map_style);
    hatching(f);
    fprintf(f, "<rect class=\"paper\" width=\"%d\" height=\"%.0f\"/>\n", DTI_MAP_WIDTH,
        below + (n == 1 ? time : 0));
    title(v[0].plan, f);
    for (size_t i = 0; i < n; i++)
        y += draw(&m[i], y) + BETWEEN;
    legend(v, n, f, tall + 20);
    if (n == 1 && time > 0)
        dti_map_time(&v[0], false, f, below);
    fputs("</svg>\n", f);
}

dt_status dti_plan_map(const dti_plan_picture *v, size_t n, FILE *f, dt_err *err)
{
    uint64_t scale = 1;
    dti_map *m = dt_alloc(n, sizeof *m);
    dt_status st = m != NULL ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory to draw the plan");
    for (size_t i = 0; i < n; i++)
        if (shown(v[i].plan->peak, v[i].budget) > scale)
            scale = shown(v[i].plan->peak, v[i].budget);
    for (size_t i = 0; i < n && st == DT_OK; i++)
        st = map_fill(&m[i], &v[i], scale, false, f, err);
    if (st == DT_OK)
        draw_all(m, v, n, f);
    for (size_t i = 0; i < n && m != NULL; i++)
        map_free(&m[i]);
    dt_free(m);
    return st;
}

dt_status dti_plan_map_part(const dti_plan_picture *v, FILE *f, dt_err *err)
{
    dti_map m;
    const dt_status st = map_fill(&m, v, shown(v->plan->peak, v->budget), true, f, err);
    if (st == DT_OK) {
        open_svg(f, tall_of(&m) + DTI_MAP_GAP);
        hatching(f);
        draw(&m, 0);
        fputs("</svg>\n", f);
        if (dti_map_time_tall(v) > 0) {
            open_svg(f, dti_map_time_tall(v));
            dti_map_time(v, true, f, 0);
            fputs("</svg>\n", f);
        }
    }
    map_free(&m);
    return st;
}
