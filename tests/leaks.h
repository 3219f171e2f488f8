/* What a test counts before and after, to see that nothing is left. */
#ifndef DT_TESTS_LEAKS_H
#define DT_TESTS_LEAKS_H

int open_files(void);             /* descriptors of this process, one of them the count's own */
int files_in(const char *folder); /* names but "." and ".." */

#endif
