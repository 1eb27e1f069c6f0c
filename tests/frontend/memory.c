/* SPDX-License-Identifier: BSD-3-Clause */
#include "frontend/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HUGE_PAGE = 2 << 20 };

/* The first UVA that we hand out: high and odd enough to be nobody's pointer or guest address. */
#define FIRST_UVA UINT64_C(0x100012340000)
#define MIB(n)    ((uint64_t)(n) << 20)
#define GIB(n)    ((uint64_t)(n) << 30)

static uint64_t round_up(uint64_t n, uint64_t to)
{
        return (n + to - 1) / to * to;
}

/* ---- files ---- */

static int open_unlinked(const char *dir)
{
        int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

        return fd < 0 ? -errno : fd;
}

static int open_backing(struct fe_memory *m, const struct fe_region_spec *s)
{
        int fd;

        if (s->same_file) {
                fd = fcntl(m->region[s->same_file - 1].fd, F_DUPFD_CLOEXEC, 0);
                return fd < 0 ? -errno : fd;
        }
        switch (s->backing) {
        case FE_SHM:
                return open_unlinked("/dev/shm");
        case FE_FILE:
                return open_unlinked("/tmp");
        default:
                fd = memfd_create("guest",
                                  MFD_CLOEXEC | (s->backing == FE_HUGETLB ? MFD_HUGETLB : 0));
                return fd < 0 ? -errno : fd;
        }
}

/* Make the file long enough for the region; a shared file never shrinks. */
static int extend(int fd, const struct fe_region_spec *s)
{
        uint64_t want = s->offset + s->size;
        struct stat st;

        if (s->backing == FE_HUGETLB)
                want = round_up(want, HUGE_PAGE);
        if (fstat(fd, &st) < 0)
                return -errno;
        if ((uint64_t)st.st_size < want && ftruncate(fd, (off_t)want) < 0)
                return -errno;
        return 0;
}

/* ---- regions ---- */

static unsigned int free_slot(const struct fe_memory *m)
{
        unsigned int i;

        for (i = 0; i < m->n; i++)
                if (m->region[i].fd < 0)
                        break;
        return i;
}

static int map_region(struct fe_memory *m, struct fe_region *r)
{
        const struct fe_region_spec *s = &r->spec;
        int err;
        void *va;

        r->fd = open_backing(m, s);
        if (r->fd < 0)
                return fe_fail(&m->error, -r->fd, "region at 0x%jx: cannot make its file: %s",
                               (uintmax_t)s->gpa, strerror(-r->fd));
        err = extend(r->fd, s);
        if (err < 0)
                goto fail;
        va = mmap(NULL, s->size, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, (off_t)s->offset);
        if (va == MAP_FAILED) {
                err = -errno;
                goto fail;
        }
        r->va = va;
        return 0;
fail:
        close(r->fd);
        r->fd = -1;
        return fe_fail(&m->error, -err, "region at 0x%jx, %ju bytes: %s", (uintmax_t)s->gpa,
                       (uintmax_t)s->size, strerror(-err));
}

int fe_memory_add(struct fe_memory *m, const struct fe_region_spec *spec, unsigned int *ret_index)
{
        unsigned int i = free_slot(m);
        struct fe_region *r = &m->region[i];
        int err;

        if (i >= FE_MAX_REGIONS)
                return fe_fail(&m->error, ENOSPC, "all %d regions are in use", FE_MAX_REGIONS);
        r->spec = *spec;
        if (r->spec.uva == 0) {
                r->spec.uva = m->next_uva;
                m->next_uva += round_up(spec->size, GIB(1)) + GIB(1);
        }
        r->top = spec->border;
        err = map_region(m, r);
        if (err < 0)
                return err;
        if (i == m->n)
                m->n++;
        if (ret_index)
                *ret_index = i;
        return 0;
}

void fe_memory_remove(struct fe_memory *m, unsigned int index)
{
        struct fe_region *r = &m->region[index];

        if (r->fd < 0)
                return;
        munmap(r->va, r->spec.size);
        close(r->fd);
        r->fd = -1;
}

int fe_memory_truncate(struct fe_memory *m, unsigned int index, uint64_t bytes)
{
        const struct fe_region *r = &m->region[index];

        return ftruncate(r->fd, (off_t)(r->spec.offset + bytes)) < 0 ? -errno : 0;
}

int fe_memory_new(const struct fe_region_spec *specs, unsigned int n, struct fe_memory **ret_mem)
{
        struct fe_memory *m = calloc(1, sizeof(*m));
        int err;

        if (!m)
                return -ENOMEM;
        m->next_uva = FIRST_UVA;
        for (unsigned int i = 0; i < n; i++) {
                err = fe_memory_add(m, &specs[i], NULL);
                if (err < 0) {
                        fe_memory_free(m);
                        return err;
                }
        }
        *ret_mem = m;
        return 0;
}

void fe_memory_free(struct fe_memory *m)
{
        if (!m)
                return;
        for (unsigned int i = 0; i < m->n; i++)
                fe_memory_remove(m, i);
        free(m);
}

/* ---- layouts ---- */

static const struct fe_region_spec one_region[] = {
        { .gpa = 0, .size = MIB(64), .border = MIB(1) },
};

/* As a pc machine: one file, the part above 3 GiB moved to 4 GiB, a hole for the VGA frame buffer.
 */
static const struct fe_region_spec pc[] = {
        { .gpa = 0, .size = 0xa0000, .border = FE_PAGE },
        { .gpa = 0xc0000,
          .size = MIB(32) - 0xc0000,
          .offset = 0xc0000,
          .border = FE_PAGE,
          .same_file = 1 },
        { .gpa = GIB(4), .size = MIB(32), .offset = MIB(32), .border = FE_PAGE, .same_file = 1 },
};

/* UVAs run against GPAs, so that neighbours in one space are strangers in the other. */
static const struct fe_region_spec mosaic[] = {
        { .gpa = 0, .size = MIB(16), .uva = FIRST_UVA + GIB(40), .border = MIB(1) },
        { .gpa = MIB(16), .size = FE_PAGE, .uva = FIRST_UVA + GIB(30), .border = FE_PAGE / 2 },
        { .gpa = MIB(16) + FE_PAGE,
          .size = MIB(16) - FE_PAGE,
          .uva = FIRST_UVA + GIB(20),
          .offset = 3 * FE_PAGE,
          .border = MIB(1) },
        { .gpa = GIB(5),
          .size = MIB(16),
          .uva = FIRST_UVA + GIB(10),
          .border = MIB(1),
          .backing = FE_SHM },
};

int fe_memory_new_layout(enum fe_layout layout, struct fe_memory **ret_mem)
{
        switch (layout) {
        case FE_PC:
                return fe_memory_new(pc, sizeof(pc) / sizeof(pc[0]), ret_mem);
        case FE_MOSAIC:
                return fe_memory_new(mosaic, sizeof(mosaic) / sizeof(mosaic[0]), ret_mem);
        default:
                return fe_memory_new(one_region, 1, ret_mem);
        }
}

/* ---- translation ---- */

static const struct fe_region *find(const struct fe_memory *m, uint64_t gpa)
{
        for (unsigned int i = 0; i < m->n; i++) {
                const struct fe_region *r = &m->region[i];

                if (r->fd >= 0 && gpa - r->spec.gpa < r->spec.size)
                        return r;
        }
        return NULL;
}

/* A pointer to gpa with *len cut to what its region holds, or NULL. */
static uint8_t *piece(const struct fe_memory *m, uint64_t gpa, uint64_t *len)
{
        const struct fe_region *r = find(m, gpa);
        uint64_t left;

        if (!r)
                return NULL;
        left = r->spec.size - (gpa - r->spec.gpa);
        if (*len > left)
                *len = left;
        return r->va + (gpa - r->spec.gpa);
}

void *fe_memory_at(const struct fe_memory *m, uint64_t gpa, uint64_t len)
{
        uint64_t have = len;
        void *va = piece(m, gpa, &have);

        return have == len ? va : NULL;
}

uint64_t fe_memory_uva(const struct fe_memory *m, uint64_t gpa, uint64_t len)
{
        const struct fe_region *r = find(m, gpa);

        if (!r || !fe_memory_at(m, gpa, len))
                return 0;
        return r->spec.uva + (gpa - r->spec.gpa);
}

void *fe_memory_alias(const struct fe_memory *m, uint64_t gpa)
{
        const struct fe_region *r = find(m, gpa);
        uint64_t in_file;
        uint8_t *page;

        if (!r)
                return NULL;
        in_file = r->spec.offset + (gpa - r->spec.gpa);
        page = mmap(NULL, FE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd,
                    (off_t)(in_file / FE_PAGE * FE_PAGE));
        return page == MAP_FAILED ? NULL : page + in_file % FE_PAGE;
}

void fe_memory_unalias(void *alias)
{
        if (alias)
                munmap((uint8_t *)alias - (uintptr_t)alias % FE_PAGE, FE_PAGE);
}

uint64_t fe_memory_end(const struct fe_memory *m)
{
        uint64_t end = 0;

        for (unsigned int i = 0; i < m->n; i++) {
                const struct fe_region_spec *s = &m->region[i].spec;

                if (m->region[i].fd >= 0 && s->gpa + s->size > end)
                        end = s->gpa + s->size;
        }
        return end;
}

int fe_memory_write(const struct fe_memory *m, uint64_t gpa, const void *from, uint64_t len)
{
        const uint8_t *src = from;

        while (len > 0) {
                uint64_t n = len;
                uint8_t *va = piece(m, gpa, &n);

                if (!va)
                        return -EFAULT;
                memcpy(va, src, n);
                gpa += n;
                src += n;
                len -= n;
        }
        return 0;
}

int fe_memory_read(const struct fe_memory *m, uint64_t gpa, void *to, uint64_t len)
{
        uint8_t *dst = to;

        while (len > 0) {
                uint64_t n = len;
                const uint8_t *va = piece(m, gpa, &n);

                if (!va)
                        return -EFAULT;
                memcpy(dst, va, n);
                gpa += n;
                dst += n;
                len -= n;
        }
        return 0;
}

/* ---- allocation ---- */

static bool alloc_in(struct fe_region *r, uint64_t len, uint64_t align, uint64_t *ret_gpa)
{
        uint64_t at = round_up(r->spec.gpa + r->top, align) - r->spec.gpa;

        if (r->fd < 0 || r->spec.size < r->spec.border || at + len > r->spec.size - r->spec.border)
                return false;
        r->top = at + len;
        *ret_gpa = r->spec.gpa + at;
        return true;
}

int fe_memory_alloc(struct fe_memory *m, int region, uint64_t len, uint64_t align,
                    uint64_t *ret_gpa)
{
        for (unsigned int i = 0; i < m->n; i++)
                if ((region == FE_ANY_REGION || region == (int)i) &&
                    alloc_in(&m->region[i], len, align, ret_gpa))
                        return 0;
        return fe_fail(&m->error, ENOSPC, "no room for %ju bytes in region %d", (uintmax_t)len,
                       region);
}

void fe_memory_free_all(struct fe_memory *m)
{
        for (unsigned int i = 0; i < m->n; i++)
                m->region[i].top = m->region[i].spec.border;
}

uint64_t fe_memory_cross(const struct fe_memory *m, unsigned int region, uint64_t before)
{
        const struct fe_region_spec *s = &m->region[region].spec;

        return s->gpa + s->size - before;
}

/* ---- patterns ---- */

static inline uint8_t pattern(uint64_t gpa)
{
        return (uint8_t)(gpa * 167 + (gpa >> 8) * 59 + (gpa >> 16) * 31 + 90);
}

void fe_memory_paint(const struct fe_memory *m, uint64_t gpa, uint64_t len)
{
        while (len > 0) {
                uint64_t n = len;
                uint8_t *va = piece(m, gpa, &n);

                if (!va)
                        return;
                for (uint64_t i = 0; i < n; i++)
                        va[i] = pattern(gpa + i);
                gpa += n;
                len -= n;
        }
}

uint64_t fe_memory_untouched(const struct fe_memory *m, uint64_t gpa, uint64_t len)
{
        uint64_t good = 0;

        while (good < len) {
                uint64_t n = len - good;
                const uint8_t *va = piece(m, gpa + good, &n);

                if (!va)
                        break;
                for (uint64_t i = 0; i < n; i++)
                        if (va[i] != pattern(gpa + good + i))
                                return good + i;
                good += n;
        }
        return good;
}
