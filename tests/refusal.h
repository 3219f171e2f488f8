/* Runs that must be refused: rows of what is asked for, the exit code, and parts of the message;
 * and proof that nothing has changed on disk. */
#ifndef DT_TESTS_REFUSAL_H
#define DT_TESTS_REFUSAL_H

#include "tests/data_files.h"
#include "tests/run_cli.h"

/* The configuration of rows that give none. */
extern const char *refusal_ini;

/* A run that must not come about. @ini NULL: refusal_ini. @want: parts of stderr. */
typedef struct refusal {
    const char *ini, *words;
    int code;
    const char *want[4];
} refusal;

/* Run "c.ini WORDS" with the row's configuration, or just @words. Nothing may go to stdout, every
 * line of stderr must begin with the program's name, and no file may change. */
void refuse(const refusal *c);
void refuse_in_place(const refusal *c, const char *words);
void refuse_all(const refusal *c, size_t n);

/* For cli.child: gives root's rights up. Nobody may not run a program that only root can reach:
 * then nobody_can_run says no. */
void become_nobody(void);
bool nobody_can_run(void);

void put_blob(const char *below, blob b); /* frees it */

/* A safetensors file: its length field, unless that is 0 the header's own, the header, then zeros.
 */
void put_tensors(const char *below, uint64_t length, const char *header, size_t n);

#endif
