/* Accounts by name. */
#include "memory/accounts/account.h"

#include <string.h>

#define DT_ACCOUNT(n) extern const dt_account_desc dt_account_##n;
#include "memory/accounts/accounts.def"
#undef DT_ACCOUNT

#define DT_ACCOUNT(n) #n,
static const char *const names[] = {
#include "memory/accounts/accounts.def"
    NULL};
#undef DT_ACCOUNT

static const dt_account_desc *const all_accounts[] = {
#define DT_ACCOUNT(n) &dt_account_##n,
#include "memory/accounts/accounts.def"
#undef DT_ACCOUNT
};

const dt_account_desc *const *dt_account_all(size_t *n)
{
    *n = DT_COUNT(all_accounts);
    return all_accounts;
}

const dt_account_desc *dt_account_find(const char *name)
{
    for (size_t i = 0; i < DT_COUNT(all_accounts); i++)
        if (strcmp(all_accounts[i]->name, name) == 0)
            return all_accounts[i];
    return NULL;
}

const char *const *dt_account_names(void)
{
    return names;
}

dt_status dti_account_fused(const dt_node *nd, dt_err *err)
{
    return DT_FAIL(err, DT_E_CONFIG,
        "%s is a %s with a %s fused into it, and accounts count layer by layer; write [model] fuse "
        "= off",
        nd->name, nd->desc->name, nd->with);
}
