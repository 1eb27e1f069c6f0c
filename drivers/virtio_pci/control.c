/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control queue (virtio 1.2, 5.1.6.5).  One command at a time, in memory of the driver's own:
 * class, command and data in one buffer, the answer in another.  Commands are rare, so the answer
 * is waited for by looking.
 */
#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "drivers/virtio_pci/regs.h"
#include "drivers/virtio_pci/wait.h"
#include "virtqueue/features.h"
#include "virtqueue/ring.h"

/* The answer is behind the command, on its own cache line. */
enum { HEAD_BYTES = 2, ACK_BYTES = 1, DATA_MAX = 8000, ACK_AT = 8128 };
enum { CHAIN = 2, CONTROL_SIZE = 16 };
static_assert(HEAD_BYTES + DATA_MAX <= ACK_AT && ACK_AT < (int)VPCI_COMMAND_BYTES,
              "a command fits");

struct command {
        uint64_t iova;
        uint32_t bytes;
};

int vql_vpci_control_start(struct vql_vpci *v, struct vql_error *e)
{
        struct vpci_control *c = &v->control;
        uint16_t size = CONTROL_SIZE;
        struct vql_dev_ring ring;
        int ret;

        if (c->queue == VQL_NO_QUEUE)
                return 0;
        while (size > vql_vpci_queue(v, c->queue)->max)
                size /= 2;
        ring = vql_vpci_memory_ring(v, VPCI_MEMORY_CONTROL, size);
        ret = vql_vpci_queue_enable(v, c->queue, &ring, e);
        if (ret)
                return ret;
        c->size = ring.size;
        c->next = 0;
        c->wrap = 1;
        c->state = VPCI_CONTROL_READY;
        return 0;
}

static struct vring split_ring(const struct vql_vpci *v)
{
        struct vql_dev_ring r;
        struct vring s;

        r = vql_vpci_memory_layout(v, VPCI_MEMORY_CONTROL, v->control.size);
        s.num = r.size;
        s.desc = (void *)vql_vpci_memory_va(v, VPCI_MEMORY_CONTROL);
        s.avail = (void *)((uint8_t *)s.desc + (r.driver - r.desc));
        s.used = (void *)((uint8_t *)s.desc + (r.device - r.desc));
        return s;
}

static void offer_split(struct vql_vpci *v, const struct command *cmd)
{
        struct vpci_control *c = &v->control;
        struct vring s = split_ring(v);

        s.desc[0].addr = htole64(cmd->iova);
        s.desc[0].len = htole32(cmd->bytes);
        s.desc[0].flags = htole16(VRING_DESC_F_NEXT);
        s.desc[0].next = htole16(1);
        s.desc[1].addr = htole64(cmd->iova + ACK_AT);
        s.desc[1].len = htole32(ACK_BYTES);
        s.desc[1].flags = htole16(VRING_DESC_F_WRITE);
        s.avail->ring[c->next % c->size] = 0;
        s.avail->flags = htole16(VRING_AVAIL_F_NO_INTERRUPT);
        c->next++;
        __atomic_store_n(&s.avail->idx, htole16(c->next), __ATOMIC_RELEASE);
}

static bool is_done_split(const struct vql_vpci *v)
{
        struct vring s = split_ring(v);

        return le16toh(__atomic_load_n(&s.used->idx, __ATOMIC_ACQUIRE)) == v->control.next;
}

static uint16_t packed_flags(uint8_t wrap)
{
        return wrap ? VQL_PACKED_AVAIL : VQL_PACKED_USED;
}

static void offer_packed(struct vql_vpci *v, const struct command *cmd)
{
        struct vpci_control *c = &v->control;
        struct vring_packed_desc *ring = (void *)vql_vpci_memory_va(v, VPCI_MEMORY_CONTROL);
        struct vring_packed_desc *head = &ring[c->next], *tail = &ring[c->next + 1];

        tail->addr = htole64(cmd->iova + ACK_AT);
        tail->len = htole32(ACK_BYTES);
        tail->id = 0;
        tail->flags = htole16(VRING_DESC_F_WRITE | packed_flags(c->wrap));
        head->addr = htole64(cmd->iova);
        head->len = htole32(cmd->bytes);
        head->id = 0;
        __atomic_store_n(&head->flags, htole16(VRING_DESC_F_NEXT | packed_flags(c->wrap)),
                         __ATOMIC_RELEASE);
}

static bool is_done_packed(const struct vql_vpci *v)
{
        const struct vring_packed_desc *ring = (void *)vql_vpci_memory_va(v, VPCI_MEMORY_CONTROL);
        uint16_t flags = __atomic_load_n(&ring[v->control.next].flags, __ATOMIC_ACQUIRE);

        return vql_packed_is_used(le16toh(flags), v->control.wrap);
}

/* The size is even, so that a chain never lies around the end. */
static void advance_packed(struct vpci_control *c)
{
        c->next += CHAIN;
        if (c->next == c->size) {
                c->next = 0;
                c->wrap = !c->wrap;
        }
}

static int wait_answer(struct vql_vpci *v, bool (*is_done)(const struct vql_vpci *v),
                       struct vql_error *e)
{
        uint64_t deadline = vpci_deadline(v->args.ctrl_timeout_ms);

        while (!is_done(v)) {
                int ret = vql_vpci_check(v, e);

                if (!ret && !vpci_pause(v, deadline))
                        ret = vql_fail(e, ETIMEDOUT, "no answer to a command after %u ms",
                                       v->args.ctrl_timeout_ms);
                if (ret) {
                        v->control.state = VPCI_CONTROL_STUCK;
                        return ret;
                }
        }
        return 0;
}

static int run(struct vql_vpci *v, const struct command *cmd, struct vql_error *e)
{
        bool packed = vql_has(v->agreed, VIRTIO_F_RING_PACKED);
        int ret;

        (packed ? offer_packed : offer_split)(v, cmd);
        vql_vpci_vq_kick(v->dev, v->control.queue);
        ret = wait_answer(v, packed ? is_done_packed : is_done_split, e);
        if (!ret && packed)
                advance_packed(&v->control);
        return ret;
}

int vql_vpci_ctrl(struct vql_dev *d, uint8_t cls, uint8_t command, const void *data, uint32_t n,
                  struct vql_error *e)
{
        struct vql_vpci *v = d->priv;
        uint8_t *buffer = vql_vpci_memory_va(v, VPCI_MEMORY_COMMAND);
        struct command cmd = { vql_vpci_memory_iova(v, VPCI_MEMORY_COMMAND), HEAD_BYTES + n };
        int ret;

        if (v->control.queue == VQL_NO_QUEUE)
                return vql_fail(e, ENOTSUP, "%s: the device has no control queue", d->address);
        if (v->control.state != VPCI_CONTROL_READY)
                return vql_fail(e, EIO, "%s: the control queue is %s", d->address,
                                v->control.state == VPCI_CONTROL_STUCK
                                        ? "stuck in a command until the device is reset"
                                        : "not running");
        if (n > DATA_MAX)
                return vql_fail(e, ENOSPC, "command %u/%u has %u bytes, expected at most %u", cls,
                                command, n, DATA_MAX);
        buffer[0] = cls;
        buffer[1] = command;
        if (n)
                memcpy(buffer + HEAD_BYTES, data, n);
        buffer[ACK_AT] = 0xff;
        ret = run(v, &cmd, e);
        if (!ret && buffer[ACK_AT] != VIRTIO_NET_OK)
                ret = vql_fail(e, EIO, "%s: the device says no to command %u/%u (answer %u)",
                               d->address, cls, command, buffer[ACK_AT]);
        return ret;
}
