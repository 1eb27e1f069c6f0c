/* SPDX-License-Identifier: BSD-3-Clause */

/* The state of a port's device, to and from other back-ends. */

#include "port/port.h"

#include <errno.h>

#include "port/device_state.h"

/* A position that moves is none that could be saved, or replaced. */
static int check_stopped(const struct vql_port *p, struct vql_error *e)
{
        for (uint16_t i = 0; i < p->offer.max_rings; i++)
                if (p->rings[i].state != VQL_RING_STOPPED)
                        return vql_fail(e, EBUSY, "ring %u is %s, expected stopped", i,
                                        vql_ring_state_name(p->rings[i].state));
        return 0;
}

int vql_port_save_state(void *host, uint8_t ret_bytes[VQL_STATE_MAX_BYTES], struct vql_error *e)
{
        const struct vql_port *p = host;
        struct vql_device_state d;
        int rc = check_stopped(p, e);

        if (rc == 0)
                rc = vql_device_state_of(p->session, &d, e);
        return rc < 0 ? rc : (int)vql_device_state_write(&d, ret_bytes);
}

int vql_port_load_state(void *host, const uint8_t *bytes, size_t n, struct vql_error *e)
{
        struct vql_port *p = host;
        struct vql_device_state d;
        int rc = vql_device_state_read(bytes, n, &d, e);

        if (rc == 0)
                rc = check_stopped(p, e);
        if (rc == 0)
                rc = vql_device_state_fits(&d, p->session, e);
        if (rc < 0)
                return rc;
        /* What is recorded of rings that were here before is not about these. */
        for (uint16_t i = 0; i < d.n_rings; i++)
                vql_journal_end(p->journal, d.ring[i].index);
        vql_device_state_give(&d, p->session);
        return 0;
}
