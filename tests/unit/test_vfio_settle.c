/* SPDX-License-Identifier: BSD-3-Clause */
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vfio/dma.h"
#include "vfio/irq.h"
#include "vfio/pci.h"
#include "vfio/region.h"
#include "vfio_rig.h"

/*
 * Devices of one guest in one container.  A guest is two memory files, each of which every port
 * maps for itself; a port's own memory is anonymous.
 */

enum { PAGE = 4096, SIZE = 16 * PAGE, FILES = 2, RACE_ROUNDS = 300 };

#define GPA(i)     ((uint64_t)(i)*0x10000000)
#define OWN(which) (UINT64_C(0x800000000) + (uint64_t)(which)*0x100000)

struct guest {
        int files[FILES];
};

struct view {
        struct vql_vfio_map maps[FILES];
        struct vql_vfio_map own;
};

static struct guest guest_new(void)
{
        struct guest g;

        for (size_t i = 0; i < FILES; i++) {
                g.files[i] = memfd_create("vql-unit-guest", MFD_CLOEXEC);
                assert_true(g.files[i] >= 0);
                assert_int_equal(ftruncate(g.files[i], SIZE), 0);
        }
        return g;
}

static void guest_free(const struct guest *g)
{
        for (size_t i = 0; i < FILES; i++)
                close(g->files[i]);
}

static struct vql_vfio_map map_new(uint64_t iova, int fd)
{
        int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
        void *va = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, flags, fd, 0);

        assert_ptr_not_equal(va, MAP_FAILED);
        return (struct vql_vfio_map){ iova, SIZE, va, true };
}

static struct view view_new(const struct guest *g, unsigned int own)
{
        struct view v = { .own = map_new(OWN(own), -1) };

        for (size_t i = 0; i < FILES; i++)
                v.maps[i] = map_new(GPA(i), g->files[i]);
        return v;
}

static void view_free(const struct view *v)
{
        for (size_t i = 0; i < FILES; i++)
                munmap(v->maps[i].va, SIZE);
        munmap(v->own.va, SIZE);
}

static void add(struct rig *r, struct vql_vfio_device *d, const struct vql_vfio_map *maps, size_t n)
{
        must(r, vql_vfio_dma_update(d, NULL, 0, maps, n, &r->e));
}

static void del(struct rig *r, struct vql_vfio_device *d, const struct vql_vfio_map *maps, size_t n)
{
        must(r, vql_vfio_dma_update(d, maps, n, NULL, 0, &r->e));
}

static void give(struct rig *r, struct vql_vfio_device *d, const struct view *v)
{
        add(r, d, v->maps, FILES);
        add(r, d, &v->own, 1);
}

static bool together(const struct rig *r)
{
        return r->nic->container >= 0 && r->nic->container == r->other->container;
}

static unsigned int containers(const struct rig *r)
{
        unsigned int n = 0;

        for (size_t i = 0; i < FAKE_VFIO_CONTAINERS; i++)
                n += r->fake.containers[i].open;
        return n;
}

/* Two devices of one guest, in one container. */
struct pair {
        struct rig *r;
        struct guest g;
        struct view a, b;
};

static struct pair pair_apart(void)
{
        struct pair p = { .r = rig_new(), .g = guest_new() };

        p.a = view_new(&p.g, 0);
        p.b = view_new(&p.g, 1);
        rig_open_both(p.r);
        give(p.r, p.r->d, &p.a);
        assert_int_equal(vql_vfio_dma_settle(p.r->d, &p.r->e), 0);
        give(p.r, p.r->o, &p.b);
        return p;
}

static struct pair pair_new(void)
{
        struct pair p = pair_apart();
        int ret = vql_vfio_dma_settle(p.r->o, &p.r->e);

        must(p.r, ret);
        assert_int_equal(ret, 1);
        assert_true(together(p.r));
        assert_int_equal(containers(p.r), 1);
        return p;
}

static void pair_free(struct pair *p)
{
        rig_free(p->r);
        view_free(&p->a);
        view_free(&p->b);
        guest_free(&p->g);
}

static void reaches(const struct fake_vfio_device *d, const struct vql_vfio_map *m)
{
        uint8_t *at = fake_vfio_memory(d, m->iova, m->len, true);

        assert_non_null(at);
        at[3]++;
        assert_int_equal(((uint8_t *)m->va)[3], at[3]);
}

static void test_shares_what_the_guest_has(void **state)
{
        struct pair p = pair_new();

        (void)state;
        /* The files once, and the memory of each device. */
        assert_int_equal(fake_vfio_container(p.r->nic)->n_maps, FILES + 2);
        for (size_t i = 0; i < FILES; i++) {
                reaches(p.r->nic, &p.a.maps[i]);
                reaches(p.r->other, &p.b.maps[i]);
        }
        reaches(p.r->nic, &p.a.own);
        reaches(p.r->other, &p.b.own);
        assert_int_equal(vql_vfio_dma_settle(p.r->d, &p.r->e), 0);
        assert_int_equal(vql_vfio_dma_settle(p.r->o, &p.r->e), 0);
        pair_free(&p);
}

/* The device works as after open, by the same objects. */
static void test_moves_with_its_regions(void **state)
{
        struct rig *r = rig_new();
        struct guest g = guest_new();
        struct view a = view_new(&g, 0), b = view_new(&g, 1);
        struct vql_vfio_region *bar = NULL;
        uint16_t command = 0;
        int irq = -1;

        (void)state;
        fake_vfio_region(r->other, 0, PAGE);
        rig_open_both(r);
        must(r, vql_vfio_device_region(r->o, 0, &bar, &r->e));
        must(r, vql_vfio_pci_command(r->o, PCI_COMMAND_MASTER, 0, &r->e));
        vql_vfio_write32(bar, 8, 99);
        give(r, r->d, &a);
        give(r, r->o, &b);
        must(r, vql_vfio_irq_enable(r->o, VFIO_PCI_MSIX_IRQ_INDEX, &irq, 1, &r->e));
        refused(r, vql_vfio_dma_settle(r->o, &r->e), EBUSY, "interrupts are enabled");
        vql_vfio_irq_disable(r->o, VFIO_PCI_MSIX_IRQ_INDEX);
        assert_int_equal(vql_vfio_dma_settle(r->o, &r->e), 1);
        assert_true(together(r));
        assert_true(vql_vfio_region_mapped(bar, 0, PAGE));
        assert_int_equal(vql_vfio_read32(bar, 8), 99);
        assert_int_equal(vql_vfio_pci_read16(r->o, PCI_COMMAND, &command), 0);
        assert_int_equal(command, 0);
        rig_free(r);
        view_free(&a);
        view_free(&b);
        guest_free(&g);
}

/* A map lives until the last of them deletes it, and each may unmap its own view then. */
static void test_one_goes(void **state)
{
        struct pair p = pair_new();
        struct fake_vfio_container *c = fake_vfio_container(p.r->nic);

        (void)state;
        del(p.r, p.r->d, p.a.maps, FILES);
        assert_int_equal(c->n_maps, FILES + 2);
        del(p.r, p.r->o, &p.b.maps[0], 1);
        assert_int_equal(c->n_maps, FILES + 1);
        assert_null(fake_vfio_memory(p.r->other, p.b.maps[0].iova, 1, false));
        vql_vfio_device_close(p.r->d);
        p.r->d = NULL;
        assert_int_equal(c->n_maps, 2);
        assert_true(c->open);
        pair_free(&p);
}

/* What must be mapped again is so from the view of a device that is still there. */
static void test_maps_again_from_what_remains(void **state)
{
        struct pair p = pair_new();
        struct vql_vfio_map instead = map_new(GPA(0), -1);

        (void)state;
        assert_ptr_equal(fake_vfio_memory(p.r->other, GPA(0), SIZE, true), p.a.maps[0].va);
        del(p.r, p.r->d, p.a.maps, FILES);
        munmap(p.a.maps[0].va, SIZE);
        /* At the same place, so the old goes first; the new cannot come: the old comes back. */
        p.r->fake.fail_request = VFIO_IOMMU_MAP_DMA;
        p.r->fake.fail_at = 1;
        refused(p.r, vql_vfio_dma_update(p.r->o, p.b.maps, 1, &instead, 1, &p.r->e), ENXIO,
                "cannot map IOVA 0, ");
        assert_ptr_equal(fake_vfio_memory(p.r->other, GPA(0), SIZE, true), p.b.maps[0].va);
        p.a.maps[0] = instead;
        pair_free(&p);
}

/* Who has one of the guest's files, at the right place, but not all of them, is somebody else. */
static void test_strangers_stay_out(void **state)
{
        struct rig *r = rig_new();
        struct guest g = guest_new(), h = guest_new();
        struct view a = view_new(&g, 0), b = view_new(&g, 1), c = view_new(&h, 1);
        struct vql_vfio_map elsewhere = b.maps[1];

        (void)state;
        rig_open_both(r);
        give(r, r->d, &a);
        add(r, r->o, b.maps, 1);
        assert_int_equal(vql_vfio_dma_settle(r->o, &r->e), 0);
        /* All files, but one at another place. */
        elsewhere.iova += SIZE;
        add(r, r->o, &elsewhere, 1);
        assert_int_equal(vql_vfio_dma_settle(r->o, &r->e), 0);
        del(r, r->o, &elsewhere, 1);
        /* All, but one for reading only. */
        elsewhere = b.maps[1];
        elsewhere.writable = false;
        add(r, r->o, &elsewhere, 1);
        assert_int_equal(vql_vfio_dma_settle(r->o, &r->e), 0);
        del(r, r->o, &elsewhere, 1);
        del(r, r->o, b.maps, 1);
        /* Another guest of the same shape. */
        give(r, r->o, &c);
        assert_int_equal(vql_vfio_dma_settle(r->o, &r->e), 0);
        assert_false(together(r));
        assert_int_equal(containers(r), 2);
        rig_free(r);
        view_free(&a);
        view_free(&b);
        view_free(&c);
        guest_free(&g);
        guest_free(&h);
}

/* Memory is plugged in and out at one device after the other. */
static void test_hotplug_one_after_the_other(void **state)
{
        struct pair p = pair_new();
        struct guest more = guest_new();
        struct vql_vfio_map a = map_new(GPA(5), more.files[0]), b = map_new(GPA(5), more.files[0]);
        struct vql_vfio_map wrong = map_new(GPA(6), more.files[1]);

        (void)state;
        add(p.r, p.r->d, &a, 1);
        refused(p.r, vql_vfio_dma_update(p.r->o, NULL, 0, &wrong, 1, &p.r->e), EXDEV,
                OTHER_ADDRESS " shares its container with " ADDRESS);
        add(p.r, p.r->o, &b, 1);
        assert_int_equal(fake_vfio_container(p.r->nic)->n_maps, FILES + 3);
        del(p.r, p.r->o, &b, 1);
        del(p.r, p.r->d, &a, 1);
        assert_int_equal(fake_vfio_container(p.r->nic)->n_maps, FILES + 2);
        munmap(a.va, SIZE);
        munmap(b.va, SIZE);
        munmap(wrong.va, SIZE);
        guest_free(&more);
        pair_free(&p);
}

/* One port gets another guest, who knows a file of the old one: not before it has moved out. */
static void test_next_guest_moves_out(void **state)
{
        struct pair p = pair_new();
        struct guest h = guest_new();
        struct view c = view_new(&h, 1);

        (void)state;
        refused(p.r, vql_vfio_dma_update(p.r->o, p.b.maps, FILES, c.maps, FILES, &p.r->e), EXDEV,
                "whose guest has other memory");
        del(p.r, p.r->o, p.b.maps, FILES);
        refused(p.r, vql_vfio_dma_update(p.r->o, NULL, 0, p.b.maps, 1, &p.r->e), EXDEV,
                "must move out first");
        assert_int_equal(vql_vfio_dma_settle(p.r->o, &p.r->e), 1);
        assert_false(together(p.r));
        assert_int_equal(containers(p.r), 2);
        add(p.r, p.r->o, c.maps, FILES);
        reaches(p.r->other, &c.maps[0]);
        reaches(p.r->other, &p.b.own);
        reaches(p.r->nic, &p.a.maps[0]);
        assert_int_equal(fake_vfio_container(p.r->nic)->n_maps, FILES + 1);
        pair_free(&p);
        view_free(&c);
        guest_free(&h);
}

/* Memory of their own at the same IOVA: they cannot share, and go on as they are. */
static void test_own_memory_in_the_way(void **state)
{
        struct pair p = pair_apart();
        struct vql_vfio_map own = p.b.own;

        (void)state;
        del(p.r, p.r->o, &own, 1);
        own.iova = p.a.own.iova;
        add(p.r, p.r->o, &own, 1);
        assert_int_equal(vql_vfio_dma_settle(p.r->o, &p.r->e), 0);
        assert_false(together(p.r));
        reaches(p.r->other, &p.b.maps[1]);
        reaches(p.r->other, &own);
        pair_free(&p);
}

/* Either it has moved, or it is where it was and works, or it is gone and says so; in no case does
 * the other device notice, or anything leak. */
static void check_after(struct pair *p, int ret)
{
        reaches(p->r->nic, &p->a.maps[0]);
        reaches(p->r->nic, &p->a.own);
        if (ret < 0) {
                assert_int_equal(ret, -ENODEV);
                assert_true(vql_vfio_device_gone(p->r->o));
                assert_non_null(strstr(p->r->e.text, OTHER_ADDRESS " was lost"));
                return;
        }
        assert_int_equal(together(p->r), ret);
        assert_int_equal(fake_vfio_container(p->r->nic)->n_maps, FILES + (ret ? 2U : 1U));
        reaches(p->r->other, &p->b.maps[1]);
        reaches(p->r->other, &p->b.own);
        del(p->r, p->r->o, p->b.maps, FILES);
}

static void test_every_failure_of_a_move(void **state)
{
        unsigned int stayed = 0, lost = 0;
        int ret = 0;

        (void)state;
        for (unsigned int n = 1; ret != 1; n++) {
                struct pair p = pair_apart();

                p.r->fake.fail_at = n;
                ret = vql_vfio_dma_settle(p.r->o, &p.r->e);
                stayed += ret == 0;
                lost += ret < 0;
                p.r->fake.fail_at = 0;
                check_after(&p, ret);
                pair_free(&p);
        }
        assert_true(stayed >= 2);
        assert_true(lost >= 2);
}

/* The container that it should join does not take it: it goes back, with all it had. */
static void test_returns_home(void **state)
{
        struct pair p = pair_apart();

        (void)state;
        p.r->fake.fail_request = VFIO_GROUP_SET_CONTAINER;
        p.r->fake.fail_at = 1;
        assert_int_equal(vql_vfio_dma_settle(p.r->o, &p.r->e), 0);
        assert_int_equal(p.r->fake.fail_at, 0);
        assert_int_equal(fake_vfio_container(p.r->other)->n_maps, FILES + 1);
        check_after(&p, 0);
        pair_free(&p);
}

static void test_every_failure_of_moving_out(void **state)
{
        int ret = -1;

        (void)state;
        for (unsigned int n = 1; ret < 0; n++) {
                struct pair p = pair_new();

                del(p.r, p.r->o, p.b.maps, FILES);
                p.r->fake.fail_at = n;
                ret = vql_vfio_dma_settle(p.r->o, &p.r->e);
                p.r->fake.fail_at = 0;
                assert_true(ret == 1 || ret < 0);
                assert_true(ret < 0 || n > 5);
                if (fake_vfio_memory(p.r->nic, p.a.maps[0].iova, SIZE, true))
                        reaches(p.r->nic, &p.a.maps[0]);
                else
                        fail_msg("failure %u: the other device has lost its memory", n);
                pair_free(&p);
        }
}

/* Two ports, each with a thread of its own. */
struct racer {
        struct rig *r;
        struct vql_vfio_device *d;
        const struct view *v;
        struct vql_error e;
        int failed;
};

static void *race(void *arg)
{
        struct racer *x = arg;

        for (int i = 0; i < RACE_ROUNDS && !x->failed; i++) {
                int ret = vql_vfio_dma_update(x->d, NULL, 0, x->v->maps, FILES, &x->e);

                if (ret == -EXDEV) {
                        ret = vql_vfio_dma_settle(x->d, &x->e);
                        if (ret >= 0)
                                ret = vql_vfio_dma_update(x->d, NULL, 0, x->v->maps, FILES, &x->e);
                }
                if (ret >= 0)
                        ret = vql_vfio_dma_settle(x->d, &x->e);
                if (ret >= 0)
                        ret = vql_vfio_dma_update(x->d, x->v->maps, FILES, NULL, 0, &x->e);
                x->failed = ret < 0 ? ret : 0;
        }
        return NULL;
}

static void test_threads(void **state)
{
        struct rig *r = rig_new();
        struct guest g = guest_new();
        struct view a = view_new(&g, 0), b = view_new(&g, 1);
        struct racer x[2];
        pthread_t thread[2];

        (void)state;
        rig_open_both(r);
        x[0] = (struct racer){ .r = r, .d = r->d, .v = &a };
        x[1] = (struct racer){ .r = r, .d = r->o, .v = &b };
        for (size_t i = 0; i < 2; i++)
                assert_int_equal(pthread_create(&thread[i], NULL, race, &x[i]), 0);
        for (size_t i = 0; i < 2; i++) {
                pthread_join(thread[i], NULL);
                if (x[i].failed)
                        fail_msg("%d: %s", x[i].failed, x[i].e.text);
        }
        assert_int_equal(fake_vfio_container(r->nic)->n_maps, 0);
        rig_free(r);
        view_free(&a);
        view_free(&b);
        guest_free(&g);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_shares_what_the_guest_has),
                cmocka_unit_test(test_moves_with_its_regions),
                cmocka_unit_test(test_one_goes),
                cmocka_unit_test(test_maps_again_from_what_remains),
                cmocka_unit_test(test_strangers_stay_out),
                cmocka_unit_test(test_hotplug_one_after_the_other),
                cmocka_unit_test(test_next_guest_moves_out),
                cmocka_unit_test(test_own_memory_in_the_way),
                cmocka_unit_test(test_every_failure_of_a_move),
                cmocka_unit_test(test_returns_home),
                cmocka_unit_test(test_every_failure_of_moving_out),
                cmocka_unit_test(test_threads),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
