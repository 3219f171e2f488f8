/* Pages: what all of them have around their sections. */
#include "tools/page.h"

#include <stdarg.h>
#include <string.h>

#include "tools/plan_map.h"

enum { VALUE_BYTES = 4096 };

void dti_page_begin(dti_page *p, FILE *f, const char *title, const char *about)
{
    *p = (dti_page){f, dt_json_begin()};
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n"
          /* nothing is fetched, whatever stands in the page */
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
          "'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
          "form-action 'none'\">\n<title>",
        f);
    dti_xml_text(f, title);
    fprintf(f, "</title>\n<style>\n%s%s</style>\n</head>\n<body>\n<header>\n<h1>", dti_page_style,
        dti_plan_map_style);
    dti_xml_text(f, title);
    fputs("</h1>\n<p>", f);
    dti_xml_text(f, about);
    fputs("</p>\n</header>\n<main>\n", f);
}

/* In a script element only its end tag has a meaning, and JSON has no < outside of texts. */
static void put_data(FILE *f, const char *json)
{
    fputs("<script type=\"application/json\" id=\"data\">", f);
    for (; *json != '\0'; json++)
        if (*json == '<')
            fputs("\\u003c", f);
        else
            putc(*json, f);
    fputs("</script>\n", f);
}

dt_status dti_page_end(dti_page *p, dt_err *err)
{
    char *json;
    DT_CHECK(dt_json_end_dense(&p->data, &json, "the page's data", err));
    fputs("</main>\n<div id=\"tip\" role=\"status\" hidden></div>\n", p->f);
    put_data(p->f, json);
    cJSON_free(json);
    fprintf(p->f, "<script>\n%s</script>\n</body>\n</html>\n", dti_page_script);
    return DT_OK;
}

void dti_page_section(const dti_page *p, const char *id, const char *heading)
{
    fprintf(p->f, "<section id=\"%s\">\n<h2>%s</h2>\n", id, heading);
}

void dti_page_section_end(const dti_page *p)
{
    fputs("</section>\n", p->f);
}

void dti_page_hint(const dti_page *p, const char *text)
{
    fputs("<p class=\"hint\">", p->f);
    dti_xml_text(p->f, text);
    fputs("</p>\n", p->f);
}

void dti_page_tiles(const dti_page *p)
{
    fputs("<dl class=\"tiles\">\n", p->f);
}

void dti_page_tile(const dti_page *p, const char *label, const char *value, const char *note)
{
    fputs("<div><dt>", p->f);
    dti_xml_text(p->f, label);
    fputs("</dt><dd class=\"value\">", p->f);
    dti_xml_text(p->f, value);
    fputs("</dd>", p->f);
    if (note[0] != '\0') {
        fputs("<dd>", p->f);
        dti_xml_text(p->f, note);
        fputs("</dd>", p->f);
    }
    fputs("</div>\n", p->f);
}

void dti_page_tiles_end(const dti_page *p)
{
    fputs("</dl>\n", p->f);
}

void dti_page_list(const dti_page *p)
{
    fputs("<dl class=\"list\">\n", p->f);
}

void dti_page_item(const dti_page *p, const char *key, const char *fmt, ...)
{
    char value[VALUE_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(value, sizeof value, fmt, ap);
    va_end(ap);
    if (value[0] == '\0')
        return;
    fputs("<dt>", p->f);
    dti_xml_text(p->f, key);
    fputs("</dt><dd>", p->f);
    dti_xml_text(p->f, value);
    fputs("</dd>\n", p->f);
}

void dti_page_list_end(const dti_page *p)
{
    fputs("</dl>\n", p->f);
}
