/* Options from outside are counted, not walked to their end, and looked at one by one. */
#include "engine/config/outside.h"

#include <string.h>

#include "engine/base/alloc.h"

bool dt_is_word(const char *s)
{
    return s != NULL && *s != '\0' && strlen(s) < 64 &&
           s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0';
}

bool dt_is_status(int n)
{
    return (n >= DT_OK && n <= DT_E_BUSY) || n == DT_E_STOPPED;
}

dt_status dt_outside_status(
    dt_status given, dt_status instead, const char *what, int notes, dt_err *err)
{
    const dt_status st = given == DT_E_INTERNAL || !dt_is_status((int)given) ? instead : given;
    if (st != DT_OK && dt_err_notes(err) == notes)
        (void)DT_FAIL(err, st, "%s: it returned %d (%s) and no note in err", what, (int)given,
            dt_status_name(given));
    return st;
}

static dt_status check_row(
    const char *what, const char *name, const dt_opt *row, void *scratch, size_t bytes, dt_err *err)
{
    if (row->key == NULL || !dt_is_word(row->key) || row->help == NULL)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s '%s': an option has no key of a-z, 0-9 and _, or no help", what, name);
    const size_t value = dti_opt_bytes(row->type);
    if (value == 0)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s '%s': option '%s' is of type %d, which is no dt_opt_type", what, name, row->key,
            (int)row->type);
    if (row->at > bytes || bytes - row->at < value)
        return DT_FAIL(err, DT_E_CONFIG, "%s '%s': option '%s' lies beyond its struct of %zu bytes",
            what, name, row->key, bytes);
    if (row->at % value != 0) /* where every type is aligned to its size */
        return DT_FAIL(err, DT_E_CONFIG,
            "%s '%s': option '%s' is at %zu of its struct, no multiple of its %zu bytes", what,
            name, row->key, row->at, value);
    if (row->type == DT_OPT_ENUM && row->choices == NULL)
        return DT_FAIL(
            err, DT_E_CONFIG, "%s '%s': option '%s' has no choices", what, name, row->key);
    if (row->fallback != NULL)
        DT_TRY(err, dt_opt_read(row, row->fallback, scratch, err), "%s '%s': default of '%s'", what,
            name, row->key);
    return DT_OK;
}

dt_status dt_outside_check(
    const char *what, const char *name, const dt_opt *rows, size_t n, size_t bytes, dt_err *err)
{
    if (!dt_is_word(name))
        return DT_FAIL(
            err, DT_E_CONFIG, "a %s's name is a word of a-z, 0-9 and _, of at most 63", what);
    if (n > 0 && rows == NULL)
        return DT_FAIL(
            err, DT_E_CONFIG, "%s '%s': n_options is %zu, but options is NULL", what, name, n);
    if (n > DTI_OUTSIDE_ROWS)
        return DT_FAIL(err, DT_E_CONFIG, "%s '%s': %zu options, %d at most", what, name, n,
            (int)DTI_OUTSIDE_ROWS);
    if (bytes > DTI_OUTSIDE_BYTES)
        return DT_FAIL(err, DT_E_CONFIG, "%s '%s': options of %zu bytes, %d at most", what, name,
            bytes, (int)DTI_OUTSIDE_BYTES);
    void *scratch = dt_alloc(bytes + 1, 1);
    if (scratch == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to register a %s", what);
    dt_status st = DT_OK;
    for (size_t i = 0; i < n && st == DT_OK; i++) {
        st = check_row(what, name, &rows[i], scratch, bytes, err);
        for (size_t k = 0; k < i && st == DT_OK; k++)
            if (strcmp(rows[k].key, rows[i].key) == 0)
                st = DT_FAIL(
                    err, DT_E_CONFIG, "%s '%s': option '%s' twice", what, name, rows[i].key);
    }
    dt_free(scratch);
    return st;
}
