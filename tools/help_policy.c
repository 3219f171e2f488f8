/* The idea of a policy, and its papers, out of the pages that have them. */
#include "tools/help_policy.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/compiler.h"
#include "tools/terminal.h"

enum { TEXT_BYTES = 4096, FIELD_BYTES = 256, INDENT = 10 };

/* Markdown and TeX without their marks: the text of a link without where it leads, no stars, braces
 * or backslashes, and a blank for the end of a line. What is between backquotes stays as it is. */
static void plain(char *to, size_t bytes, const char *from, size_t n)
{
    size_t at = 0;
    bool code = false;
    for (size_t i = 0; i < n && at + 1 < bytes; i++) {
        code = code != (from[i] == '`');
        if (!code && i + 1 < n && from[i] == ']' && from[i + 1] == '(')
            while (i + 1 < n && from[i] != ')')
                i++;
        else if (from[i] != '`' && (code || strchr("*{}\\[]", from[i]) == NULL))
            to[at++] = from[i] == '\n' ? ' ' : from[i];
    }
    to[at] = '\0';
}

void dti_help_idea(const char *name)
{
    char head[80], text[TEXT_BYTES];
    snprintf(head, sizeof head, "\n### %s\n\n", name);
    const char *from = strstr(dti_policies_page, head);
    if (from == NULL)
        return;
    from += strlen(head);
    const char *end = strstr(from, "\n\n");
    plain(text, sizeof text, from, end != NULL ? (size_t)(end - from) : strlen(from));
    dti_term_wrap(stdout, 0, 0, text);
}

/* A field of an entry, which ends at @end: what stands in its braces, a line. */
static bool field(const char *entry, const char *end, const char *key, char *to, size_t bytes)
{
    char head[32];
    snprintf(head, sizeof head, "\n  %s = {", key);
    const char *from = strstr(entry, head);
    if (from == NULL || from >= end)
        return false;
    from += strlen(head);
    plain(to, bytes, from, strcspn(from, "\n") - (from[strcspn(from, "\n") - 1] == ','));
    return true;
}

/* Whether a list with commas has it; two words are a pool's, not a policy's. */
static bool lists(const char *list, const char *name)
{
    for (const char *p = list; *p != '\0'; p += strspn(p, ", ")) {
        const size_t n = strcspn(p, ",");
        if (n == strlen(name) && strncmp(p, name, n) == 0)
            return true;
        p += n;
    }
    return false;
}

/* "Chen, Tianqi and Xu, Bing and ..." by family names, of more than three the first. */
static void authors(const char *all, char *to, size_t bytes)
{
    static const char and[] = " and ";
    size_t n = 1, at = 0;
    for (const char *p = all; (p = strstr(p, and)) != NULL; p++)
        n++;
    for (const char *p = all; p != NULL && at < bytes;) {
        at += (size_t)snprintf(
            to + at, bytes - at, "%s%.*s", p > all ? and : "", (int)strcspn(p, ","), p);
        p = strstr(p, and);
        p = p != NULL ? p + strlen(and) : NULL;
        if (n > 3)
            break;
    }
    if (n > 3 && at < bytes)
        snprintf(to + at, bytes - at, " et al.");
}

static void print_paper(const char *entry, const char *end)
{
    char who[TEXT_BYTES], names[FIELD_BYTES], title[FIELD_BYTES], where[FIELD_BYTES] = "",
                                                                  year[16] = "", id[96] = "";
    char text[2 * TEXT_BYTES];
    if (!field(entry, end, "author", who, sizeof who) ||
        !field(entry, end, "title", title, sizeof title))
        return;
    authors(who, names, sizeof names);
    if (!field(entry, end, "booktitle", where, sizeof where) &&
        !field(entry, end, "journal", where, sizeof where))
        field(entry, end, "howpublished", where, sizeof where);
    field(entry, end, "year", year, sizeof year);
    const char *at = "https://doi.org/";
    if (!field(entry, end, "doi", id, sizeof id))
        at = field(entry, end, "eprint", id, sizeof id) ? "https://arxiv.org/abs/" : "";
    snprintf(text, sizeof text, "%s: %s. %s%s%s. %s%s", names, title, where,
        where[0] != '\0' && year[0] != '\0' ? ", " : "", year, at, id);
    printf("paper     ");
    dti_term_wrap(stdout, INDENT, INDENT, text);
}

void dti_help_papers(const char *name)
{
    char note[FIELD_BYTES];
    for (const char *e = strstr(dti_references, "\n@"); e != NULL;) {
        const char *next = strstr(e + 1, "\n@"), *end = next != NULL ? next : e + strlen(e);
        if (field(e, end, "note", note, sizeof note) && lists(note, name))
            print_paper(e, end);
        e = next;
    }
}
