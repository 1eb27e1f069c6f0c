/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "memory/region.h"

struct vql_mem_table {
        unsigned int refs;           /* control thread only */
        size_t n;                    /* of each array */
        struct vql_mem_span *spans;  /* by guest address: all that a look-up reads */
        struct vql_region **regions; /* in the same order; one reference each */
        struct vql_region **by_uva;  /* by front-end address; borrowed from `regions` */
};

static int compare(uint64_t a, uint64_t b)
{
        return (a > b) - (a < b);
}

static int compare_gpa(const void *a, const void *b)
{
        const struct vql_region *const *x = a, *const *y = b;

        return compare((*x)->desc.gpa, (*y)->desc.gpa);
}

static int compare_uva(const void *a, const void *b)
{
        const struct vql_region *const *x = a, *const *y = b;

        return compare((*x)->desc.uva, (*y)->desc.uva);
}

/* If any two regions overlap, two neighbours in sorted order do.  Sums do not wrap: region.c. */
static int check_overlap(const struct vql_mem_table *t, struct vql_error *e)
{
        for (size_t i = 1; i < t->n; i++) {
                const struct vql_region_desc *a = &t->regions[i - 1]->desc;
                const struct vql_region_desc *b = &t->regions[i]->desc;
                const struct vql_region_desc *c = &t->by_uva[i - 1]->desc;
                const struct vql_region_desc *d = &t->by_uva[i]->desc;

                if (a->gpa + a->size > b->gpa)
                        return vql_fail(e, EINVAL,
                                        "memory regions overlap in guest addresses: %#" PRIx64
                                        " size %#" PRIx64 " and %#" PRIx64 " size %#" PRIx64,
                                        a->gpa, a->size, b->gpa, b->size);
                if (c->uva + c->size > d->uva)
                        return vql_fail(e, EINVAL,
                                        "memory regions at guest addresses %#" PRIx64
                                        " and %#" PRIx64
                                        " overlap in front-end addresses: %#" PRIx64
                                        " size %#" PRIx64 " and %#" PRIx64 " size %#" PRIx64,
                                        c->gpa, d->gpa, c->uva, c->size, d->uva, d->size);
        }
        return 0;
}

/* Room for n regions, without any.  calloc(0) may be NULL, hence one to spare. */
static struct vql_mem_table *table_alloc(size_t n)
{
        struct vql_mem_table *t = calloc(1, sizeof(*t));

        if (!t)
                return NULL;
        t->refs = 1;
        t->spans = calloc(n + 1, sizeof(*t->spans));
        t->regions = calloc(n + 1, sizeof(struct vql_region *));
        t->by_uva = calloc(n + 1, sizeof(struct vql_region *));
        if (t->spans && t->regions && t->by_uva)
                return t;
        vql_mem_table_put(t);
        return NULL;
}

static void table_fill(struct vql_mem_table *t, struct vql_region *const regions[], size_t n)
{
        for (size_t i = 0; i < n; i++)
                t->regions[i] = t->by_uva[i] = vql_region_get(regions[i]);
        t->n = n;
        qsort(t->regions, n, sizeof(struct vql_region *), compare_gpa);
        qsort(t->by_uva, n, sizeof(struct vql_region *), compare_uva);
        for (size_t i = 0; i < n; i++) {
                const struct vql_region *r = t->regions[i];

                t->spans[i] = (struct vql_mem_span){ r->desc.gpa, r->desc.size, r->map.at };
        }
}

int vql_mem_table_new(struct vql_region *const regions[], size_t n,
                      struct vql_mem_table **ret_table, struct vql_error *e)
{
        struct vql_mem_table *t;
        int ret;

        if (n > VQL_MEM_MAX_REGIONS)
                return vql_fail(e, E2BIG, "%zu memory regions, expected at most %d", n,
                                VQL_MEM_MAX_REGIONS);
        t = table_alloc(n);
        if (!t)
                return vql_fail(e, ENOMEM, "memory table of %zu regions: out of memory", n);
        table_fill(t, regions, n);
        ret = check_overlap(t, e);
        if (ret < 0) {
                vql_mem_table_put(t);
                return ret;
        }
        *ret_table = t;
        return 0;
}

struct vql_mem_table *vql_mem_table_get(struct vql_mem_table *t)
{
        t->refs++;
        return t;
}

void vql_mem_table_put(struct vql_mem_table *t)
{
        if (!t || --t->refs)
                return;
        for (size_t i = 0; i < t->n; i++)
                vql_region_put(t->regions[i]);
        free(t->by_uva);
        free(t->regions);
        free(t->spans);
        free(t);
}

size_t vql_mem_table_count(const struct vql_mem_table *t)
{
        return t->n;
}

struct vql_region *vql_mem_table_region(const struct vql_mem_table *t, size_t i)
{
        return t->regions[i];
}

bool vql_mem_table_broken(const struct vql_mem_table *t)
{
        for (size_t i = 0; i < t->n; i++)
                if (vql_sigbus_hit(t->regions[i]->map.guard))
                        return true;
        return false;
}

uint64_t vql_mem_table_end(const struct vql_mem_table *t)
{
        const struct vql_mem_span *last;

        if (!t->n)
                return 0;
        last = &t->spans[t->n - 1];
        return last->gpa + last->size;
}

int vql_mem_find(const struct vql_mem_table *t, uint64_t gpa, struct vql_mem_span *ret_span)
{
        size_t low = 0, high = t->n;

        /* Spans below `low` begin at or before gpa, spans from `high` on begin after it. */
        while (low < high) {
                size_t mid = low + (high - low) / 2;

                if (t->spans[mid].gpa <= gpa)
                        low = mid + 1;
                else
                        high = mid;
        }
        if (!low || gpa - t->spans[low - 1].gpa >= t->spans[low - 1].size)
                return -EFAULT;
        *ret_span = t->spans[low - 1];
        return 0;
}

/* The region with the highest front-end address that is not above uva, or NULL. */
static const struct vql_region *find_uva(const struct vql_mem_table *t, uint64_t uva)
{
        size_t low = 0, high = t->n;

        while (low < high) {
                size_t mid = low + (high - low) / 2;

                if (t->by_uva[mid]->desc.uva <= uva)
                        low = mid + 1;
                else
                        high = mid;
        }
        return low ? t->by_uva[low - 1] : NULL;
}

void *vql_mem_uva(const struct vql_mem_table *t, uint64_t uva, uint64_t len, uint64_t *ret_gpa)
{
        const struct vql_region *r = find_uva(t, uva);
        uint64_t off;

        if (!r)
                return NULL;
        off = uva - r->desc.uva;
        if (off >= r->desc.size || len > r->desc.size - off)
                return NULL;
        if (ret_gpa)
                *ret_gpa = r->desc.gpa + off;
        return r->map.at + off;
}
