/* An alarm, as what is waited for has no loop that could look at a clock. */
#include "tools/patience.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/terminal.h"

enum { SECONDS = 2, LINE = 256 };

static char line[LINE];
static size_t length;
static struct sigaction before;

static void say(int signal)
{
    (void)signal;
    const int error = errno; /* of whom this has come between */
    const ssize_t written = write(STDERR_FILENO, line, length);
    (void)written; /* nobody is there to be told */
    errno = error;
}

void dti_patience_begin(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char text[LINE / 2];
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    length = (size_t)snprintf(line, sizeof line, "dnntrain: %s\n", text);
    if (!dti_terminal_of(stderr).tty)
        return;
    struct sigaction act = {.sa_handler = say, .sa_flags = SA_RESTART};
    sigemptyset(&act.sa_mask);
    if (sigaction(SIGALRM, &act, &before) == 0)
        alarm(SECONDS);
}

void dti_patience_end(void)
{
    if (!dti_terminal_of(stderr).tty)
        return;
    alarm(0);
    sigaction(SIGALRM, &before, NULL);
}
