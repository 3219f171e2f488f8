/* A smoothed loss, and a curve of blocks. */
#include "tools/losses.h"

#include <math.h>
#include <string.h>

double dti_smooth(dti_smoothed *s, double loss)
{
    static const double keeps = 0.9;
    if (isfinite(loss)) {
        s->sum = keeps * s->sum + (1 - keeps) * loss;
        s->weight = keeps * s->weight + (1 - keeps);
    }
    return s->weight > 0 ? s->sum / s->weight : loss;
}

static void halve(dti_loss_curve *c)
{
    for (int i = 0; i < DTI_BINS / 2; i++) {
        c->sum[i] = c->sum[2 * i] + c->sum[2 * i + 1];
        c->count[i] = c->count[2 * i] + c->count[2 * i + 1];
    }
    c->bins = DTI_BINS / 2;
    c->width *= 2;
}

void dti_loss_curve_add(dti_loss_curve *c, double loss)
{
    if (!isfinite(loss))
        return;
    c->width = c->width > 0 ? c->width : 1;
    if (c->bins == 0 || c->count[c->bins - 1] == c->width) {
        if (c->bins == DTI_BINS)
            halve(c);
        c->sum[c->bins] = 0;
        c->count[c->bins++] = 0;
    }
    c->sum[c->bins - 1] += loss;
    c->count[c->bins - 1]++;
}

/* Mean of bins [from, to). */
static double mean(const dti_loss_curve *c, int from, int to)
{
    double sum = 0, count = 0;
    for (int i = from; i < to; i++) {
        sum += c->sum[i];
        count += (double)c->count[i];
    }
    return sum / count;
}

/* Which of @top steps up from @lowest it is. Where numbers are so large that their sums or
 * differences are no number, the lowest. */
static int level(double v, double lowest, double highest, int top)
{
    const double height = highest > lowest ? (v - lowest) / (highest - lowest) : 0;
    return isfinite(height) ? (int)(height * top + 0.5) : 0;
}

size_t dti_loss_curve_draw(const dti_loss_curve *c, char *to, size_t room, int width)
{
    static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    const int top = (int)DT_COUNT(blocks) - 1, n = c->bins < width ? c->bins : width;
    double v[DTI_BINS], lowest = (double)INFINITY, highest = -(double)INFINITY;
    to[0] = '\0';
    if (n < 2)
        return 0;
    for (int i = 0; i < n; i++) {
        v[i] = mean(c, i * c->bins / n, (i + 1) * c->bins / n);
        lowest = fmin(lowest, v[i]);
        highest = fmax(highest, v[i]);
    }
    size_t at = 0;
    for (int i = 0; i < n && at + 4 < room; i++) {
        const char *block = blocks[level(v[i], lowest, highest, top)];
        memcpy(to + at, block, strlen(block) + 1);
        at += strlen(block);
    }
    return at;
}
