/* Tables in a page, whose script sorts them by the column that is asked for. */
#include <math.h>
#include <string.h>

#include "session/human.h"
#include "tools/page.h"

/* The name of a key may go on in another line behind a dot. */
static void put_heading(const dti_page *p, const char *text)
{
    char part[128];
    for (const char *dot; (dot = strchr(text, '.')) != NULL; text = dot + 1) {
        snprintf(part, sizeof part, "%.*s", (int)(dot - text), text);
        dti_xml_text(p->f, part);
        fputs(".<wbr>", p->f);
    }
    dti_xml_text(p->f, text);
}

void dti_page_table(const dti_page *p, const dti_page_column *column, size_t n)
{
    fputs("<div class=\"rows\"><table class=\"plain\"><thead><tr>", p->f);
    for (size_t i = 0; i < n; i++) {
        fprintf(p->f, "<th scope=\"col\"%s><button type=\"button\">",
            column[i].number ? " class=\"number\"" : "");
        put_heading(p, column[i].heading);
        fputs("</button></th>", p->f);
    }
    fputs("</tr></thead>\n<tbody>\n", p->f);
}

void dti_page_row(const dti_page *p, const char *class)
{
    if (class != NULL)
        fprintf(p->f, "<tr class=\"%s\">", class);
    else
        fputs("<tr>", p->f);
}

void dti_page_row_end(const dti_page *p)
{
    fputs("</tr>\n", p->f);
}

void dti_page_cell(const dti_page *p, const char *text)
{
    fputs("<td>", p->f);
    dti_xml_text(p->f, text);
    fputs("</td>", p->f);
}

void dti_page_number(const dti_page *p, double v, const char *text)
{
    if (isfinite(v))
        fprintf(p->f, "<td class=\"number\" data-v=\"%.9g\">", v);
    else
        fputs("<td class=\"number\">", p->f);
    dti_xml_text(p->f, text);
    fputs("</td>", p->f);
}

void dti_page_bytes(const dti_page *p, uint64_t bytes)
{
    char text[DT_HUMAN_BYTES];
    dti_page_number(p, (double)bytes, bytes > 0 ? dt_human_bytes(text, bytes) : "–");
}

void dti_page_share(const dti_page *p, double share, double most)
{
    if (share > 0)
        fprintf(p->f,
            "<td class=\"share\" data-v=\"%.4f\">%.1f %%<i style=\"width:%.1f%%\"></i></td>", share,
            100 * share, 100 * share / most);
    else
        fputs("<td class=\"share\" data-v=\"0\">–</td>", p->f);
}

void dti_page_table_end(const dti_page *p)
{
    fputs("</tbody></table></div>\n", p->f);
}
