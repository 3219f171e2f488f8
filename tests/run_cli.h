/* The program from outside: run it, and look at what it prints, its exit code and the files it
 * leaves. */
#ifndef DT_TESTS_RUN_CLI_H
#define DT_TESTS_RUN_CLI_H

#include <sys/types.h>

#include "tests/check.h"

/* One run of the program. Free with cli_done. */
typedef struct ran {
    int code; /* 128 + the signal that ended it */
    char *out, *err;
} ran;

/* What a child gets. Tests change members and put them back. */
typedef struct cli_env {
    const char *program; /* below the folder of the build */
    const char *locale, *term, *no_color;
    const char *folder;  /* to run in; NULL: this one */
    const char *threads; /* OMP_NUM_THREADS; NULL: as here */
    void (*child)(void); /* called in the child before it becomes the program; NULL: nothing */
} cli_env;
extern cli_env cli;

const char *cli_binary(void); /* NULL: it is not built */
#define NEED_BINARY()                                                                              \
    do {                                                                                           \
        (void)state;                                                                               \
        if (cli_binary() == NULL)                                                                  \
            skip();                                                                                \
    } while (0)

/* Limits of address space cannot be set on a program built with AddressSanitizer or
 * ThreadSanitizer. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NEED_LIMITS() skip()
#else
#define NEED_LIMITS() ((void)0)
#endif

/* Arguments stand in one text with blanks between them; the word FILE stands for @file, whatever is
 * in that. */
ran cli_run(const char *words, const char *file);
ran cli_run_to(const char *out, const char *words, const char *file); /* stdout to a file */
void cli_done(ran *r);

/* The same in two halves, one run at a time. */
pid_t cli_start(const char *words, const char *file);
ran cli_wait(pid_t child);

char *cli_text(const char *path); /* of a file; dt_free it */
/* A file below the temporary folder. */
const char *cli_file(const char *name, const char *text);

void assert_has(const char *text, const char *want);
void assert_has_not(const char *text, const char *unwanted);
void assert_code(const ran *r, int code);

#endif
