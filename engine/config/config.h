/* The text of a configuration: sections and keys with the places they came from, before anything
 * knows what they mean. Tables of options then bind sections to structs; what nobody bound is an
 * error. All problems are reported in one pass, each with file:line, the value and what is allowed.
 *
 * Grammar: [section] or [kind name]; key = value; comments start with ; or # at the start of a line
 * or after white space. A value with such marks or outer blanks stands in double quotes, where ""
 * is one quote. Upper and lower case differ. CRLF and a UTF-8 byte order mark are accepted.
 * Refused: control characters, invalid UTF-8, lines without =, keys outside a section or with
 * blanks in them, a second section of the same name, a second key of the same name in a section,
 * text after ], lines over DT_LINE_BYTES, files over DT_CONFIG_BYTES, a file without any section.
 * Nothing is ever cut short: that is why the parser is ours (inih cuts lines at 200 bytes and
 * section names at 50). */
#ifndef DT_ENGINE_CONFIG_CONFIG_H
#define DT_ENGINE_CONFIG_CONFIG_H

#include "engine/config/options.h"

enum { DT_LINE_BYTES = 8192, DT_CONFIG_BYTES = 4 << 20 };

typedef struct dt_config dt_config;

/* Read a file. The caller owns *out. DT_E_CONFIG with every problem found, or with the system's
 * text when the file cannot be opened or is no regular file; DT_E_IO when reading it breaks off. */
dt_status dt_config_load(dt_config **out, const char *path, dt_err *err) DT_NODISCARD;

/* The same, for a caller that has more to report: when nothing is wrong but keys that are given
 * twice, they fail as well, and *out is there, with the first values. Else it is NULL. */
dt_status dt_config_load_further(dt_config **out, const char *path, dt_err *err) DT_NODISCARD;
/* That from memory; @name stands for the file in messages, and relative paths count from the
 * current folder. */
dt_status dt_config_parse_further(
    dt_config **out, const char *name, const char *text, size_t bytes, dt_err *err) DT_NODISCARD;

/* Put what was told behind the first @before bytes of the trail in the order of the file's lines,
 * behind what was said of --set. A note without a place stays before the note that places it. */
void dt_config_sort_mistakes(const dt_config *c, size_t before, dt_err *err);

void dt_config_destroy(dt_config *c);

/* The file that was read; NULL: it came from memory. */
const char *dt_config_path(const dt_config *c);

/* The section whose keys are globs over names, which have dots in them. */
#define DT_CONFIG_GLOBS "memory.layers"

/* Apply "section.key=value" (a layer's key: "kind name.key=value"; the key follows the last dot
 * before the =, a glob the section), replacing what the file says. The value is taken as it is,
 * without comments or quotes; a relative path in it counts from the current folder, where it was
 * typed. The origin in messages is then
 * "--set". A later set of the same key wins. Before any bind: values that were bound may go away.
 */
dt_status dt_config_set(dt_config *c, const char *assignment, dt_err *err) DT_NODISCARD;
/* The same of one value of --vary, which is the origin then. */
dt_status dt_config_vary(dt_config *c, const char *assignment, dt_err *err) DT_NODISCARD;

/* Fill @target: defaults first, then what section @section holds. Every wrong value and missing
 * required key is reported; the status is that of the first. Keys of the table count as known
 * afterwards. @section may be absent, and may be bound more than once, by tables of other keys.
 * @rows must outlive the config; strings in @target live as long as it. */
dt_status dt_config_bind(
    dt_config *c, const char *section, const dt_opt *rows, void *target, dt_err *err) DT_NODISCARD;

/* Whether a value is one of the row's words, which of a path are no path. */
bool dti_is_choice(const dt_opt *row, const char *value);

/* Report every section and key that no dt_config_bind asked for, with the nearest known name. */
dt_status dt_config_check_known(const dt_config *c, dt_err *err) DT_NODISCARD;

/* After all binds: report every value that dt_config_dump could not write so that it is read back:
 * a path whose folder's name holds control characters or no UTF-8, a line that is too long (once
 * values of --set, quotes and folders are in it), a key that would be read as a comment or a
 * section; and a whole that is too long. */
dt_status dt_config_check_dump(const dt_config *c, dt_err *err) DT_NODISCARD;

/* Sections in file order: "conv c1" has kind "conv" and name "c1"; "train" has name "". Borrowed.
 */
typedef struct dt_section {
    const char *text, *kind, *name;
    const char *file; /* or "--set", "--vary" */
    int line;
} dt_section;
size_t dt_config_section_count(const dt_config *c);
dt_section dt_config_section(const dt_config *c, size_t i);

/* Keys of section i in file order, for sections whose keys are free ([memory.layers] globs). */
size_t dt_config_key_count(const dt_config *c, size_t section);
void dt_config_key(
    const dt_config *c, size_t section, size_t i, const char **key, const char **value, int *line);
void dt_config_mark_known(dt_config *c, const char *section); /* all of its keys */
void dt_config_leave_out(dt_config *c, const char *section);  /* of what dt_config_dump writes */

/* The raw value and its place, or NULL when the key is not given. For messages that name a line. */
const char *dt_config_get(
    const dt_config *c, const char *section, const char *key, const char **file, int *line);

/* Whether it is given by dt_config_set, as --set does. */
bool dt_config_typed(const dt_config *c, const char *section, const char *key);

/* Whether two values of a key, as they are written, mean the same to the table it is bound by:
 * "yes" and "on", "1e-5" and "0.00001", or the default and NULL, which is a key that is not given.
 * Of a key that no table knows the texts are compared. DT_E_NOMEM. */
dt_status dt_config_same(const dt_config *c, const char *section, const char *key, const char *a,
    const char *b, bool *same, dt_err *err) DT_NODISCARD;

/* A key that says how a run is started, not what it is: the dump writes its default. */
void dti_config_mark_passing(dt_config *c, const char *section, const char *key);

/* "FILE:LINE" for a message; "--set" and defaults have no line. Of a path for which @bytes, 32 or
 * more, have no room the end is kept. Returns @to. */
const char *dt_config_place(char *to, size_t bytes, const char *file, int line);

/* Write the effective configuration: every bound section with every key of its table, each with its
 * origin ("; default", "; FILE:LINE" or "; --set"), where that fits a line. Paths are written as
 * they were resolved. Reading it back from any folder gives the same values, but the default of
 * those that were marked as passing, once dt_config_check_dump has passed. */
void dt_config_dump(const dt_config *c, FILE *f);

#endif
