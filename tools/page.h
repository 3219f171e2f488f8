/* Reports as pages: one HTML file that needs nothing else, no network least of all. A page is
 * begun, filled section by section, and ended; what its script needs goes into @data meanwhile.
 * Text of files and networks goes through dti_xml_text or into @data, where it stays text. */
#ifndef DT_TOOLS_PAGE_H
#define DT_TOOLS_PAGE_H

#include "tools/json_out.h"
#include "tools/xml.h"

typedef struct dti_page {
    FILE *f;
    dt_json data; /* one object, in which each section has members */
} dti_page;

/* @title: of the window and at the top; @about: a line below it. */
void dti_page_begin(dti_page *p, FILE *f, const char *title, const char *about);
/* With the data and the script. DT_E_NOMEM when a part of the data is missing. Must be called once
 * a page was begun. */
dt_status dti_page_end(dti_page *p, dt_err *err) DT_NODISCARD;

/* @id: of the section, for links to it; headings are ours, so not escaped. */
void dti_page_section(const dti_page *p, const char *id, const char *heading);
void dti_page_section_end(const dti_page *p);

/* A line below what it explains. */
void dti_page_hint(const dti_page *p, const char *text);

/* A number that stands out; @note may be "". Between dti_page_tiles and dti_page_tiles_end. */
void dti_page_tiles(const dti_page *p);
void dti_page_tile(const dti_page *p, const char *label, const char *value, const char *note);
void dti_page_tiles_end(const dti_page *p);

/* Keys and values. Between dti_page_list and dti_page_list_end. */
void dti_page_list(const dti_page *p);
void dti_page_item(const dti_page *p, const char *key, const char *fmt, ...) DT_PRINTF(3, 4);
void dti_page_list_end(const dti_page *p);

/* A table, whose script sorts it: columns, then rows of as many cells. */
typedef struct dti_page_column {
    const char *heading;
    bool number;
} dti_page_column;
void dti_page_table(const dti_page *p, const dti_page_column *column, size_t n);
void dti_page_row(const dti_page *p, const char *class); /* "best", or NULL */
void dti_page_row_end(const dti_page *p);
void dti_page_cell(const dti_page *p, const char *text);
void dti_page_number(const dti_page *p, double v, const char *text); /* sorted by @v */
void dti_page_bytes(const dti_page *p, uint64_t bytes);              /* "–": none */
/* With a bar, which fills the cell where it is @most; 0: none. */
void dti_page_share(const dti_page *p, double share, double most);
void dti_page_table_end(const dti_page *p);

/* Points of a chart that are joined in their order, or stand alone (@dots); @class: of its colour,
 * "one" or "two". Points that are not finite, or beyond 1e300, are left out. */
typedef struct dti_chart_line {
    const char *name, *class;
    size_t n;
    const double *x, *y;
    bool dots;
} dti_chart_line;

/* A chart of lines over steps, at least those @from to @to. @id: by which the script finds it;
 * @zero: the axis begins at 0. */
typedef struct dti_chart {
    const char *id, *title;
    size_t n;
    const dti_chart_line *line;
    double from, to, tall;
    bool zero;
} dti_chart;
void dti_page_chart(const dti_page *p, const dti_chart *c);

/* Files beside this one, as they stand in the page. */
extern const char dti_page_style[], dti_page_script[];

#endif
