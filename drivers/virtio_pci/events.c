/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the device and the host have to tell.  Each source has an eventfd, and all of them are in
 * one epoll, which is what the caller waits for: it is readable as long as one of them is.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <linux/vfio.h>

#include "base/bits.h"
#include "base/fd.h"
#include "drivers/virtio_pci/regs.h"
#include "vfio/irq.h"

/* In the order in which they matter to the caller. */
static const enum vql_event_kind order[] = {
        VQL_EVENT_GONE,
        VQL_EVENT_REMOVE,
        VQL_EVENT_BROKEN,
        VQL_EVENT_CONFIG,
};
enum { KINDS = sizeof(order) / sizeof(order[0]) };

static int watch(struct vql_vpci *v, int fd, struct vql_error *e)
{
        struct epoll_event ev = { .events = EPOLLIN };

        if (epoll_ctl(v->news.epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
                return vql_fail(e, errno, "cannot watch an eventfd: %s", strerror(errno));
        return 0;
}

static int make_eventfd(struct vql_vpci *v, int *ret_fd, struct vql_error *e)
{
        *ret_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (*ret_fd < 0)
                return vql_fail(e, errno, "cannot make an eventfd: %s", strerror(errno));
        return watch(v, *ret_fd, e);
}

int vql_vpci_news_new(struct vql_vpci *v, struct vql_error *e)
{
        struct vpci_news *n = &v->news;
        int *fds[] = { &n->raise_fd, &n->req_fd, &n->err_fd, &v->vectors.config_fd,
                       &v->vectors.queue_fd };
        int ret = 0;

        n->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (n->epoll_fd < 0)
                return vql_fail(e, errno, "cannot make an epoll: %s", strerror(errno));
        for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]) && !ret; i++)
                ret = make_eventfd(v, fds[i], e);
        return ret ? ret : watch(v, vql_vfio_device_gone_fd(v->vfio), e);
}

void vql_vpci_news_free(struct vql_vpci *v)
{
        vql_fd_close(&v->news.epoll_fd);
        vql_fd_close(&v->news.raise_fd);
        vql_fd_close(&v->news.req_fd);
        vql_fd_close(&v->news.err_fd);
        vql_fd_close(&v->vectors.config_fd);
        vql_fd_close(&v->vectors.queue_fd);
}

static int arm(struct vql_vpci *v, uint32_t index, int fd, struct vql_error *e)
{
        if (vql_vfio_irq_count(v->vfio, index) == 0)
                return 0;
        return vql_vfio_irq_enable(v->vfio, index, &fd, 1, e);
}

int vql_vpci_news_arm(struct vql_vpci *v, struct vql_error *e)
{
        int ret = arm(v, VFIO_PCI_REQ_IRQ_INDEX, v->news.req_fd, e);

        return ret ? ret : arm(v, VFIO_PCI_ERR_IRQ_INDEX, v->news.err_fd, e);
}

void vql_vpci_news_disarm(struct vql_vpci *v)
{
        vql_vfio_irq_disable(v->vfio, VFIO_PCI_REQ_IRQ_INDEX);
        vql_vfio_irq_disable(v->vfio, VFIO_PCI_ERR_IRQ_INDEX);
}

void vql_vpci_news_raise(struct vql_vpci *v, enum vql_event_kind kind)
{
        /* What lasts is told once, until it is over. */
        if (kind != VQL_EVENT_CONFIG && vql_has(v->news.told, kind))
                return;
        v->news.told |= 1u << kind;
        v->news.pending |= 1u << kind;
        eventfd_write(v->news.raise_fd, 1);
}

void vql_vpci_news_forget(struct vql_vpci *v)
{
        v->news.told &= ~(1u << VQL_EVENT_BROKEN);
        v->news.pending &= ~(1u << VQL_EVENT_BROKEN | 1u << VQL_EVENT_CONFIG);
}

static bool fired(int fd)
{
        eventfd_t n;

        return eventfd_read(fd, &n) == 0;
}

/* What the configuration is now; false if it cannot be read. */
static bool look(struct vql_vpci *v, uint8_t *ret_generation,
                 uint8_t ret_config[VPCI_NET_STATUS_END])
{
        *ret_generation = vpci_get8(v, VPCI_GENERATION);
        return vql_vpci_config_read(v, 0, ret_config, VPCI_NET_STATUS_END, NULL) == 0;
}

void vql_vpci_news_settle(struct vql_vpci *v)
{
        look(v, &v->news.generation, v->news.config);
}

static bool has_changed(struct vql_vpci *v)
{
        struct vpci_news was = v->news;

        return look(v, &v->news.generation, v->news.config) &&
               (was.generation != v->news.generation ||
                memcmp(was.config, v->news.config, sizeof(was.config)) != 0);
}

/* A vector that others use, too, says nothing by itself: then only what changed is news. */
static void look_at_config(struct vql_vpci *v, bool alone)
{
        bool changed;

        if (vql_vpci_check(v, NULL))
                return;
        changed = has_changed(v);
        if (!alone && !changed)
                return;
        vql_vpci_news_raise(v, VQL_EVENT_CONFIG);
        if (v->vectors.config_irq_fd >= 0)
                eventfd_write(v->vectors.config_irq_fd, 1);
}

static void gather(struct vql_vpci *v)
{
        fired(v->news.raise_fd);
        if (fired(v->vectors.config_fd))
                look_at_config(v, true);
        if (fired(v->vectors.queue_fd)) {
                vql_vpci_vectors_forward(v);
                if (!vql_vpci_vectors_config_alone(v))
                        look_at_config(v, false);
        }
        if (fired(v->news.req_fd))
                vql_vpci_news_raise(v, VQL_EVENT_REMOVE);
        if (fired(v->news.err_fd))
                vql_vpci_news_raise(v, VQL_EVENT_BROKEN);
        if (!vql_vfio_device_gone(v->vfio))
                vql_vpci_check(v, NULL);
        if (vql_vfio_device_gone(v->vfio)) {
                /* It stays readable for ever, which is not news. */
                epoll_ctl(v->news.epoll_fd, EPOLL_CTL_DEL, vql_vfio_device_gone_fd(v->vfio), NULL);
                vql_vpci_news_raise(v, VQL_EVENT_GONE);
        }
}

size_t vql_vpci_events(struct vql_dev *d, struct vql_event *ret_events, size_t n)
{
        struct vql_vpci *v = d->priv;
        size_t count = 0;

        gather(v);
        for (size_t i = 0; i < KINDS && count < n; i++) {
                if (!vql_has(v->news.pending, order[i]))
                        continue;
                v->news.pending &= ~(1u << order[i]);
                ret_events[count++] = (struct vql_event){ order[i], VQL_NO_QUEUE };
        }
        fired(v->news.raise_fd);
        if (v->news.pending)
                eventfd_write(v->news.raise_fd, 1);
        return count;
}
