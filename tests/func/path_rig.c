/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "path_rig.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define EVENT_IDX FE_BIT(VIRTIO_RING_F_EVENT_IDX)
#define MRG_RXBUF FE_BIT(VIRTIO_NET_F_MRG_RXBUF)

const uint64_t path_formats[PATH_FORMATS] = {
        FE_FEATURES_MODERN,
        FE_FEATURES_PACKED,
        FE_FEATURES_MODERN & ~EVENT_IDX,
        FE_FEATURES_PACKED & ~EVENT_IDX,
        FE_FEATURES_MODERN & ~MRG_RXBUF,
        FE_FEATURES_PACKED & ~MRG_RXBUF,
        FE_FEATURES_MODERN & ~EVENT_IDX & ~MRG_RXBUF,
        FE_FEATURES_PACKED & ~EVENT_IDX & ~MRG_RXBUF,
};

/* A device of this process: tests may run beside each other. */
static const char *own_device(const char *device)
{
        static char own[256];

        assert_memory_equal(device, "sim", 3);
        snprintf(own, sizeof(own), "sim-%d%s", (int)getpid(), device + 3);
        return own;
}

void path_add(struct host *h, const char *device, const char *uplink)
{
        const struct vql_port_params p = {
                .size = sizeof(p),
                .name = "p",
                .socket = host_path(h, "p"),
                .role = VQL_SOCKET_SERVER,
                .queue_pairs = 1,
                .uplink = uplink,
                .device = own_device(device),
                .worker = -1,
        };

        sigaction(SIGBUS, &h->on_sigbus, NULL);
        if (vql_port_add(h->vql, &p) < 0)
                fail_msg("port with %s: %s", device, vql_last_error(h->vql));
}

void path_ask(struct host *h, const char *wish)
{
        if (vql_port_set_path(h->vql, "p", wish) < 0)
                fail_msg("path %s: %s", wish, vql_last_error(h->vql));
}

void path_go(struct host *h, const char *path)
{
        path_ask(h, path);
        path_both(h, path, NULL);
}

struct vql_ring_info path_info(struct host *h, unsigned int ring)
{
        struct vql_ring_info i;

        assert_int_equal(vql_port_get_ring(h->vql, "p", ring, &i), 0);
        return i;
}

static bool is(const struct vql_ring_info *i, const char *path, const char *why)
{
        return strcmp(i->path, path) == 0 && (!why || strcmp(i->path_reason, why) == 0);
}

static void expect_path(const struct vql_ring_info *i, const char *path, const char *why)
{
        if (!is(i, path, why))
                fail_msg("ring %u (%s): %s (%s), expected %s (%s)", i->index, i->state, i->path,
                         i->path_reason, path, why ? why : "for any reason");
}

void path_is(struct host *h, unsigned int ring, const char *path, const char *why)
{
        const struct vql_ring_info i = path_info(h, ring);

        expect_path(&i, path, why);
}

void path_both(struct host *h, const char *path, const char *why)
{
        path_is(h, 0, path, why);
        path_is(h, 1, path, why);
}

void path_wait(struct host *h, unsigned int ring, const char *path, const char *why)
{
        struct vql_ring_info i = path_info(h, ring);

        for (int ms = 0; ms < HOST_WAIT_MS && !is(&i, path, why); ms++) {
                poll(NULL, 0, 1);
                i = path_info(h, ring);
        }
        expect_path(&i, path, why);
}

void path_wait_both(struct host *h, const char *path, const char *why)
{
        path_wait(h, 0, path, why);
        path_wait(h, 1, path, why);
}

void path_begin(struct host *h, const char *device, const struct fe_setup *s, struct guest *g)
{
        path_add(h, device, "loopback");
        guest_start(g, h, "p", s);
        g->flow.by_interrupt = true;
}

void path_end(struct host *h, struct guest *g)
{
        expect_fe(g->fe, fe_frontend_stop(g->fe), 0);
        guest_end(g);
        host_del(h, "p");
}

void path_check_buffers(struct host *h, struct guest *g)
{
        for (unsigned int i = 0; i < 2; i++) {
                expect_fe(g->fe, fe_frontend_stop_ring(g->fe, i), 0);
                assert_string_equal(path_info(h, i).path, "none");
                expect_fe(g->fe, fe_frontend_start_ring(g->fe, i), 0);
        }
        guest_traffic(g, 3 * PATH_BUFFERS);
}
