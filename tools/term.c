#include "tools/term.h"

#include "tools/terminal.h"

enum { NARROWEST = 64, WIDEST = 100 };

bool dt_term_unicode(void)
{
    return dt_terminal_of(stdout).utf8;
}

int dt_term_width(void)
{
    const dt_terminal t = dt_terminal_of(stdout);
    const int n = dt_terminal_width(&t, stdout);
    return n < NARROWEST ? NARROWEST : n > WIDEST ? WIDEST : n;
}

void dt_term_bar(FILE *f, double part, double whole, int width)
{
    static const char *const parts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    const double share = whole > 0 ? part / whole : 0;
    int eighths = (int)(share * width * 8 + 0.5);
    if (eighths == 0 && part > 0)
        eighths = 1;
    if (!dt_term_unicode()) {
        for (int i = 0; i < (eighths + 7) / 8; i++)
            fputc('#', f);
        return;
    }
    for (int i = 0; i < eighths / 8; i++)
        fputs("█", f);
    fputs(parts[eighths % 8], f);
}

const char *dt_term_cell(int eighths, bool base)
{
    static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const plain[] = {" ", ".", ".", ".", ":", ":", ":", "#", "#"};
    if (dt_term_unicode())
        return base && eighths == 8 ? "▒" : blocks[eighths];
    return base && eighths == 8 ? "=" : plain[eighths];
}
