/* Inside accounts: intervals as the GNU C++ library's std::sort leaves them, the largest first.
 * Where a paper's program sorts by it, the order of equals, which std::sort does not keep, is part
 * of what was measured. */
#ifndef DT_MEMORY_ACCOUNTS_GNU_SORT_H
#define DT_MEMORY_ACCOUNTS_GNU_SORT_H

#include "memory/pools/pool.h"

/* v: n intervals in the order in which the program asked for them. */
void dti_gnu_sort_largest_first(dt_interval *v, size_t n);

#endif
