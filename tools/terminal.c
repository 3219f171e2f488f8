/* What a stream can show, text in words, and tables and pictures on stdout. */
#include "tools/terminal.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "engine/base/text.h"

enum { USUAL_WIDTH = 80, MOST_WIDTH = 1000, LEAST_ROOM = 40 };

static const char *setting(const char *name)
{
    const char *v = getenv(name);
    return v != NULL ? v : "";
}

/* As setlocale would choose, but without changing how this program prints numbers. */
static bool utf8_locale(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < DT_COUNT(names); i++) {
        const char *v = setting(names[i]);
        if (*v == '\0')
            continue;
        const char *code = strchr(v, '.');
        return code != NULL &&
               (dt_begin_alike(code, ".UTF-8", 6) || dt_begin_alike(code, ".utf8", 5));
    }
    return false;
}

dti_terminal dti_terminal_of(FILE *f)
{
    const char *term = setting("TERM");
    const int fd = fileno(f);
    const bool dumb = strcmp(term, "dumb") == 0;
    dti_terminal t = {.utf8 = utf8_locale() && !dumb};
    t.tty = fd >= 0 && isatty(fd) && *term != '\0' && !dumb;
    t.colour = t.tty && *setting("NO_COLOR") == '\0';
    return t;
}

int dti_terminal_width(const dti_terminal *t, FILE *f)
{
    if (t->width > 0)
        return t->width;
    struct winsize w;
    if (fileno(f) >= 0 && ioctl(fileno(f), TIOCGWINSZ, &w) == 0 && w.ws_col > 0)
        return w.ws_col;
    const long columns = strtol(setting("COLUMNS"), NULL, 10);
    return columns > 0 && columns <= MOST_WIDTH ? (int)columns : USUAL_WIDTH;
}

/* ---- text in words ---- */

/* Bytes of the next word; a number and its unit are one. */
static size_t word_length(const char *s)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "%", "s", "ms"};
    const size_t n = strcspn(s, " \n");
    if (n == 0 || s[n] != ' ' || s[n - 1] < '0' || s[n - 1] > '9')
        return n;
    const char *unit = s + n + 1;
    const size_t m = strcspn(unit, " \n,;:.)");
    for (size_t i = 0; i < DT_COUNT(units); i++)
        if (strlen(units[i]) == m && strncmp(units[i], unit, m) == 0)
            return n + 1 + strcspn(unit, " \n");
    return n;
}

/* Of UTF-8: bytes that do not go on with a character. */
static int columns_of(const char *s, size_t n)
{
    int columns = 0;
    for (size_t i = 0; i < n; i++)
        columns += ((unsigned char)s[i] & 0xC0) != 0x80;
    return columns;
}

/* How many bytes of @text stand on a line of @room columns: as many words as there is room for, at
 * least one, up to the end of its line. What is behind them begins with blanks or ends there. */
static size_t fit(const char *text, int room)
{
    size_t n = 0;
    for (int used = 0;;) {
        const size_t blanks = strspn(text + n, " ");
        const size_t word = word_length(text + n + blanks);
        used += columns_of(text + n, blanks + word);
        if (word == 0 || (n > 0 && used > room))
            return n;
        n += blanks + word;
    }
}

void dti_term_flow(FILE *f, int width, int at, int indent, const char *text)
{
    for (;; at = indent) {
        const size_t n = fit(text, width - at);
        fprintf(f, "%.*s\n", (int)n, text);
        text += n + strspn(text + n, " ");
        text += *text == '\n';
        if (*text == '\0')
            return;
        fprintf(f, "%*s", indent, "");
    }
}

void dti_term_wrap(FILE *f, int at, int indent, const char *text)
{
    dti_term_flow(f, dti_term_width(), at, indent, text);
}

void dti_term_say(const char *fmt, ...)
{
    static const char name[] = "dnntrain: ";
    const int indent = (int)strlen(name);
    const dti_terminal t = dti_terminal_of(stderr);
    const int width = t.tty ? dti_terminal_width(&t, stderr) : INT_MAX;
    char text[DT_ERR_BYTES];
    va_list ap;
    va_start(ap, fmt);
    const int at = snprintf(text, sizeof text, "%s", name);
    vsnprintf(text + at, sizeof text - (size_t)at, fmt, ap);
    va_end(ap);
    dti_term_flow(stderr, width < LEAST_ROOM ? LEAST_ROOM : width, 0, indent, text);
}

/* ---- tables and pictures on stdout ---- */

enum { NARROWEST = 64 };

bool dti_term_unicode(void)
{
    return dti_terminal_of(stdout).utf8;
}

int dti_term_width(void)
{
    const dti_terminal t = dti_terminal_of(stdout);
    const int n = dti_terminal_width(&t, stdout);
    return n < NARROWEST ? NARROWEST : n > DTI_TERM_WIDEST ? DTI_TERM_WIDEST : n;
}

void dti_term_bar(FILE *f, double part, double whole, int width)
{
    static const char *const parts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    const double share = whole > 0 ? part / whole : 0;
    int eighths = (int)(share * width * 8 + 0.5);
    if (eighths == 0 && part > 0)
        eighths = 1;
    if (!dti_term_unicode()) {
        for (int i = 0; i < (eighths + 7) / 8; i++)
            fputc('#', f);
        return;
    }
    for (int i = 0; i < eighths / 8; i++)
        fputs("█", f);
    fputs(parts[eighths % 8], f);
}

const char *dti_term_cell(int eighths, bool base)
{
    static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const plain[] = {" ", ".", ".", ".", ":", ":", ":", "#", "#"};
    if (dti_term_unicode())
        return base && eighths == 8 ? "▒" : blocks[eighths];
    return base && eighths == 8 ? "=" : plain[eighths];
}
