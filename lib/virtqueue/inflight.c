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
#include "virtqueue/ring.h"

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
        union {
                uint64_t position; /* all four as one word: vql_position_word() */
                struct {
                        uint16_t used_idx;
                        uint16_t old_used_idx;
                        uint8_t used_wrap;
                        uint8_t old_used_wrap;
                        uint8_t pad[2];
                };
        };
        uint8_t reserved[8];
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
        STORE(p->position, vql_position_word(c->used, c->used_wrap, c->used, c->used_wrap));
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

/* The number of entries of queue q, or -ENODATA, -EBADMSG. */
static int count_entries(const struct vql_inflight *f, uint16_t q, uint16_t size)
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
        return desc_num;
}

int vql_inflight_read(const struct vql_inflight *f, uint16_t q, uint16_t size,
                      struct vql_cursor *ret_cursor)
{
        const int desc_num = count_entries(f, q, size);

        if (desc_num < 0)
                return desc_num;
        if (f->packed)
                return read_packed(queue_at(f, q), (uint16_t)desc_num, size, ret_cursor);
        return read_split(queue_at(f, q), (uint16_t)desc_num, size, ret_cursor);
}

uint64_t *vql_inflight_position(struct vql_inflight *f, uint16_t q)
{
        struct packed_queue *p = f->packed ? queue_at(f, q) : NULL;

        return p ? &p->position : NULL;
}

/* ---- after a cut ---- */

/* The last batch is linked from last_batch_head on; what was published of it is not in flight. */
static void recover_split(struct split_queue *s, uint16_t desc_num, uint16_t used_idx)
{
        uint16_t left = (uint16_t)(used_idx - LOAD(s->used_idx));
        uint16_t at = LOAD(s->last_batch_head);

        if (left > desc_num)
                left = desc_num;
        for (; left > 0 && at < desc_num; left--) {
                STORE(s->desc[at].inflight, 0);
                at = LOAD(s->desc[at].next);
        }
        STORE(s->used_idx, used_idx);
}

static int recover_packed(struct packed_queue *p, uint16_t desc_num,
                          const struct vql_inflight_ring *ring)
{
        struct vql_cursor c[2], *holds = &c[1];
        uint16_t at;

        if (vql_position_read(LOAD(p->position), ring->size, c) < 0)
                return -EBADMSG;
        if (vql_packed_is_used(LOAD(ring->desc[c[1].used].flags), c[1].used_wrap))
                holds = &c[0];
        if (holds == &c[0])
                STORE(p->old_free_head, LOAD(p->free_head));
        else
                STORE(p->free_head, LOAD(p->old_free_head));
        STORE(p->position,
              vql_position_word(holds->used, holds->used_wrap, holds->used, holds->used_wrap));
        /* What is on the free list is not in flight; the list is hostile and may be a circle. */
        at = LOAD(p->free_head);
        for (uint16_t left = desc_num; left > 0 && at < desc_num; left--) {
                STORE(p->desc[at].inflight, 0);
                at = LOAD(p->desc[at].next);
        }
        return 0;
}

int vql_inflight_recover(struct vql_inflight *f, uint16_t q, const struct vql_inflight_ring *ring)
{
        const int desc_num = count_entries(f, q, ring->size);

        if (desc_num < 0)
                return desc_num;
        if (f->packed)
                return recover_packed(queue_at(f, q), (uint16_t)desc_num, ring);
        recover_split(queue_at(f, q), (uint16_t)desc_num, ring->used_idx);
        return 0;
}

/* ---- what is in flight ---- */

static int by_counter(const void *a, const void *b)
{
        const struct vql_inflight_chain *x = a, *y = b;

        return (x->counter > y->counter) - (x->counter < y->counter);
}

/* Entry i as a chain; false: it is not in flight. */
static bool read_chain(const void *queue, bool packed, uint16_t i, uint16_t desc_num,
                       struct vql_inflight_chain *c)
{
        const struct split_queue *s = queue;
        const struct packed_queue *p = queue;
        uint16_t last;

        *c = (struct vql_inflight_chain){ .entry = i, .id = i, .slots = 1 };
        if (!packed) {
                c->counter = LOAD(s->desc[i].counter);
                return LOAD(s->desc[i].inflight);
        }
        c->counter = LOAD(p->desc[i].counter);
        c->slots = LOAD(p->desc[i].num);
        last = LOAD(p->desc[i].last);
        c->id = last < desc_num ? LOAD(p->desc[last].id) : UINT16_MAX;
        return LOAD(p->desc[i].inflight);
}

static int list_chains(const void *queue, bool packed, uint16_t desc_num, uint16_t size,
                       struct vql_inflight_chain *chains)
{
        unsigned int slots = 0;
        int n = 0;

        for (uint16_t i = 0; i < desc_num; i++) {
                if (!read_chain(queue, packed, i, desc_num, &chains[n]))
                        continue;
                slots += chains[n].slots;
                if (chains[n].id >= size || chains[n].slots == 0 || slots > size)
                        return -EBADMSG;
                n++;
        }
        qsort(chains, (size_t)n, sizeof(*chains), by_counter);
        return n;
}

int vql_inflight_list(const struct vql_inflight *f, uint16_t q, uint16_t size,
                      struct vql_inflight_chain **ret_chains)
{
        const int desc_num = count_entries(f, q, size);
        struct vql_inflight_chain *chains;
        int n;

        if (desc_num < 0)
                return desc_num;
        chains = calloc((size_t)desc_num + 1, sizeof(*chains));
        if (!chains)
                return -ENOMEM;
        n = list_chains(queue_at(f, q), f->packed, (uint16_t)desc_num, size, chains);
        if (n < 0)
                free(chains);
        else
                *ret_chains = chains;
        return n;
}

/* Entries were checked when they were listed; a front-end that changes them meanwhile can make us
 * write no further than its own region. */
static void return_split(struct split_queue *s, const struct vql_inflight_chain *chains, uint16_t n)
{
        for (uint16_t i = 0; i < n; i++) {
                STORE(s->desc[chains[i].entry].next, LOAD(s->last_batch_head));
                STORE(s->last_batch_head, chains[i].entry);
        }
}

static void return_packed(struct packed_queue *p, uint16_t desc_num, uint16_t size,
                          const struct vql_inflight_chain *chains, uint16_t n)
{
        struct vql_cursor c[2];
        uint32_t slot;

        if (vql_position_read(LOAD(p->position), size, c) < 0)
                return;
        slot = c[1].used;
        for (uint16_t i = 0; i < n; i++) {
                const uint16_t last = LOAD(p->desc[chains[i].entry].last);

                if (last < desc_num)
                        STORE(p->desc[last].next, LOAD(p->free_head));
                STORE(p->free_head, chains[i].entry);
                slot += chains[i].slots;
        }
        c[0].used_wrap = c[1].used_wrap ^ (slot >= size);
        c[0].used = (uint16_t)(slot >= size ? slot - size : slot);
        STORE(p->position, vql_position_word(c[0].used, c[0].used_wrap, c[1].used, c[1].used_wrap));
}

void vql_inflight_return(struct vql_inflight *f, uint16_t q, uint16_t size,
                         const struct vql_inflight_chain *chains, uint16_t n)
{
        void *queue = queue_at(f, q);

        if (!queue)
                return;
        if (f->packed)
                return_packed(queue, f->queue_size, size, chains, n);
        else
                return_split(queue, chains, n);
}
