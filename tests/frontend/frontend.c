/* SPDX-License-Identifier: BSD-3-Clause */
#include "frontend/frontend.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { DEFAULT_RING = 256, TABLE_MAX = 8 };

enum {
        STATUS_FEATURES_OK =
                VIRTIO_CONFIG_S_ACKNOWLEDGE | VIRTIO_CONFIG_S_DRIVER | VIRTIO_CONFIG_S_FEATURES_OK,
        STATUS_DRIVER_OK = STATUS_FEATURES_OK | VIRTIO_CONFIG_S_DRIVER_OK,
};

static void close_fd(int *fd)
{
        if (*fd >= 0)
                close(*fd);
        *fd = -1;
}

int fe_frontend_new(int fd, struct fe_frontend **ret_frontend)
{
        struct fe_frontend *fe = calloc(1, sizeof(*fe));

        if (!fe) {
                close(fd);
                return -ENOMEM;
        }
        fe_channel_init(&fe->link.ch, fd);
        fe->backend_fd = -1;
        fe->inflight_fd = -1;
        for (unsigned int i = 0; i < FE_MAX_RINGS; i++)
                fe->ring[i] = (struct fe_ring){ .kick_fd = -1, .call_fd = -1, .err_fd = -1 };
        *ret_frontend = fe;
        return 0;
}

int fe_frontend_connect(const char *path, struct fe_frontend **ret_frontend)
{
        int fd, err = fe_socket_connect(path, FE_TIMEOUT_MS, &fd);

        return err < 0 ? err : fe_frontend_new(fd, ret_frontend);
}

void fe_frontend_free(struct fe_frontend *fe)
{
        if (!fe)
                return;
        fe_channel_close(&fe->link.ch);
        close_fd(&fe->backend_fd);
        close_fd(&fe->inflight_fd);
        for (unsigned int i = 0; i < FE_MAX_RINGS; i++) {
                struct fe_ring *r = &fe->ring[i];

                fe_driver_free(r->driver);
                close_fd(&r->kick_fd);
                close_fd(&r->call_fd);
                close_fd(&r->err_fd);
        }
        free(fe);
}

const char *fe_frontend_error(const struct fe_frontend *fe)
{
        return fe->error.s[0] ? fe->error.s : fe->link.ch.error.s;
}

/* ---- negotiation ---- */

static int get_features(struct fe_frontend *fe)
{
        const struct fe_setup *s = &fe->setup;
        int err = fe_get_u64(&fe->link, FE_GET_FEATURES, &fe->offered);

        if (err < 0)
                return err;
        if (s->required & ~fe->offered)
                return fe_fail(&fe->error, EREMOTEIO, "features 0x%jx offered, required 0x%jx",
                               (uintmax_t)fe->offered, (uintmax_t)s->required);
        fe->features = fe->offered & (s->features | s->required);
        if (s->protocol_features != FE_PROTOCOL_NONE)
                fe->features |= fe->offered & FE_BIT(FE_F_PROTOCOL_FEATURES);
        return 0;
}

static int negotiate_protocol(struct fe_frontend *fe)
{
        struct fe_link *l = &fe->link;
        uint64_t want =
                fe->setup.protocol_features ? fe->setup.protocol_features : FE_PROTOCOL_QEMU;
        int err;

        if (!fe_has(fe->features, FE_F_PROTOCOL_FEATURES))
                return 0;
        err = fe_get_u64(l, FE_GET_PROTOCOL_FEATURES, &fe->protocol_offered);
        if (err == 0)
                err = fe_set_u64(l, FE_SET_PROTOCOL_FEATURES, want & fe->protocol_offered);
        if (err < 0)
                return err;
        l->protocol_features = want & fe->protocol_offered;
        if (fe_has(l->protocol_features, FE_P_MQ))
                err = fe_get_u64(l, FE_GET_QUEUE_NUM, &fe->queue_pairs_offered);
        if (err == 0 && fe_has(l->protocol_features, FE_P_CONFIGURE_MEM_SLOTS))
                err = fe_get_u64(l, FE_GET_MAX_MEM_SLOTS, &fe->slots_offered);
        if (err == 0 && fe_has(l->protocol_features, FE_P_BACKEND_REQ))
                err = fe_set_backend_channel(l, &fe->backend_fd);
        return err;
}

static int make_eventfds(struct fe_frontend *fe)
{
        for (unsigned int i = 0; i < fe->n_rings; i++) {
                int *fds[] = { &fe->ring[i].kick_fd, &fe->ring[i].call_fd, &fe->ring[i].err_fd };

                for (unsigned int k = 0; k < 3; k++)
                        if (*fds[k] < 0 && (*fds[k] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
                                return -errno;
        }
        return 0;
}

static int send_call(struct fe_frontend *fe, unsigned int i)
{
        return fe_set_vring_fd(&fe->link, FE_SET_VRING_CALL, i,
                               fe->setup.no_call_fd ? -1 : fe->ring[i].call_fd);
}

int fe_frontend_negotiate(struct fe_frontend *fe, const struct fe_setup *setup)
{
        int err;

        fe->setup = *setup;
        fe->link.protocol_features = 0;
        fe->queue_pairs_offered = 1;
        fe->n_rings = 2 * (setup->queue_pairs ? setup->queue_pairs : 1);
        err = get_features(fe);
        if (err == 0)
                err = negotiate_protocol(fe);
        if (err < 0)
                return err;
        if (fe->n_rings > 2 * fe->queue_pairs_offered)
                return fe_fail(&fe->error, EREMOTEIO, "%ju queue pairs offered, %u wanted",
                               (uintmax_t)fe->queue_pairs_offered, fe->n_rings / 2);
        err = fe_set_owner(&fe->link);
        if (err == 0)
                err = get_features(fe);
        if (err == 0)
                err = make_eventfds(fe);
        for (unsigned int i = 0; err == 0 && i < fe->n_rings; i++)
                err = send_call(fe, i);
        if (err == 0 && setup->mtu && fe_has(fe->link.protocol_features, FE_P_NET_MTU))
                err = fe_set_u64(&fe->link, FE_NET_SET_MTU, setup->mtu);
        return err;
}

int fe_frontend_send_features(struct fe_frontend *fe)
{
        struct fe_link *l = &fe->link;
        uint64_t status;
        int err = fe_set_u64(l, FE_SET_FEATURES, fe->features);

        if (err < 0 || !fe_has(l->protocol_features, FE_P_STATUS))
                return err;
        err = fe_set_u64(l, FE_SET_STATUS, STATUS_FEATURES_OK);
        if (err == 0)
                err = fe_get_u64(l, FE_GET_STATUS, &status);
        if (err == 0 && !(status & VIRTIO_CONFIG_S_FEATURES_OK))
                err = fe_fail(&fe->error, EREMOTEIO, "status 0x%jx: FEATURES_OK is not set",
                              (uintmax_t)status);
        return err;
}

/* ---- memory ---- */

struct fe_mem_region fe_frontend_region(const struct fe_frontend *fe, unsigned int region)
{
        const struct fe_region_spec *s = &fe->setup.mem->region[region].spec;

        return (struct fe_mem_region){
                .gpa = s->gpa, .size = s->size, .uva = s->uva, .offset = s->offset
        };
}

int fe_frontend_add_region(struct fe_frontend *fe, unsigned int region)
{
        struct fe_mem_region r = fe_frontend_region(fe, region);

        return fe_add_mem_reg(&fe->link, &r, fe->setup.mem->region[region].fd);
}

int fe_frontend_remove_region(struct fe_frontend *fe, unsigned int region)
{
        struct fe_mem_region r = fe_frontend_region(fe, region);

        return fe_rem_mem_reg(&fe->link, &r);
}

int fe_frontend_send_mem_table(struct fe_frontend *fe)
{
        const struct fe_memory *m = fe->setup.mem;
        struct fe_mem_region r[TABLE_MAX];
        int fds[TABLE_MAX];
        unsigned int n = 0;

        for (unsigned int i = 0; i < m->n; i++) {
                if (m->region[i].fd < 0)
                        continue;
                if (n == TABLE_MAX)
                        return fe_fail(&fe->error, E2BIG, "more than %d regions in SET_MEM_TABLE",
                                       TABLE_MAX);
                r[n] = fe_frontend_region(fe, i);
                fds[n++] = m->region[i].fd;
        }
        return fe_set_mem_table(&fe->link, r, fds, n);
}

int fe_frontend_send_memory(struct fe_frontend *fe)
{
        const struct fe_memory *m = fe->setup.mem;
        int err = 0;

        if (!fe_has(fe->link.protocol_features, FE_P_CONFIGURE_MEM_SLOTS))
                return fe_frontend_send_mem_table(fe);
        for (unsigned int i = 0; err == 0 && i < m->n; i++)
                if (m->region[i].fd >= 0)
                        err = fe_frontend_add_region(fe, i);
        return err;
}

/* ---- in-flight region ---- */

static uint16_t ring_size(const struct fe_frontend *fe)
{
        return fe->setup.ring_size ? fe->setup.ring_size : DEFAULT_RING;
}

static int send_inflight(struct fe_frontend *fe)
{
        struct fe_link *l = &fe->link;
        int err = 0;

        if (!fe->setup.inflight || !fe_has(l->protocol_features, FE_P_INFLIGHT_SHMFD))
                return 0;
        if (fe->inflight_fd < 0)
                err = fe_get_inflight_fd(l, (uint16_t)fe->n_rings, ring_size(fe), &fe->inflight,
                                         &fe->inflight_fd);
        return err < 0 ? err : fe_set_inflight_fd(l, &fe->inflight, fe->inflight_fd);
}

/* ---- rings ---- */

static int make_driver(struct fe_frontend *fe, unsigned int i)
{
        const struct fe_setup *s = &fe->setup;
        const struct fe_driver_params p = {
                .mem = s->mem,
                .region = FE_ANY_REGION,
                .size = ring_size(fe),
                .packed = fe_has(fe->features, VIRTIO_F_RING_PACKED),
                .event_idx = fe_has(fe->features, VIRTIO_RING_F_EVENT_IDX),
                .in_order = fe_has(fe->features, VIRTIO_F_IN_ORDER),
                .guard = s->guard,
                .pick = s->pick,
                .seed = i + 1,
                .start = s->start,
                .start_wrap_0 = s->start_wrap_0,
        };

        if (fe->ring[i].driver)
                return 0;
        return fe_driver_new(&p, &fe->ring[i].driver, &fe->error);
}

int fe_frontend_send_addr(struct fe_frontend *fe, unsigned int i, bool log)
{
        const struct fe_memory *m = fe->setup.mem;
        struct fe_areas a = fe_driver_areas(fe->ring[i].driver);
        const struct fe_vring_addr addr = {
                .index = i,
                .flags = log ? FE_VRING_LOG : 0,
                .desc = fe_memory_uva(m, a.desc, 1),
                .avail = fe_memory_uva(m, a.driver, 1),
                .used = fe_memory_uva(m, a.device, 1),
                .log = a.device,
        };

        return fe_set_vring_addr(&fe->link, &addr);
}

static uint32_t start_base(const struct fe_frontend *fe, const struct fe_driver *d)
{
        const struct fe_position at = fe_driver_position(d), initial = { 0, 0, true, true };
        const bool packed = fe_driver_params(d)->packed;

        return fe_position_encode(packed && fe->setup.forgets_packed ? &initial : &at, packed);
}

int fe_frontend_start_ring(struct fe_frontend *fe, unsigned int i)
{
        struct fe_link *l = &fe->link;
        struct fe_ring *r = &fe->ring[i];
        int err = make_driver(fe, i);

        if (err < 0)
                return err;
        err = fe_set_state(l, FE_SET_VRING_NUM, i, fe_driver_params(r->driver)->size);
        if (err == 0 && !fe->setup.no_base)
                err = fe_set_state(l, FE_SET_VRING_BASE, i, start_base(fe, r->driver));
        if (err == 0)
                err = fe_frontend_send_addr(fe, i, false);
        if (err == 0)
                err = fe_set_vring_fd(l, FE_SET_VRING_ERR, i, r->err_fd);
        if (err == 0)
                err = fe_set_vring_fd(l, FE_SET_VRING_KICK, i,
                                      fe->setup.no_kick_fd ? -1 : r->kick_fd);
        return err < 0 ? err : send_call(fe, i);
}

int fe_frontend_enable_ring(struct fe_frontend *fe, unsigned int i, bool on)
{
        uint64_t ignored;
        int err;

        if (!fe_has(fe->features, FE_F_PROTOCOL_FEATURES))
                return 0;
        err = fe_set_state(&fe->link, FE_SET_VRING_ENABLE, i, on);
        /* Without acks a round trip tells that the message was handled. */
        if (err == 0 && !fe_has(fe->link.protocol_features, FE_P_REPLY_ACK))
                err = fe_get_u64(&fe->link, FE_GET_FEATURES, &ignored);
        return err;
}

static int start_all(struct fe_frontend *fe)
{
        unsigned int enable = fe->setup.enable ? 2 * fe->setup.enable : fe->n_rings;
        int err = fe_frontend_send_features(fe);

        if (err == 0)
                err = fe_frontend_send_memory(fe);
        if (err == 0)
                err = send_inflight(fe);
        for (unsigned int i = 0; err == 0 && i < fe->n_rings; i++)
                err = fe_frontend_start_ring(fe, i);
        for (unsigned int i = 0; err == 0 && i < enable; i++)
                err = fe_frontend_enable_ring(fe, i, true);
        if (err == 0 && fe_has(fe->link.protocol_features, FE_P_STATUS))
                err = fe_set_u64(&fe->link, FE_SET_STATUS, STATUS_DRIVER_OK);
        return err;
}

int fe_frontend_setup(struct fe_frontend *fe, const struct fe_setup *setup)
{
        int err = fe_frontend_negotiate(fe, setup);

        return err < 0 ? err : start_all(fe);
}

int fe_frontend_replace_call(struct fe_frontend *fe, unsigned int i)
{
        int old = fe->ring[i].call_fd;
        int fresh = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        int err;

        if (fresh < 0)
                return -errno;
        fe->ring[i].call_fd = fresh;
        err = send_call(fe, i);
        close(old);
        return err;
}

int fe_frontend_stop_ring(struct fe_frontend *fe, unsigned int i)
{
        struct fe_driver *d = fe->ring[i].driver;
        struct fe_position want;
        uint32_t num, expected;
        int err = fe_get_vring_base(&fe->link, i, &num);

        if (err < 0)
                return err;
        want = fe_driver_position(d);
        expected = fe_position_encode(&want, fe_driver_params(d)->packed);
        if (num != expected)
                return fe_fail(&fe->error, EBADMSG,
                               "GET_VRING_BASE of ring %u: 0x%x, the ring stands at 0x%x", i, num,
                               expected);
        return 0;
}

int fe_frontend_wait_broken(struct fe_frontend *fe, unsigned int i, int timeout_ms)
{
        struct pollfd p = { .fd = fe->ring[i].err_fd, .events = POLLIN };
        uint64_t count;

        if (poll(&p, 1, timeout_ms) <= 0)
                return fe_fail(&fe->error, ETIMEDOUT, "ring %u: no error reported", i);
        return read(p.fd, &count, sizeof(count)) < 0 ? -errno : 0;
}

int fe_frontend_revive_ring(struct fe_frontend *fe, unsigned int i)
{
        uint32_t num;
        int err = fe_get_vring_base(&fe->link, i, &num);

        if (err < 0)
                return err;
        /* An error that nobody waited for is not to be taken for one of the new ring. */
        (void)fe_frontend_wait_broken(fe, i, 0);
        fe_driver_restart(fe->ring[i].driver);
        return fe_frontend_start_ring(fe, i);
}

int fe_frontend_stop(struct fe_frontend *fe)
{
        int err = 0;

        for (unsigned int i = 0; err == 0 && i < fe->n_rings; i++)
                err = fe_frontend_enable_ring(fe, i, false);
        for (unsigned int i = 0; err == 0 && i < fe->n_rings; i++)
                err = fe_frontend_stop_ring(fe, i);
        if (err == 0 && fe_has(fe->link.protocol_features, FE_P_STATUS))
                err = fe_set_u64(&fe->link, FE_SET_STATUS, 0);
        if (err < 0 || !fe_has(fe->link.protocol_features, FE_P_CONFIGURE_MEM_SLOTS))
                return err;
        for (unsigned int i = 0; err == 0 && i < fe->setup.mem->n; i++)
                if (fe->setup.mem->region[i].fd >= 0)
                        err = fe_frontend_remove_region(fe, i);
        return err;
}

int fe_frontend_reconnect(struct fe_frontend *fe, int fd)
{
        const struct fe_setup setup = fe->setup;
        uint64_t features = fe->features;
        int err;

        fe_channel_close(&fe->link.ch);
        close_fd(&fe->backend_fd);
        fe_channel_init(&fe->link.ch, fd);
        err = fe_frontend_negotiate(fe, &setup);
        if (err < 0)
                return err;
        /* The guest keeps what it acknowledged the first time. */
        if (features & ~fe->offered)
                return fe_fail(&fe->error, EREMOTEIO, "features 0x%jx are not offered any more",
                               (uintmax_t)(features & ~fe->offered));
        fe->features = features;
        return start_all(fe);
}
