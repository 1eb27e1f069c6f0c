/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/registry.h"

#include <string.h>

#include "drivers/drivers.h"

#define ROW(name) &vql_driver_##name,
static const struct vql_driver *const drivers[] = { VQL_DRIVERS(ROW) };
#undef ROW

const struct vql_driver *vql_registry_at(size_t i)
{
        return i < sizeof(drivers) / sizeof(drivers[0]) ? drivers[i] : NULL;
}

const struct vql_driver *vql_registry_find(const char *name)
{
        const struct vql_driver *d;

        for (size_t i = 0; (d = vql_registry_at(i)); i++)
                if (strcmp(d->name, name) == 0)
                        return d;
        return NULL;
}

const struct vql_driver *vql_registry_match(const char *address)
{
        const struct vql_driver *d;

        for (size_t i = 0; (d = vql_registry_at(i)); i++)
                if (d->match(address))
                        return d;
        return NULL;
}
