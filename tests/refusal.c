#include "tests/refusal.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "tests/workspace.h"

const char *refusal_ini;

void refuse_in_place(const refusal *c, const char *words)
{
    char *before = snapshot("");
    ran r = cli_run(words, NULL);
    if (r.code != c->code)
        fail_msg("'%s' ends with %d, not %d; stderr:\n%s", words, r.code, c->code, r.err);
    assert_string_equal(r.out, "");
    for (size_t i = 0; i < DT_COUNT(c->want) && c->want[i] != NULL; i++)
        assert_has(r.err, c->want[i]);
    for (const char *line = r.err; *line != '\0'; line += strcspn(line, "\n") + 1)
        if (strncmp(line, "dnntrain: ", 10) != 0)
            fail_msg("this line does not say whose it is: %s", line);
    cli_done(&r);
    assert_unchanged(before, "");
}

void refuse(const refusal *c)
{
    char words[2048];
    put_text("c.ini", c->ini != NULL ? c->ini : refusal_ini);
    snprintf(words, sizeof words, "c.ini %s", c->words != NULL ? c->words : "");
    refuse_in_place(c, words);
}

void refuse_all(const refusal *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        refuse(&c[i]);
}

void become_nobody(void)
{
    if (geteuid() == 0 && setuid(65534) != 0)
        _exit(125);
    if (access(cli_binary(), X_OK) != 0)
        _exit(126);
}

bool nobody_can_run(void)
{
    cli.child = become_nobody;
    assert_int_equal(chmod(dt_temp_path(""), 0755), 0);
    ran r = cli_run("--version", NULL);
    const bool can = r.code == 0;
    cli_done(&r);
    cli.child = NULL;
    return can;
}

void put_blob(const char *below, blob b)
{
    put_file(in_workspace(below), b.p, b.n);
    blob_free(&b);
}

void put_tensors(const char *below, uint64_t length, const char *header, size_t n)
{
    const size_t bytes = strlen(header);
    blob b = {0};
    length = length > 0 ? length : bytes;
    for (int i = 0; i < 8; i++)
        blob_byte(&b, (unsigned)(length >> (8 * i)) & 0xFF);
    blob_put(&b, header, bytes);
    for (size_t i = 0; i < n; i++)
        blob_byte(&b, 0);
    put_blob(below, b);
}
