/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/path_choice.h"

#include <stddef.h>
#include <string.h>

static const char *const path_names[VQL_PATHS] = {
        [VQL_PATH_NONE] = "none",     [VQL_PATH_SOFTWARE] = "software", [VQL_PATH_RELAY] = "relay",
        [VQL_PATH_DIRECT] = "direct", [VQL_PATH_HELD] = "held",
};

static const char *const wish_names[] = { "auto", "software", "relay", "direct" };

const char *vql_path_name(enum vql_path p)
{
        return path_names[p];
}

const char *vql_path_wish_name(enum vql_path_wish w)
{
        return wish_names[w];
}

int vql_path_wish_from_name(const char *name)
{
        for (int i = 0; i < (int)(sizeof(wish_names) / sizeof(wish_names[0])); i++)
                if (strcmp(wish_names[i], name) == 0)
                        return i;
        return -1;
}

/* Why no device serves the ring on any path, or NULL. */
static const char *against_device(const struct vql_path_facts *f)
{
        if (f->no_device)
                return f->no_device;
        if (f->wish == VQL_WISH_SOFTWARE)
                return "as requested";
        if (!f->live)
                return "the device cannot stop and start one queue alone";
        if (!f->enabled)
                return "the ring is disabled";
        if (f->refused_relay && f->refused_direct)
                return "the device failed on this queue";
        return NULL;
}

/* Why not on the guest's ring, or NULL.  What may change by itself comes last. */
static const char *against_direct(const struct vql_path_facts *f)
{
        if (f->wish == VQL_WISH_RELAY)
                return "as requested";
        if (f->refused_direct)
                return "the device failed on the guest's ring";
        if (!f->fits)
                return "the ring is larger than the device can";
        if (!f->in_order)
                return "the device returns buffers out of order";
        if (f->packed && !f->tells && f->wish != VQL_WISH_DIRECT)
                return "the device does not tell where a packed ring stands";
        if (!f->signals_guest)
                return "the device cannot interrupt the guest itself";
        if (!f->kicked)
                return "the guest does not kick by eventfd";
        if (f->logging && !f->logs)
                return "writes are logged, which the device cannot";
        if (f->inflight_region)
                return "the front-end wants buffers in flight recorded";
        if (f->pending)
                return "buffers of an earlier owner are not returned yet";
        return NULL;
}

static struct vql_path_answer without_device(const struct vql_path_facts *f, const char *why)
{
        return (struct vql_path_answer){ f->uplink ? VQL_PATH_SOFTWARE : VQL_PATH_HELD, why,
                                         false };
}

struct vql_path_answer vql_path_choose(const struct vql_path_facts *f)
{
        const char *why = against_device(f);

        if (why)
                return without_device(f, why);
        why = against_direct(f);
        if (!why && (f->initial || f->seeks))
                return (struct vql_path_answer){ VQL_PATH_DIRECT, "", false };
        if (f->refused_relay)
                return without_device(f, "the device failed on a ring of ours");
        if (why)
                return (struct vql_path_answer){ VQL_PATH_RELAY, why, false };
        return (struct vql_path_answer){ VQL_PATH_RELAY,
                                         "the device cannot start where the ring stands", true };
}
