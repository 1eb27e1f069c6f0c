/* SPDX-License-Identifier: BSD-3-Clause */
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "vfio/dma.h"
#include "vfio_rig.h"

enum { PAGE = 4096, PAGES = 256, ROUNDS = 400 };

#define TIB (UINT64_C(1) << 40)

/* Memory of this process to be mapped, anonymous: private to a device. */
struct memory {
        uint8_t *at;
        size_t len;
};

static struct memory memory_new(size_t len)
{
        struct memory m = { mmap(NULL, len, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
                            len };

        assert_ptr_not_equal(m.at, MAP_FAILED);
        return m;
}

static void memory_free(struct memory *m)
{
        munmap(m->at, m->len);
}

static struct vql_vfio_map map_of(const struct memory *m, uint64_t iova, size_t page, size_t pages)
{
        return (struct vql_vfio_map){ iova, pages * PAGE, m->at + page * PAGE, true };
}

static int add(struct rig *r, const struct vql_vfio_map *maps, size_t n)
{
        return vql_vfio_dma_update(r->d, NULL, 0, maps, n, &r->e);
}

static int del(struct rig *r, const struct vql_vfio_map *maps, size_t n)
{
        return vql_vfio_dma_update(r->d, maps, n, NULL, 0, &r->e);
}

static size_t kernel_maps(const struct rig *r)
{
        return fake_vfio_container(r->nic)->n_maps;
}

/* The device reaches this memory at this IOVA, and not a byte before or behind. */
static void reaches(const struct rig *r, const struct vql_vfio_map *m)
{
        assert_ptr_equal(fake_vfio_memory(r->nic, m->iova, m->len, m->writable), m->va);
        assert_null(fake_vfio_memory(r->nic, m->iova, m->len + 1, false));
        assert_null(fake_vfio_memory(r->nic, m->iova - 1, m->len, false));
}

static void test_maps_and_unmaps(void **state)
{
        struct rig *r = rig_new();
        struct memory m = memory_new(PAGES * PAGE);
        struct vql_vfio_map maps[] = { map_of(&m, 0x100000, 0, 4), map_of(&m, 0x800000, 9, 1) };

        (void)state;
        maps[1].writable = false;
        rig_open(r);
        must(r, add(r, maps, 2));
        reaches(r, &maps[0]);
        reaches(r, &maps[1]);
        assert_null(fake_vfio_memory(r->nic, 0x800000, 1, true));
        must(r, del(r, &maps[0], 1));
        assert_null(fake_vfio_memory(r->nic, 0x100000, 1, false));
        reaches(r, &maps[1]);
        rig_free(r);
        memory_free(&m);
}

static void test_limits(void **state)
{
        struct rig *r = rig_new();
        struct memory m = memory_new(PAGE);
        struct vql_vfio_map map = map_of(&m, 0, 0, 1);
        struct vql_vfio_limits l = { 0 };

        (void)state;
        r->fake.entry_limit = 100;
        rig_open(r);
        must(r, add(r, &map, 1));
        must(r, vql_vfio_dma_limits(r->d, &l, &r->e));
        assert_int_equal(l.page_size, PAGE);
        assert_int_equal(l.entries, 100);
        assert_int_equal(l.available, 99);
        assert_int_equal(l.n_ranges, 2);
        assert_true(l.ranges[0].last == 0xfedfffff && l.ranges[1].first == 0xfef00000);

        r->fake.no_info = true;
        must(r, vql_vfio_dma_limits(r->d, &l, &r->e));
        assert_int_equal(l.entries, 65535);
        assert_int_equal(l.n_ranges, 0);
        rig_free(r);
        memory_free(&m);
}

/* More ranges than can be told: the smallest are left out, and the rest is in order. */
static void test_keeps_the_largest_ranges(void **state)
{
        struct rig *r = rig_new();
        struct vql_vfio_limits l = { 0 };

        (void)state;
        r->fake.n_ranges = FAKE_VFIO_RANGES;
        for (uint64_t i = 0; i < FAKE_VFIO_RANGES; i++)
                r->fake.ranges[i] = (struct vfio_iova_range){
                        i << 32, (i << 32) + (i % 5 == 0 ? PAGE : 2 * PAGE + i) - 1
                };
        rig_open(r);
        must(r, vql_vfio_dma_limits(r->d, &l, &r->e));
        assert_int_equal(l.n_ranges, VQL_VFIO_MAX_RANGES);
        for (uint16_t i = 0; i < l.n_ranges; i++) {
                assert_true(l.ranges[i].last - l.ranges[i].first > PAGE);
                assert_true(i == 0 || l.ranges[i].first > l.ranges[i - 1].last);
        }
        rig_free(r);
}

static void test_refuses(void **state)
{
        struct rig *r = rig_new();
        struct memory m = memory_new(PAGES * PAGE);
        const struct vql_vfio_map good = map_of(&m, 0x100000, 0, 4);
        struct vql_vfio_map bad[] = {
                { 0x1000, 0, m.at, true },
                { 0x1800, PAGE, m.at, true },
                { 0x1000, PAGE + 1, m.at, true },
                { 0x1000, PAGE, m.at + 8, true },
                { UINT64_MAX - PAGE + 1, 2 * PAGE, m.at, true },
                { 0xfedff000, 2 * PAGE, m.at, true },
                { UINT64_C(1) << 48, PAGE, m.at, true },
                { 0x103000, PAGE, m.at, true },
                { 0xff000, 2 * PAGE, m.at, true },
        };
        static const struct {
                int err;
                const char *words;
        } expect[] = {
                { EINVAL, "0x1000 is empty" },
                { EINVAL, "multiples of the IOMMU's page size 4096" },
                { EINVAL, "4097 bytes at" },
                { EINVAL, "multiples of" },
                { EINVAL, "wraps" },
                { ERANGE,
                  "0xfedff000..0xfee00fff cannot be mapped, expected inside 0..0xfedfffff" },
                { ERANGE, "0xfef00000..0xffffffffffff" },
                { EEXIST, "0x103000..0x103fff overlaps that of 0x100000..0x103fff" },
                { EEXIST, "0xff000..0x100fff overlaps that of 0x100000..0x103fff" },
        };
        struct vql_vfio_map other = good;

        (void)state;
        rig_open(r);
        must(r, add(r, &good, 1));
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                const struct vql_vfio_map both[] = { map_of(&m, 0x4000000, 8, 1), bad[i] };

                refused(r, add(r, both, 2), expect[i].err, expect[i].words);
                assert_int_equal(kernel_maps(r), 1);
                assert_int_equal(r->fake.maps, 1);
        }
        other.len -= PAGE;
        refused(r, del(r, &other, 1), EINVAL, ADDRESS " has no such map");
        other = map_of(&m, 0x100000, 1, 4);
        refused(r, del(r, &other, 1), EINVAL, "has no such map");
        other = map_of(&m, 0x200000, 0, 4);
        refused(r, del(r, &other, 1), EINVAL, "has no such map");
        reaches(r, &good);
        rig_free(r);
        memory_free(&m);
}

static void test_says_what_the_kernel_lacks(void **state)
{
        struct rig *r = rig_new();
        struct memory m = memory_new(PAGES * PAGE);
        struct vql_vfio_map map = map_of(&m, 0x100000, 0, 4);

        (void)state;
        rig_open(r);
        map.va = (void *)(uintptr_t)PAGE;
        refused(r, add(r, &map, 1), EFAULT, "not all of it is memory that can be pinned");
        map.va = m.at;
        r->fake.memlock = 2 * PAGE;
        refused(r, add(r, &map, 1), ENOMEM, "the kernel cannot map IOVA 0x100000, 16384 bytes");
        r->fake.memlock = UINT64_MAX;
        r->fake.fail_at = 1;
        r->fake.fail_request = VFIO_IOMMU_MAP_DMA;
        r->fake.fail_errno = ENOSPC;
        refused(r, add(r, &map, 1), ENOSPC, "raise dma_entry_limit");
        must(r, add(r, &map, 1));
        rig_free(r);
        memory_free(&m);
}

/* What is replaced is never without either; what is not named is not touched. */
static void test_replaces(void **state)
{
        struct rig *r = rig_new();
        struct memory m = memory_new(PAGES * PAGE);
        struct vql_vfio_map stays = map_of(&m, 0x100000, 0, 4), old = map_of(&m, 0x200000, 4, 4),
                            new = map_of(&m, 0x202000, 20, 4);
        struct vql_vfio_map both[] = { stays, old };

        (void)state;
        rig_open(r);
        must(r, add(r, both, 2));
        must(r, vql_vfio_dma_update(r->d, &old, 1, &new, 1, &r->e));
        reaches(r, &new);
        reaches(r, &stays);
        assert_null(fake_vfio_memory(r->nic, 0x200000, 1, false));
        assert_int_equal(r->fake.maps, 3);
        assert_int_equal(r->fake.unmaps, 1);
        /* The same place again, with other memory. */
        old = new;
        new.va = m.at;
        must(r, vql_vfio_dma_update(r->d, &old, 1, &new, 1, &r->e));
        reaches(r, &new);
        rig_free(r);
        memory_free(&m);
}

static const size_t steps[] = { 0, 8, 16, 24, 32 };

/* Five old maps are replaced by five, some of them at the same place: whatever call fails, the old
 * ones are there, until none fails. */
static void test_takes_back_at_every_failure(void **state)
{
        struct memory m = memory_new(PAGES * PAGE);
        struct vql_vfio_map old[5], new[5];
        int ret = -1;

        (void)state;
        for (size_t i = 0; i < 5; i++) {
                old[i] = map_of(&m, 0x100000 * (i + 1), steps[i], 4);
                new[i] = map_of(&m, (i % 2 ? 0x1000000 : 0x102000) + 0x100000 * i, 100 + steps[i],
                                4);
        }
        for (unsigned int n = 1; ret < 0; n++) {
                struct rig *r = rig_new();

                rig_open(r);
                must(r, add(r, old, 5));
                r->fake.fail_at = n;
                ret = vql_vfio_dma_update(r->d, old, 5, new, 5, &r->e);
                if (ret == 0)
                        assert_true(n > 15);
                else
                        assert_int_equal(ret, -ENXIO);
                r->fake.fail_at = 0;
                assert_int_equal(kernel_maps(r), 5);
                for (size_t i = 0; i < 5; i++)
                        reaches(r, ret < 0 ? &old[i] : &new[i]);
                if (ret < 0)
                        must(r, vql_vfio_dma_update(r->d, old, 5, new, 5, &r->e));
                rig_free(r);
        }
        memory_free(&m);
}

/* With no room for both, the old go first. */
static void test_replaces_without_room_for_both(void **state)
{
        struct rig *r = rig_new();
        struct memory m = memory_new(PAGES * PAGE);
        struct vql_vfio_map old = map_of(&m, 0x100000, 0, 8), new = map_of(&m, 0x200000, 16, 8);

        (void)state;
        rig_open(r);
        must(r, add(r, &old, 1));
        r->fake.memlock = 12 * PAGE;
        must(r, vql_vfio_dma_update(r->d, &old, 1, &new, 1, &r->e));
        reaches(r, &new);
        r->fake.memlock = UINT64_MAX;
        r->fake.entry_limit = 1;
        must(r, vql_vfio_dma_update(r->d, &new, 1, &old, 1, &r->e));
        reaches(r, &old);
        /* And are put back if the new do not fit either way. */
        r->fake.memlock = 8 * PAGE;
        new.len += PAGE;
        refused(r, vql_vfio_dma_update(r->d, &old, 1, &new, 1, &r->e), ENOMEM, "0x200000");
        reaches(r, &old);
        rig_free(r);
        memory_free(&m);
}

static void test_notices_a_short_unmap(void **state)
{
        struct rig *r = rig_new();
        struct memory m = memory_new(PAGES * PAGE);
        struct vql_vfio_map maps[] = { map_of(&m, 0x100000, 0, 4), map_of(&m, 0x200000, 4, 4) };

        (void)state;
        rig_open(r);
        must(r, add(r, maps, 2));
        r->fake.unmap_less = PAGE;
        refused(r, del(r, maps, 1), ENOTRECOVERABLE, "has unmapped 12288 bytes at IOVA 0x100000");
        refused(r, del(r, &maps[1], 1), ENOTRECOVERABLE, "close the device");
        refused(r, add(r, maps, 1), ENOTRECOVERABLE, "close the device");
        vql_vfio_device_close(r->d);
        rig_open(r);
        must(r, add(r, maps, 2));
        rig_free(r);
        memory_free(&m);
}

/* Nothing was unmapped: nothing has changed. */
static void test_notices_an_unmap_of_nothing(void **state)
{
        struct rig *r = rig_new();
        struct memory m = memory_new(PAGES * PAGE);
        struct vql_vfio_map maps[] = { map_of(&m, 0x100000, 0, 4), map_of(&m, 0x200000, 4, 4) };

        (void)state;
        rig_open(r);
        must(r, add(r, maps, 2));
        fake_vfio_container(r->nic)->n_maps--;
        refused(r, del(r, &maps[1], 1), EIO,
                "has unmapped 0 bytes at IOVA 0x200000, expected 16384");
        fake_vfio_container(r->nic)->n_maps++;
        must(r, del(r, maps, 2));
        rig_free(r);
        memory_free(&m);
}

static void count_line(void *arg, int level, const char *name, const char *line)
{
        (void)name;
        (void)line;
        if (level <= LOG_ERR)
                ++*(int *)arg;
}

/* A host that has taken a device back drops the maps with its group: nothing to complain of. */
static void test_closes_without_maps(void **state)
{
        struct rig *r = rig_new();
        int lines = 0;
        const struct vql_log log = { count_line, &lines, NULL, LOG_DEBUG };
        struct vql_vfio_place place = fake_vfio_place(&r->fake);
        struct memory m = memory_new(PAGES * PAGE);
        struct vql_vfio_map map = map_of(&m, 0x100000, 0, 4);

        (void)state;
        place.log = &log;
        vql_vfio_free(r->vfio);
        must(r, vql_vfio_new(&place, &r->vfio, &r->e));
        rig_open(r);
        must(r, add(r, &map, 1));
        fake_vfio_container(r->nic)->n_maps = 0;
        vql_vfio_device_close(r->d);
        r->d = NULL;
        assert_int_equal(lines, 0);
        rig_free(r);
        memory_free(&m);
}

/* If the way back fails, too, that is said. */
static void test_says_when_nothing_is_certain(void **state)
{
        struct rig *r = rig_new();
        struct memory m = memory_new(PAGES * PAGE);
        struct vql_vfio_map old = map_of(&m, 0x100000, 0, 4), new = map_of(&m, 0x101000, 8, 4);

        (void)state;
        rig_open(r);
        must(r, add(r, &old, 1));
        /* The new one cannot be pinned, and the memory of the old one is not there any more. */
        new.va = (void *)(uintptr_t)PAGE;
        munmap(m.at, 4 * PAGE);
        refused(r, vql_vfio_dma_update(r->d, &old, 1, &new, 1, &r->e), ENOTRECOVERABLE,
                "uncertain until the device is closed");
        rig_free(r);
        munmap(m.at + 4 * PAGE, m.len - 4 * PAGE);
}

static void fill_row(struct vql_vfio_map *maps, const struct memory *m, size_t n)
{
        for (size_t i = 0; i < n; i++)
                maps[i] = map_of(m, 0x100000 + i * PAGE, i, 1);
}

/* Maps side by side stay apart as long as there is room, and are joined when there is not. */
static void test_joins_neighbours_for_want_of_entries(void **state)
{
        struct rig *r = rig_new();
        struct memory m = memory_new(PAGES * PAGE);
        struct vql_vfio_map maps[9];

        (void)state;
        fill_row(maps, &m, 8);
        maps[8] = map_of(&m, 0x900000, 100, 1);
        rig_open(r);
        must(r, add(r, maps, 8));
        assert_int_equal(kernel_maps(r), 8);
        must(r, del(r, maps, 8));

        r->fake.entry_limit = 2;
        must(r, add(r, maps, 9));
        assert_int_equal(kernel_maps(r), 2);
        for (size_t i = 0; i < 9; i++)
                assert_ptr_equal(fake_vfio_memory(r->nic, maps[i].iova, PAGE, true), maps[i].va);
        must(r, del(r, maps, 9));
        assert_int_equal(kernel_maps(r), 0);

        maps[8].writable = maps[4].writable = false;
        refused(r, add(r, maps, 9), ENOSPC, "4 maps, the IOMMU takes 2: raise dma_entry_limit");
        assert_int_equal(kernel_maps(r), 0);
        rig_free(r);
        memory_free(&m);
}

/* A part of what was joined goes: the rest is mapped again. */
static void test_parts_what_was_joined(void **state)
{
        struct rig *r = rig_new();
        struct memory m = memory_new(PAGES * PAGE);
        struct vql_vfio_map maps[8], far = map_of(&m, 0x900000, 100, 1);

        (void)state;
        fill_row(maps, &m, 8);
        r->fake.entry_limit = 3;
        rig_open(r);
        must(r, add(r, &far, 1));
        must(r, add(r, maps, 8));
        assert_int_equal(kernel_maps(r), 2);
        must(r, del(r, &maps[3], 1));
        assert_int_equal(kernel_maps(r), 3);
        for (size_t i = 0; i < 8; i++)
                assert_ptr_equal(fake_vfio_memory(r->nic, maps[i].iova, PAGE, true),
                                 i == 3 ? NULL : maps[i].va);
        reaches(r, &far);
        rig_free(r);
        memory_free(&m);
}

static void test_maps_a_tebibyte(void **state)
{
        struct rig *r = rig_new();
        struct vql_vfio_map map = { TIB, TIB, (void *)(uintptr_t)(16 * TIB), true };

        (void)state;
        r->fake.takes_anything = true;
        rig_open(r);
        must(r, add(r, &map, 1));
        reaches(r, &map);
        assert_ptr_equal(fake_vfio_memory(r->nic, 2 * TIB - 1, 1, true), (uintptr_t)(17 * TIB - 1));
        must(r, del(r, &map, 1));
        assert_int_equal(kernel_maps(r), 0);
        rig_free(r);
}

/* A guest of as many regions as there can be. */
static void test_maps_many(void **state)
{
        struct rig *r = rig_new();
        struct memory m = memory_new(1024 * PAGE);
        struct vql_vfio_map *maps = calloc(1024, sizeof(*maps));

        (void)state;
        for (size_t i = 0; i < 1024; i++)
                maps[i] = map_of(&m, (1023 - i) * 2 * PAGE, i, 1);
        rig_open(r);
        must(r, add(r, maps, 1024));
        assert_int_equal(kernel_maps(r), 1024);
        for (size_t i = 0; i < 1024; i++)
                assert_ptr_equal(fake_vfio_memory(r->nic, maps[i].iova, PAGE, true), maps[i].va);
        must(r, del(r, maps, 1024));
        assert_int_equal(kernel_maps(r), 0);
        rig_free(r);
        free(maps);
        memory_free(&m);
}

/* The model: slots of 4 pages, each mapped or not. */
enum { SLOTS = 24 };

struct model {
        struct memory m;
        struct vql_vfio_map slot[SLOTS]; /* len 0: not mapped */
};

/* Often the memory that follows that of the slot before. */
static size_t random_page(size_t slot)
{
        return rand() % 2 ? 4 * slot : (size_t)rand() % (PAGES - 4);
}

static size_t pick(struct model *model, struct vql_vfio_map *ret_del, struct vql_vfio_map *ret_add,
                   size_t *ret_n_add)
{
        size_t n_del = 0, n_add = 0;

        for (size_t i = 0; i < SLOTS; i++) {
                if (rand() % 3)
                        continue;
                if (model->slot[i].len)
                        ret_del[n_del++] = model->slot[i];
                if (!model->slot[i].len || rand() % 2)
                        ret_add[n_add++] = map_of(&model->m, i * 4 * PAGE, random_page(i), 4);
        }
        *ret_n_add = n_add;
        return n_del;
}

static void note(struct model *model, const struct vql_vfio_map *del_maps, size_t n_del,
                 const struct vql_vfio_map *add_maps, size_t n_add)
{
        for (size_t i = 0; i < n_del; i++)
                model->slot[del_maps[i].iova / (4 * PAGE)].len = 0;
        for (size_t i = 0; i < n_add; i++)
                model->slot[add_maps[i].iova / (4 * PAGE)] = add_maps[i];
}

static void compare(const struct rig *r, const struct model *model)
{
        for (size_t i = 0; i < SLOTS; i++)
                for (size_t page = 0; page < 4; page++) {
                        const struct vql_vfio_map *s = &model->slot[i];
                        uint64_t iova = (i * 4 + page) * PAGE;
                        void *va = s->len ? (uint8_t *)s->va + page * PAGE : NULL;

                        assert_ptr_equal(fake_vfio_memory(r->nic, iova, PAGE, true), va);
                }
}

/* Updates at random, with failures at random, with and without enough entries: what the kernel has
 * is what succeeded. */
static void check_model(uint32_t entries)
{
        struct rig *r = rig_new();
        struct model model = { .m = memory_new(PAGES * PAGE) };
        unsigned int failed = 0;

        rig_open(r);
        r->fake.entry_limit = entries;
        for (unsigned int round = 0; round < ROUNDS; round++) {
                struct vql_vfio_map d[SLOTS], a[SLOTS];
                size_t n_a, n_d = pick(&model, d, a, &n_a);

                r->fake.fail_at = rand() % 3 ? 0 : 1 + (unsigned int)rand() % 30;
                if (vql_vfio_dma_update(r->d, d, n_d, a, n_a, &r->e) == 0)
                        note(&model, d, n_d, a, n_a);
                else
                        failed++;
                r->fake.fail_at = 0;
                compare(r, &model);
        }
        assert_true(failed > ROUNDS / 10 && failed < ROUNDS * 3 / 4);
        rig_free(r);
        memory_free(&model.m);
}

static void test_is_the_same_as_a_model(void **state)
{
        (void)state;
        srand(11);
        check_model(65535);
        check_model(13);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_maps_and_unmaps),
                cmocka_unit_test(test_limits),
                cmocka_unit_test(test_keeps_the_largest_ranges),
                cmocka_unit_test(test_refuses),
                cmocka_unit_test(test_says_what_the_kernel_lacks),
                cmocka_unit_test(test_replaces),
                cmocka_unit_test(test_takes_back_at_every_failure),
                cmocka_unit_test(test_replaces_without_room_for_both),
                cmocka_unit_test(test_notices_a_short_unmap),
                cmocka_unit_test(test_notices_an_unmap_of_nothing),
                cmocka_unit_test(test_closes_without_maps),
                cmocka_unit_test(test_says_when_nothing_is_certain),
                cmocka_unit_test(test_joins_neighbours_for_want_of_entries),
                cmocka_unit_test(test_parts_what_was_joined),
                cmocka_unit_test(test_maps_a_tebibyte),
                cmocka_unit_test(test_maps_many),
                cmocka_unit_test(test_is_the_same_as_a_model),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
