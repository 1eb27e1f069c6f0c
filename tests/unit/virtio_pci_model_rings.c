/* SPDX-License-Identifier: BSD-3-Clause */
/* The model's side of its rings: split and packed, in order, one buffer at a time. */
#include "virtio_pci_model.h"

#include <string.h>

#include <linux/pci_regs.h>
#include <linux/virtio_config.h>
#include <linux/virtio_net.h>
#include <linux/virtio_ring.h>

enum { MAX_PIECES = 32, MAX_FRAME = 16384 };

struct piece {
        uint64_t iova;
        uint32_t len;
        bool writable;
};

/* A buffer that the driver made available. */
struct chain {
        struct piece pieces[MAX_PIECES];
        size_t n;
        uint16_t id;
        uint16_t slots; /* of a packed ring */
};

static void *dma(struct model *m, uint64_t iova, uint64_t bytes, bool write)
{
        uint16_t command;
        void *va = m->memory ? m->memory(m->arg, iova, bytes, write) : NULL;

        memcpy(&command, m->pci + PCI_COMMAND, sizeof(command));
        if (!(command & PCI_COMMAND_MASTER))
                model_wrong(m, "DMA without bus mastering");
        if (!va) {
                model_wrong(m, "DMA of %llu bytes at %#llx, which is not mapped",
                            (unsigned long long)bytes, (unsigned long long)iova);
                model_break(m);
        }
        return va;
}

static bool is_packed(const struct model *m)
{
        return model_agreed(m) >> VIRTIO_F_RING_PACKED & 1;
}

static bool add_piece(struct chain *c, uint64_t addr, uint32_t len, uint16_t flags)
{
        if (c->n == MAX_PIECES)
                return false;
        c->pieces[c->n++] = (struct piece){ addr, len, flags & VRING_DESC_F_WRITE };
        return true;
}

static bool peek_split(struct model *m, struct model_queue *q, struct chain *c)
{
        struct vring_avail *avail = dma(m, q->driver, 6 + 2u * q->size, false);
        struct vring_desc *desc = dma(m, q->desc, 16u * q->size, false);
        uint16_t i;

        if (!avail || !desc || __atomic_load_n(&avail->idx, __ATOMIC_ACQUIRE) == q->avail)
                return false;
        i = c->id = avail->ring[q->avail % q->size];
        for (uint16_t left = q->size; left > 0 && i < q->size; left--) {
                if (!add_piece(c, desc[i].addr, desc[i].len, desc[i].flags))
                        break;
                if (!(desc[i].flags & VRING_DESC_F_NEXT))
                        return true;
                i = desc[i].next;
        }
        model_wrong(m, "a chain of queue size %u leads out of its ring or in a circle", q->size);
        return false;
}

static bool flags_say(uint16_t flags, bool avail, bool used)
{
        return !!(flags & 1u << VRING_PACKED_DESC_F_AVAIL) == avail &&
               !!(flags & 1u << VRING_PACKED_DESC_F_USED) == used;
}

static void advance(uint16_t *slot, uint8_t *wrap, uint16_t size, uint16_t by)
{
        *slot = (uint16_t)(*slot + by);
        if (*slot >= size) {
                *slot = (uint16_t)(*slot - size);
                *wrap = !*wrap;
        }
}

static bool peek_packed(struct model *m, struct model_queue *q, struct chain *c)
{
        struct vring_packed_desc *ring = dma(m, q->desc, 16u * q->size, true);
        uint16_t slot = q->avail, flags;
        uint8_t wrap = q->avail_wrap;

        if (!ring)
                return false;
        do {
                flags = __atomic_load_n(&ring[slot].flags, __ATOMIC_ACQUIRE);
                if (!flags_say(flags, wrap, !wrap)) {
                        if (c->n)
                                model_wrong(m, "a packed chain is not all there");
                        return false;
                }
                if (!add_piece(c, ring[slot].addr, ring[slot].len, flags))
                        return false;
                c->id = ring[slot].id;
                c->slots++;
                advance(&slot, &wrap, q->size, 1);
        } while (flags & VRING_DESC_F_NEXT);
        return true;
}

static bool peek(struct model *m, struct model_queue *q, struct chain *ret_chain)
{
        memset(ret_chain, 0, sizeof(*ret_chain));
        return is_packed(m) ? peek_packed(m, q, ret_chain) : peek_split(m, q, ret_chain);
}

static void give_back_split(struct model *m, struct model_queue *q, const struct chain *c,
                            uint32_t len)
{
        struct vring_used *used = dma(m, q->device, 6 + 8u * q->size, true);

        q->avail++;
        if (!used)
                return;
        used->ring[q->used % q->size] = (struct vring_used_elem){ c->id, len };
        q->used++;
        __atomic_store_n(&used->idx, q->used, __ATOMIC_RELEASE);
}

static void give_back_packed(struct model *m, struct model_queue *q, const struct chain *c,
                             uint32_t len)
{
        struct vring_packed_desc *ring = dma(m, q->desc, 16u * q->size, true);
        uint16_t flags = len ? VRING_DESC_F_WRITE : 0;

        advance(&q->avail, &q->avail_wrap, q->size, c->slots);
        if (!ring)
                return;
        if (q->used_wrap)
                flags |= 1u << VRING_PACKED_DESC_F_AVAIL | 1u << VRING_PACKED_DESC_F_USED;
        ring[q->used].id = c->id;
        ring[q->used].len = len;
        __atomic_store_n(&ring[q->used].flags, flags, __ATOMIC_RELEASE);
        advance(&q->used, &q->used_wrap, q->size, c->slots);
}

static bool wants_interrupt(struct model *m, struct model_queue *q)
{
        if (is_packed(m)) {
                struct vring_packed_desc_event *ev = dma(m, q->driver, sizeof(*ev), false);

                return ev && ev->flags != VRING_PACKED_EVENT_FLAG_DISABLE;
        }
        struct vring_avail *avail = dma(m, q->driver, 6 + 2u * q->size, false);

        return avail && !(avail->flags & VRING_AVAIL_F_NO_INTERRUPT);
}

static void give_back(struct model *m, struct model_queue *q, const struct chain *c, uint32_t len)
{
        if (is_packed(m))
                give_back_packed(m, q, c, len);
        else
                give_back_split(m, q, c, len);
        if (wants_interrupt(m, q) && q->vector != MODEL_NO_VECTOR && m->interrupt)
                m->interrupt(m->arg, q->vector);
}

/* The readable pieces of a chain, up to `max`. */
static size_t gather(struct model *m, const struct chain *c, uint8_t *ret_bytes, size_t max)
{
        size_t n = 0;

        for (size_t i = 0; i < c->n && !c->pieces[i].writable; i++) {
                size_t take = c->pieces[i].len < max - n ? c->pieces[i].len : max - n;
                const void *va = dma(m, c->pieces[i].iova, c->pieces[i].len, false);

                if (!va)
                        return 0;
                memcpy(ret_bytes + n, va, take);
                n += take;
        }
        return n;
}

static uint32_t scatter(struct model *m, const struct chain *c, const uint8_t *bytes, size_t n)
{
        size_t done = 0;

        for (size_t i = 0; i < c->n && done < n; i++) {
                size_t put = c->pieces[i].len < n - done ? c->pieces[i].len : n - done;
                void *va;

                if (!c->pieces[i].writable)
                        continue;
                va = dma(m, c->pieces[i].iova, c->pieces[i].len, true);
                if (!va)
                        return 0;
                memcpy(va, bytes + done, put);
                done += put;
        }
        return (uint32_t)done;
}

/* What is sent on a pair is received on it; without a buffer it is dropped, as on a wire. */
static void receive(struct model *m, uint16_t rx, const uint8_t *frame, size_t n)
{
        struct model_queue *q = &m->queues[rx];
        struct chain c;

        if (!q->enabled || q->resetting || rx / 2 >= m->active_pairs || !peek(m, q, &c)) {
                m->dropped++;
                return;
        }
        give_back(m, q, &c, scatter(m, &c, frame, n));
        m->received++;
}

static void transmit(struct model *m, uint16_t tx)
{
        static uint8_t frame[MAX_FRAME];
        struct model_queue *q = &m->queues[tx];
        struct chain c;

        while (peek(m, q, &c)) {
                size_t n = gather(m, &c, frame, sizeof(frame));

                m->sent++;
                receive(m, tx - 1, frame, n);
                give_back(m, q, &c, 0);
        }
}

static uint8_t obey(struct model *m, const uint8_t *bytes, size_t n)
{
        struct model_command *c = &m->commands[m->n_commands];
        uint16_t pairs;

        if (n < 2 || m->n_commands == MODEL_MAX_COMMANDS)
                return VIRTIO_NET_ERR;
        c->cls = bytes[0];
        c->command = bytes[1];
        c->bytes = (uint32_t)(n - 2);
        memcpy(c->data, bytes + 2, n - 2 < sizeof(c->data) ? n - 2 : sizeof(c->data));
        m->n_commands++;
        if (m->faults.refuses_control)
                return VIRTIO_NET_ERR;
        if (c->cls != VIRTIO_NET_CTRL_MQ)
                return VIRTIO_NET_OK;
        memcpy(&pairs, c->data, sizeof(pairs));
        if (c->bytes != sizeof(pairs) || pairs == 0 || pairs > m->pairs)
                return VIRTIO_NET_ERR;
        m->active_pairs = pairs;
        return VIRTIO_NET_OK;
}

static void control(struct model *m, struct model_queue *q)
{
        static uint8_t bytes[MAX_FRAME];
        struct chain c;

        while (peek(m, q, &c)) {
                uint8_t ack = obey(m, bytes, gather(m, &c, bytes, sizeof(bytes)));

                give_back(m, q, &c, scatter(m, &c, &ack, sizeof(ack)));
        }
}

void model_walk(struct model *m, uint16_t q)
{
        if (m->status & VIRTIO_CONFIG_S_NEEDS_RESET)
                return;
        if (q == model_control_queue(m)) {
                if (!m->faults.ignores_control)
                        control(m, &m->queues[q]);
        } else if (q % 2 && !m->faults.stalls) {
                transmit(m, q);
        }
}
