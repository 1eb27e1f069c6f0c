/* SPDX-License-Identifier: BSD-3-Clause */
#include "virtio_pci_model.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <linux/pci_regs.h>
#include <linux/virtio_config.h>
#include <linux/virtio_net.h>
#include <linux/virtio_pci.h>
#include <linux/virtio_ring.h>

enum {
        RING_RESET = 40,
        CAPS_AT = 0x40,
        MSIX_AT = 0x98,
        COMMON_LENGTH = 0x3c,
        NOTIFY_LENGTH = 0x1000
};
enum { CONFIG_BYTES = 12, QUEUE_RESET = 0x3a };
#define BIT(n) (UINT64_C(1) << (n))

/* Fields of the common configuration: offset, width, may it be written. */
static const struct field {
        uint8_t at, width;
        bool writable;
} fields[] = {
        { VIRTIO_PCI_COMMON_DFSELECT, 4, true },  { VIRTIO_PCI_COMMON_DF, 4, false },
        { VIRTIO_PCI_COMMON_GFSELECT, 4, true },  { VIRTIO_PCI_COMMON_GF, 4, true },
        { VIRTIO_PCI_COMMON_MSIX, 2, true },      { VIRTIO_PCI_COMMON_NUMQ, 2, false },
        { VIRTIO_PCI_COMMON_STATUS, 1, true },    { VIRTIO_PCI_COMMON_CFGGENERATION, 1, false },
        { VIRTIO_PCI_COMMON_Q_SELECT, 2, true },  { VIRTIO_PCI_COMMON_Q_SIZE, 2, true },
        { VIRTIO_PCI_COMMON_Q_MSIX, 2, true },    { VIRTIO_PCI_COMMON_Q_ENABLE, 2, true },
        { VIRTIO_PCI_COMMON_Q_NOFF, 2, false },   { VIRTIO_PCI_COMMON_Q_DESCLO, 4, true },
        { VIRTIO_PCI_COMMON_Q_DESCHI, 4, true },  { VIRTIO_PCI_COMMON_Q_AVAILLO, 4, true },
        { VIRTIO_PCI_COMMON_Q_AVAILHI, 4, true }, { VIRTIO_PCI_COMMON_Q_USEDLO, 4, true },
        { VIRTIO_PCI_COMMON_Q_USEDHI, 4, true },  { QUEUE_RESET, 2, true },
};

void model_wrong(struct model *m, const char *fmt, ...)
{
        va_list ap;

        if (m->wrong[0])
                return;
        va_start(ap, fmt);
        vsnprintf(m->wrong, sizeof(m->wrong), fmt, ap);
        va_end(ap);
}

uint64_t model_agreed(const struct model *m)
{
        return m->words[0] | (uint64_t)m->words[1] << 32;
}

static bool agreed(const struct model *m, unsigned int bit)
{
        return (m->status & VIRTIO_CONFIG_S_FEATURES_OK) && (model_agreed(m) >> bit & 1);
}

uint16_t model_control_queue(const struct model *m)
{
        return agreed(m, VIRTIO_NET_F_MQ) ? (uint16_t)(2 * m->pairs) : 2;
}

static void put16(uint8_t *at, uint16_t v)
{
        memcpy(at, &v, sizeof(v));
}

static void put32(uint8_t *at, uint32_t v)
{
        memcpy(at, &v, sizeof(v));
}

static uint8_t put_cap(struct model *m, uint8_t at, uint8_t type, uint32_t offset, uint32_t length)
{
        uint8_t *c = m->pci + at;
        uint8_t bytes = type == VIRTIO_PCI_CAP_NOTIFY_CFG ? 20 : 16;

        c[0] = PCI_CAP_ID_VNDR;
        c[1] = (uint8_t)(at + bytes);
        c[2] = bytes;
        c[3] = type;
        c[4] = MODEL_BAR;
        put32(c + 8, offset);
        put32(c + 12, length);
        if (bytes == 20)
                put32(c + 16, m->multiplier);
        return c[1];
}

void model_write_pci(struct model *m)
{
        uint8_t at = CAPS_AT;

        memset(m->pci, 0, sizeof(m->pci));
        put16(m->pci + PCI_VENDOR_ID, 0x1af4);
        put16(m->pci + PCI_DEVICE_ID, 0x1041);
        put16(m->pci + PCI_STATUS, PCI_STATUS_CAP_LIST);
        put16(m->pci + PCI_SUBSYSTEM_VENDOR_ID, 0x1af4);
        put16(m->pci + PCI_SUBSYSTEM_ID, 0x1100);
        m->pci[PCI_CAPABILITY_LIST] = CAPS_AT;
        at = put_cap(m, at, VIRTIO_PCI_CAP_COMMON_CFG, MODEL_COMMON_AT, COMMON_LENGTH);
        at = put_cap(m, at, VIRTIO_PCI_CAP_ISR_CFG, MODEL_ISR_AT, 1);
        at = put_cap(m, at, VIRTIO_PCI_CAP_DEVICE_CFG, MODEL_DEVICE_AT, CONFIG_BYTES);
        at = put_cap(m, at, VIRTIO_PCI_CAP_NOTIFY_CFG, MODEL_NOTIFY_AT, NOTIFY_LENGTH);
        m->pci[at - 20 + 1] = MSIX_AT;
        m->pci[MSIX_AT] = PCI_CAP_ID_MSIX;
        put16(m->pci + MSIX_AT + PCI_MSIX_FLAGS, (uint16_t)(m->table - 1));
        put32(m->pci + MSIX_AT + PCI_MSIX_TABLE, 1);
        put32(m->pci + MSIX_AT + PCI_MSIX_PBA, 0x800 | 1);
}

uint8_t *model_cap(struct model *m, uint8_t type)
{
        uint8_t at = m->pci[PCI_CAPABILITY_LIST];

        while (at && !(m->pci[at] == PCI_CAP_ID_VNDR && m->pci[at + 3] == type))
                at = m->pci[at + 1];
        return at ? m->pci + at : NULL;
}

static void clear_queue(struct model *m, struct model_queue *q)
{
        *q = (struct model_queue){
                .size = m->max_size, .vector = MODEL_NO_VECTOR, .avail_wrap = 1, .used_wrap = 1
        };
}

static void clear(struct model *m)
{
        m->status = 0;
        m->device_select = m->driver_select = 0;
        memset(m->words, 0, sizeof(m->words));
        m->config_vector = MODEL_NO_VECTOR;
        m->active_pairs = 1;
        for (int i = 0; i < MODEL_MAX_QUEUES; i++)
                clear_queue(m, &m->queues[i]);
}

void model_init(struct model *m)
{
        static const uint8_t mac[6] = { 0x52, 0x54, 0, 1, 2, 3 };

        memset(m, 0, sizeof(*m));
        m->features = BIT(VIRTIO_F_VERSION_1) | BIT(VIRTIO_F_ACCESS_PLATFORM) |
                      BIT(VIRTIO_F_RING_PACKED) | BIT(RING_RESET) | BIT(VIRTIO_NET_F_MAC) |
                      BIT(VIRTIO_NET_F_STATUS) | BIT(VIRTIO_NET_F_MRG_RXBUF) |
                      BIT(VIRTIO_NET_F_CTRL_VQ) | BIT(VIRTIO_NET_F_CTRL_RX) | BIT(VIRTIO_NET_F_MQ) |
                      BIT(VIRTIO_NET_F_CTRL_MAC_ADDR) | BIT(VIRTIO_NET_F_MTU) |
                      BIT(VIRTIO_NET_F_CSUM) | BIT(24) | BIT(30) | BIT(38) | BIT(39);
        m->pairs = 2;
        m->n_queues = 5;
        m->max_size = 64;
        m->table = 10;
        m->multiplier = 4;
        m->mtu = 1500;
        m->link = VIRTIO_NET_S_LINK_UP;
        memcpy(m->mac, mac, sizeof(mac));
        clear(m);
        model_write_pci(m);
}

/* A queue that is not there has size 0 and takes nothing. */
static struct model_queue *selected(struct model *m)
{
        struct model_queue *none = &m->queues[MODEL_MAX_QUEUES - 1];

        if (m->select < m->n_queues && m->select < MODEL_MAX_QUEUES - 1)
                return &m->queues[m->select];
        memset(none, 0, sizeof(*none));
        return none;
}

static uint64_t field_value(struct model *m, uint8_t at)
{
        struct model_queue *q = selected(m);

        switch (at) {
        case VIRTIO_PCI_COMMON_DFSELECT:
                return m->device_select;
        case VIRTIO_PCI_COMMON_DF:
                return m->device_select < 2 ? m->features >> 32 * m->device_select : 0;
        case VIRTIO_PCI_COMMON_MSIX:
                return m->config_vector;
        case VIRTIO_PCI_COMMON_NUMQ:
                return m->n_queues;
        case VIRTIO_PCI_COMMON_CFGGENERATION:
                return m->faults.config_moves ? ++m->generation : m->generation;
        case VIRTIO_PCI_COMMON_Q_SELECT:
                return m->select;
        case VIRTIO_PCI_COMMON_Q_SIZE:
                return q->size;
        case VIRTIO_PCI_COMMON_Q_MSIX:
                return q->vector;
        case VIRTIO_PCI_COMMON_Q_ENABLE:
                return q->enabled;
        case VIRTIO_PCI_COMMON_Q_NOFF:
                return m->select;
        default:
                return 0;
        }
}

static uint8_t read_status(struct model *m)
{
        if (m->reset_left == 0)
                return m->status;
        if (m->reset_left != UINT32_MAX && --m->reset_left == 0)
                clear(m);
        return m->reset_left ? m->status : 0;
}

static uint64_t read_queue_reset(struct model *m)
{
        struct model_queue *q = selected(m);

        if (!q->resetting)
                return 0;
        if (m->queue_reset_left == UINT32_MAX || (m->queue_reset_left && --m->queue_reset_left))
                return 1;
        clear_queue(m, q);
        return 0;
}

/* 2.1.1: one bit after the other, none taken away. */
static void write_status(struct model *m, uint8_t value)
{
        static const uint8_t order[] = { VIRTIO_CONFIG_S_ACKNOWLEDGE, VIRTIO_CONFIG_S_DRIVER,
                                         VIRTIO_CONFIG_S_FEATURES_OK, VIRTIO_CONFIG_S_DRIVER_OK };
        uint8_t mine = m->status & (uint8_t)~VIRTIO_CONFIG_S_NEEDS_RESET, before = 0;

        if (value == 0) {
                /* One that is in reset has nothing to do, and says so. */
                m->reset_left = m->status ? m->faults.reset_reads : 0;
                if (m->reset_left == 0)
                        clear(m);
                return;
        }
        if (m->reset_left)
                model_wrong(m, "status %#x is written before the reset is over", value);
        for (size_t i = 0; i < sizeof(order); i++) {
                if ((value & order[i]) && (mine & before) != before)
                        model_wrong(m, "status %#x after %#x", value, m->status);
                before |= order[i];
        }
        if ((value & mine) != mine || value & VIRTIO_CONFIG_S_NEEDS_RESET)
                model_wrong(m, "status %#x after %#x takes a bit away", value, m->status);
        if ((value & ~mine & VIRTIO_CONFIG_S_FEATURES_OK) && m->faults.refuses_features)
                value &= (uint8_t)~VIRTIO_CONFIG_S_FEATURES_OK;
        m->status = value | (m->status & VIRTIO_CONFIG_S_NEEDS_RESET);
}

static void write_features(struct model *m, uint32_t value)
{
        uint32_t offered =
                m->driver_select < 2 ? (uint32_t)(m->features >> 32 * m->driver_select) : 0;

        if (!(m->status & VIRTIO_CONFIG_S_DRIVER) || m->status & VIRTIO_CONFIG_S_FEATURES_OK)
                model_wrong(m, "features are written with status %#x", m->status);
        if (value & ~offered)
                model_wrong(m, "features %#x of word %u are not offered", value & ~offered,
                            m->driver_select);
        if (m->driver_select < 4)
                m->words[m->driver_select] = value;
}

static void write_vector(struct model *m, uint16_t *vector, uint16_t value)
{
        uint16_t limit = m->faults.vectors ? m->faults.vectors : m->table;

        if (!(m->status & VIRTIO_CONFIG_S_FEATURES_OK))
                model_wrong(m, "a vector is written with status %#x", m->status);
        *vector = value < limit ? value : MODEL_NO_VECTOR;
}

static void write_enable(struct model *m, struct model_queue *q, uint64_t value)
{
        bool packed = agreed(m, VIRTIO_F_RING_PACKED);

        if (value != 1)
                model_wrong(m, "queue_enable of queue %u is written as %u", m->select,
                            (unsigned int)value);
        if (!(m->status & VIRTIO_CONFIG_S_FEATURES_OK))
                model_wrong(m, "queue %u is enabled with status %#x", m->select, m->status);
        if (q->enabled)
                model_wrong(m, "queue %u is enabled twice", m->select);
        if (!q->desc || !q->driver || !q->device)
                model_wrong(m, "queue %u is enabled without addresses", m->select);
        if (q->size == 0 || q->size > m->max_size || (!packed && (q->size & (q->size - 1))))
                model_wrong(m, "queue %u is enabled with size %u", m->select, q->size);
        q->enabled = true;
}

static void write_queue_reset(struct model *m, struct model_queue *q, uint64_t value)
{
        if (!agreed(m, RING_RESET) || !(m->status & VIRTIO_CONFIG_S_DRIVER_OK) || value != 1 ||
            !q->enabled)
                model_wrong(m, "queue_reset %u of queue %u, status %#x, enabled %d",
                            (unsigned int)value, m->select, m->status, q->enabled);
        q->resetting = true;
        m->queue_reset_left = m->faults.queue_reset_reads;
}

static void write_half(uint64_t *field, uint8_t at, uint32_t value)
{
        unsigned int shift = at & 4 ? 32 : 0;

        *field = (*field & ~(UINT64_C(0xffffffff) << shift)) | (uint64_t)value << shift;
}

static void write_ring(struct model *m, struct model_queue *q, uint8_t at, uint32_t value)
{
        if (q->enabled || q->resetting || !(m->status & VIRTIO_CONFIG_S_FEATURES_OK))
                model_wrong(m, "field %#x of queue %u is written, status %#x, enabled %d", at,
                            m->select, m->status, q->enabled);
        if (at == VIRTIO_PCI_COMMON_Q_SIZE)
                q->size = m->faults.shrinks_size ? m->faults.shrinks_size : (uint16_t)value;
        else if (at < VIRTIO_PCI_COMMON_Q_AVAILLO)
                write_half(&q->desc, at, value);
        else if (at < VIRTIO_PCI_COMMON_Q_USEDLO)
                write_half(&q->driver, at - VIRTIO_PCI_COMMON_Q_AVAILLO, value);
        else
                write_half(&q->device, at - VIRTIO_PCI_COMMON_Q_USEDLO, value);
}

static void write_field(struct model *m, uint8_t at, uint32_t value)
{
        struct model_queue *q = selected(m);

        switch (at) {
        case VIRTIO_PCI_COMMON_DFSELECT:
                m->device_select = value;
                return;
        case VIRTIO_PCI_COMMON_GFSELECT:
                m->driver_select = value;
                return;
        case VIRTIO_PCI_COMMON_GF:
                write_features(m, value);
                return;
        case VIRTIO_PCI_COMMON_MSIX:
                write_vector(m, &m->config_vector, (uint16_t)value);
                return;
        case VIRTIO_PCI_COMMON_STATUS:
                write_status(m, (uint8_t)value);
                return;
        case VIRTIO_PCI_COMMON_Q_SELECT:
                m->select = (uint16_t)value;
                return;
        case VIRTIO_PCI_COMMON_Q_MSIX:
                write_vector(m, &q->vector, (uint16_t)value);
                return;
        case VIRTIO_PCI_COMMON_Q_ENABLE:
                write_enable(m, q, value);
                return;
        case QUEUE_RESET:
                write_queue_reset(m, q, value);
                return;
        default:
                write_ring(m, q, at, value);
        }
}

static const struct field *find_field(struct model *m, uint64_t at, size_t n, bool write)
{
        for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
                if (fields[i].at == at && fields[i].width == n && (fields[i].writable || !write))
                        return &fields[i];
        }
        model_wrong(m, "%s of %zu bytes at %#x of the common configuration",
                    write ? "write" : "read", n, (unsigned int)at);
        return NULL;
}

static void read_device(struct model *m, uint64_t at, void *ret_bytes, size_t n)
{
        uint8_t image[CONFIG_BYTES];

        memcpy(image, m->mac, 6);
        put16(image + 6, m->link);
        put16(image + 8, m->pairs);
        put16(image + 10, m->mtu);
        if (at + n > sizeof(image) || n != (at < 6 ? 1 : 2) || (n == 2 && at % 2))
                model_wrong(m, "read of %zu bytes at %#x of the device configuration", n,
                            (unsigned int)at);
        else
                memcpy(ret_bytes, image + at, n);
}

static void read_bar(struct model *m, uint64_t at, void *ret_bytes, size_t n)
{
        const struct field *f;
        uint64_t value = 0;

        memset(ret_bytes, 0, n);
        if (at >= MODEL_DEVICE_AT && at < MODEL_NOTIFY_AT) {
                read_device(m, at - MODEL_DEVICE_AT, ret_bytes, n);
                return;
        }
        if (at >= MODEL_ISR_AT) {
                model_wrong(m, "read at %#x, of the ISR or a doorbell", (unsigned int)at);
                return;
        }
        f = find_field(m, at, n, false);
        if (f && at == VIRTIO_PCI_COMMON_STATUS)
                value = read_status(m);
        else if (f && at == QUEUE_RESET)
                value = read_queue_reset(m);
        else if (f)
                value = field_value(m, f->at);
        memcpy(ret_bytes, &value, n);
}

static void write_doorbell(struct model *m, uint64_t at, const void *bytes, size_t n)
{
        uint16_t q = 0;

        if (n != sizeof(q)) {
                model_wrong(m, "doorbell of %zu bytes", n);
                return;
        }
        memcpy(&q, bytes, n);
        if (q >= m->n_queues || at != q * (uint64_t)m->multiplier) {
                model_wrong(m, "doorbell of queue %u at %#x", q, (unsigned int)at);
                return;
        }
        m->kicks++;
        if (!(m->status & VIRTIO_CONFIG_S_DRIVER_OK) || !m->queues[q].enabled ||
            m->queues[q].resetting)
                model_wrong(m, "doorbell of queue %u, status %#x, enabled %d", q, m->status,
                            m->queues[q].enabled);
        else
                model_walk(m, q);
}

static void write_bar(struct model *m, uint64_t at, const void *bytes, size_t n)
{
        uint64_t value = 0;

        if (at >= MODEL_NOTIFY_AT) {
                write_doorbell(m, at - MODEL_NOTIFY_AT, bytes, n);
                return;
        }
        if (at >= MODEL_ISR_AT) {
                model_wrong(m, "write at %#x", (unsigned int)at);
                return;
        }
        if (!find_field(m, at, n, true))
                return;
        memcpy(&value, bytes, n);
        if (m->n_trace < MODEL_MAX_TRACE)
                m->trace[m->n_trace++] = (struct model_write){ (uint8_t)at, m->select, value };
        write_field(m, (uint8_t)at, (uint32_t)value);
}

/* Counts the access; false when the function does not answer. */
static bool answers(struct model *m, uint32_t region)
{
        uint16_t command;

        m->accesses++;
        if (m->faults.needs_reset_from && m->accesses >= m->faults.needs_reset_from && m->status) {
                m->faults.needs_reset_from = 0;
                model_break(m);
        }
        if (m->faults.ones_from && m->accesses >= m->faults.ones_from)
                return false;
        memcpy(&command, m->pci + PCI_COMMAND, sizeof(command));
        if (region == MODEL_CONFIG_REGION || command & PCI_COMMAND_MEMORY)
                return true;
        model_wrong(m, "register access with memory decoding off");
        return false;
}

int model_read(void *arg, uint32_t region, uint64_t at, void *ret_bytes, size_t n)
{
        struct model *m = arg;

        if (!answers(m, region)) {
                memset(ret_bytes, 0xff, n);
                return 0;
        }
        if (region == MODEL_CONFIG_REGION) {
                memset(ret_bytes, 0, n);
                if (at + n <= sizeof(m->pci))
                        memcpy(ret_bytes, m->pci + at, n);
        } else {
                read_bar(m, at, ret_bytes, n);
        }
        return 0;
}

int model_write(void *arg, uint32_t region, uint64_t at, const void *bytes, size_t n)
{
        struct model *m = arg;

        if (!answers(m, region))
                return 0;
        if (region != MODEL_CONFIG_REGION)
                write_bar(m, at, bytes, n);
        else if (at == PCI_COMMAND && n == 2)
                memcpy(m->pci + at, bytes, n);
        else
                model_wrong(m, "configuration space is written at %#x", (unsigned int)at);
        return 0;
}

int model_reset(void *arg)
{
        struct model *m = arg;

        if (m->faults.resists_flr)
                return -EIO;
        m->flrs++;
        m->reset_left = 0;
        m->faults.reset_reads = 0;
        clear(m);
        put16(m->pci + PCI_COMMAND, 0);
        return 0;
}

void model_set_link(struct model *m, bool up)
{
        m->link = up ? VIRTIO_NET_S_LINK_UP : 0;
        m->generation++;
        if (m->config_vector != MODEL_NO_VECTOR && m->interrupt)
                m->interrupt(m->arg, m->config_vector);
}

/* 2.1.2: with DRIVER_OK it also tells. */
void model_break(struct model *m)
{
        m->status |= VIRTIO_CONFIG_S_NEEDS_RESET;
        if ((m->status & VIRTIO_CONFIG_S_DRIVER_OK) && m->config_vector != MODEL_NO_VECTOR &&
            m->interrupt)
                m->interrupt(m->arg, m->config_vector);
}

void model_run(struct model *m)
{
        for (uint16_t q = 0; q < m->n_queues; q++) {
                if ((m->status & VIRTIO_CONFIG_S_DRIVER_OK) && m->queues[q].enabled &&
                    !m->queues[q].resetting)
                        model_walk(m, q);
        }
}
