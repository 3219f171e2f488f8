/* Text of files, networks and people inside SVG and HTML, where it stays text. */
#ifndef DT_TOOLS_XML_H
#define DT_TOOLS_XML_H

#include <stdio.h>

/* Print @text so that it is text, between tags and in attributes in double quotes alike. Bytes that
 * are not UTF-8, control characters, and others that XML has none of, become '?'. */
void dti_xml_text(FILE *f, const char *text);
/* The same, cut to @most characters, the last of which then is an ellipsis. */
void dti_xml_cut(FILE *f, const char *text, size_t most);

#endif
