/* SPDX-License-Identifier: BSD-3-Clause */
#include "virtqueue/inflight.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/file_map.h"

enum { INFLIGHT_ALIGN = 64, INFLIGHT_VERSION = 1, INFLIGHT_MAX_QUEUES = 256 };

/* The layouts are those of the vhost-user specification, "Inflight I/O tracking". */
struct split_desc {
        uint8_t inflight;
        uint8_t pad[5];
        uint16_t next;
        uint64_t counter;
};

struct split_queue {
        uint64_t features;
        uint16_t version;
        uint16_t desc_num;
        uint16_t last_batch_head;
        uint16_t used_idx;
        struct split_desc desc[];
};

struct packed_desc {
        uint8_t inflight;
        uint8_t pad;
        uint16_t next;
        uint16_t last;
        uint16_t num;
        uint64_t counter;
        uint16_t id;
        uint16_t flags;
        uint32_t len;
        uint64_t addr;
};

struct packed_queue {
        uint64_t features;
        uint16_t version;
        uint16_t desc_num;
        uint16_t free_head;
        uint16_t old_free_head;
        uint16_t used_idx;
        uint16_t old_used_idx;
        uint8_t used_wrap;
        uint8_t old_used_wrap;
        uint8_t pad[10];
        struct packed_desc desc[];
};

static_assert(sizeof(struct split_desc) == 16, "split entry");
static_assert(offsetof(struct split_queue, desc) == 16, "split header");
static_assert(sizeof(struct packed_desc) == 32, "packed entry");
static_assert(offsetof(struct packed_queue, desc) == 32, "packed header");
/* So that one place reads and writes these for both layouts. */
static_assert(offsetof(struct split_queue, version) == offsetof(struct packed_queue, version) &&
                      offsetof(struct split_queue, desc_num) ==
                              offsetof(struct packed_queue, desc_num),
              "common header");

struct vql_inflight {
        struct vql_file_map map;
        size_t queue_bytes;
        uint16_t num_queues, queue_size;
        bool packed;
};

/*
 * The front-end may write at any time: each word is read once, into a private copy.  Ours reach
 * memory in the order of the program, for whoever finds the region after this process died.
 */
#define LOAD(word)         __atomic_load_n(&(word), __ATOMIC_ACQUIRE)
#define STORE(word, value) __atomic_store_n(&(word), (value), __ATOMIC_RELEASE)

size_t vql_inflight_queue_bytes(uint16_t queue_size, bool packed)
{
        size_t bytes = packed ? offsetof(struct packed_queue, desc) +
                                        queue_size * sizeof(struct packed_desc)
                              : offsetof(struct split_queue, desc) +
                                        queue_size * sizeof(struct split_desc);

        return (bytes + INFLIGHT_ALIGN - 1) / INFLIGHT_ALIGN * INFLIGHT_ALIGN;
}

size_t vql_inflight_bytes(uint16_t num_queues, uint16_t queue_size, bool packed)
{
        return num_queues * vql_inflight_queue_bytes(queue_size, packed);
}

static int check_counts(uint16_t num_queues, uint16_t queue_size, struct vql_error *e)
{
        if (num_queues < 1 || num_queues > INFLIGHT_MAX_QUEUES)
                return vql_fail(e, EINVAL, "in-flight region for %u queues, expected 1 to %d",
                                num_queues, INFLIGHT_MAX_QUEUES);
        if (queue_size < 1 || queue_size > VQL_QUEUE_MAX_SIZE)
                return vql_fail(e, EINVAL, "in-flight region for queue size %u, expected 1 to %d",
                                queue_size, VQL_QUEUE_MAX_SIZE);
        return 0;
}

int vql_inflight_create(uint16_t num_queues, uint16_t queue_size, bool packed, int *ret_fd,
                        uint64_t *ret_bytes, struct vql_error *e)
{
        size_t bytes = vql_inflight_bytes(num_queues, queue_size, packed);
        int fd, ret = check_counts(num_queues, queue_size, e);

        if (ret < 0)
                return ret;
        fd = memfd_create("vqlift-inflight", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (fd < 0)
                return vql_fail(e, errno, "in-flight region: memfd_create: %s", strerror(errno));
        if (ftruncate(fd, (off_t)bytes) < 0 ||
            fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
                ret = vql_fail(e, errno, "in-flight region of %zu bytes: %s", bytes,
                               strerror(errno));
                close(fd);
                return ret;
        }
        *ret_fd = fd;
        *ret_bytes = bytes;
        return 0;
}

static int check_desc(const struct vql_inflight_desc *d, struct vql_error *e)
{
        size_t need = vql_inflight_bytes(d->num_queues, d->queue_size, d->packed);
        int ret = check_counts(d->num_queues, d->queue_size, e);

        if (ret < 0)
                return ret;
        if (d->bytes < need)
                return vql_fail(e, EINVAL,
                                "in-flight region of %" PRIu64 " bytes, expected at least %zu",
                                d->bytes, need);
        if (d->offset % INFLIGHT_ALIGN)
                return vql_fail(e, EINVAL,
                                "in-flight region at offset %#" PRIx64
                                ", expected a multiple of %d",
                                d->offset, INFLIGHT_ALIGN);
        return 0;
}

int vql_inflight_map(int fd, const struct vql_inflight_desc *d, struct vql_inflight **ret_inflight,
                     struct vql_error *e)
{
        struct vql_inflight *f;
        struct vql_error why;
        int ret = check_desc(d, e);

        if (ret < 0)
                return ret;
        f = calloc(1, sizeof(*f));
        if (!f)
                return vql_fail(e, ENOMEM, "in-flight region: out of memory");
        f->queue_bytes = vql_inflight_queue_bytes(d->queue_size, d->packed);
        f->num_queues = d->num_queues;
        f->queue_size = d->queue_size;
        f->packed = d->packed;
        ret = vql_file_map_open(fd, d->offset, d->bytes, -1, &f->map, &why);
        if (ret < 0) {
                free(f);
                return vql_fail(e, -ret, "in-flight region: %s", why.text);
        }
        *ret_inflight = f;
        return 0;
}

void vql_inflight_unmap(struct vql_inflight *f)
{
        if (!f)
                return;
        vql_file_map_close(&f->map);
        free(f);
}

/* Queue q's part, in whichever layout it has, or NULL. */
static void *queue_at(const struct vql_inflight *f, uint16_t q)
{
        return q < f->num_queues ? f->map.at + q * f->queue_bytes : NULL;
}

static void settle_split(struct split_queue *s, uint16_t n, const struct vql_cursor *c)
{
        for (uint16_t i = 0; i < n; i++)
                STORE(s->desc[i].inflight, 0);
        STORE(s->last_batch_head, 0);
        STORE(s->used_idx, c->used);
}

/* All entries free, in the order of the free list that a new region starts with. */
static void settle_packed(struct packed_queue *p, uint16_t n, const struct vql_cursor *c)
{
        for (uint16_t i = 0; i < n; i++) {
                STORE(p->desc[i].inflight, 0);
                STORE(p->desc[i].next, (uint16_t)(i + 1));
        }
        STORE(p->free_head, 0);
        STORE(p->old_free_head, 0);
        STORE(p->used_idx, c->used);
        STORE(p->old_used_idx, c->used);
        STORE(p->used_wrap, c->used_wrap);
        STORE(p->old_used_wrap, c->used_wrap);
}

/*
 * Version 0 means "never used": whoever finds that takes the position from the ring.  Going through
 * it makes the many stores between one step for a process that dies among them.
 */
void vql_inflight_settle(struct vql_inflight *f, uint16_t q, const struct vql_cursor *c)
{
        struct split_queue *head = queue_at(f, q);

        if (!head)
                return;
        STORE(head->version, 0);
        STORE(head->features, 0);
        STORE(head->desc_num, f->queue_size);
        if (f->packed)
                settle_packed(queue_at(f, q), f->queue_size, c);
        else
                settle_split(head, f->queue_size, c);
        STORE(head->version, INFLIGHT_VERSION);
}

static int read_split(const struct split_queue *s, uint16_t desc_num, uint16_t size,
                      struct vql_cursor *ret_cursor)
{
        uint16_t used = LOAD(s->used_idx);
        uint16_t inflight = 0;

        for (uint16_t i = 0; i < desc_num; i++) {
                uint8_t flag = LOAD(s->desc[i].inflight);

                /* An entry beyond the ring stands for a head that cannot be. */
                if (flag > 1 || (flag && i >= size))
                        return -EBADMSG;
                inflight += flag;
        }
        *ret_cursor = (struct vql_cursor){ .avail = (uint16_t)(used + inflight), .used = used };
        return 0;
}

/* Descriptors of all chains in flight, or -EBADMSG if they are more than the ring holds. */
static int count_packed(const struct packed_queue *p, uint16_t desc_num, uint16_t size)
{
        int total = 0;

        for (uint16_t i = 0; i < desc_num; i++) {
                uint8_t flag = LOAD(p->desc[i].inflight);
                uint16_t num = LOAD(p->desc[i].num);

                if (flag > 1 || (flag && !num))
                        return -EBADMSG;
                total += flag ? num : 0;
                if (total > size)
                        return -EBADMSG;
        }
        return total;
}

static int read_packed(const struct packed_queue *p, uint16_t desc_num, uint16_t size,
                       struct vql_cursor *ret_cursor)
{
        uint16_t used = LOAD(p->used_idx);
        uint8_t wrap = LOAD(p->used_wrap);
        int inflight, avail;
        bool wraps;

        if (used >= size || wrap > 1)
                return -EBADMSG;
        if (used != LOAD(p->old_used_idx) || wrap != LOAD(p->old_used_wrap))
                return -EBADMSG;
        inflight = count_packed(p, desc_num, size);
        if (inflight < 0)
                return inflight;
        avail = used + inflight;
        wraps = avail >= size;
        *ret_cursor = (struct vql_cursor){
                .avail = (uint16_t)(wraps ? avail - size : avail),
                .used = used,
                .avail_wrap = wrap ^ wraps,
                .used_wrap = wrap,
        };
        return 0;
}

int vql_inflight_read(const struct vql_inflight *f, uint16_t q, uint16_t size,
                      struct vql_cursor *ret_cursor)
{
        const struct split_queue *head = queue_at(f, q);
        uint16_t version, desc_num;

        if (!head)
                return -ENODATA;
        version = LOAD(head->version);
        if (!version)
                return -ENODATA;
        desc_num = LOAD(head->desc_num);
        /* Front-ends ask for a region for the largest queue; the ring may be smaller. */
        if (version != INFLIGHT_VERSION || desc_num < size || desc_num > f->queue_size)
                return -EBADMSG;
        if (f->packed)
                return read_packed(queue_at(f, q), desc_num, size, ret_cursor);
        return read_split(head, desc_num, size, ret_cursor);
}
