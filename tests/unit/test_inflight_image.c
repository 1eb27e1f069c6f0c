/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "virtqueue/inflight.h"

enum { SEED = 20240612, QUEUE = 1, SIZE = 8, MAY_NOT_TRACE = 2 };

/* Byte offsets in a queue's part, as the specification has them: written down a second time. */
enum {
        AT_VERSION = 8,
        AT_DESC_NUM = 10,
        SPLIT_USED = 14,
        SPLIT_DESC = 16,
        SPLIT_STRIDE = 16,
        PACKED_FREE_HEAD = 12,
        PACKED_OLD_FREE_HEAD = 14,
        PACKED_USED = 16,
        PACKED_OLD_USED = 18,
        PACKED_WRAP = 20,
        PACKED_OLD_WRAP = 21,
        PACKED_DESC = 32,
        PACKED_STRIDE = 32,
        PACKED_DESC_NEXT = 2,
        PACKED_DESC_NUM = 6,
};

/* A region of 3 queues of SIZE, mapped by the product and, in `bytes`, by the front-end. */
struct region {
        struct vql_inflight *f;
        uint8_t *bytes;
        uint64_t len;
        uint8_t *queue; /* QUEUE's part of `bytes` */
        bool packed;
        int fd;
};

static int map_region(const struct region *r, struct vql_inflight **ret_f, struct vql_error *e)
{
        const struct vql_inflight_desc d = { r->len, 0, 3, SIZE, r->packed };

        return vql_inflight_map(r->fd, &d, ret_f, e);
}

static void region_open(struct region *r, bool packed)
{
        struct vql_error e = { "" };
        void *va;

        r->packed = packed;
        assert_int_equal(vql_inflight_create(3, SIZE, packed, &r->fd, &r->len, &e), 0);
        if (map_region(r, &r->f, &e) < 0)
                fail_msg("%s", e.text);
        va = mmap(NULL, r->len, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
        assert_true(va != MAP_FAILED);
        r->bytes = va;
        r->queue = r->bytes + QUEUE * vql_inflight_queue_bytes(SIZE, packed);
}

static void region_close(struct region *r)
{
        vql_inflight_unmap(r->f);
        munmap(r->bytes, r->len);
        close(r->fd);
}

static void put16(struct region *r, size_t offset, uint16_t value)
{
        memcpy(r->queue + offset, &value, sizeof(value));
}

static uint16_t get16(const struct region *r, size_t offset)
{
        uint16_t value;

        memcpy(&value, r->queue + offset, sizeof(value));
        return value;
}

static int read_back(const struct region *r, struct vql_cursor *ret_cursor)
{
        return vql_inflight_read(r->f, QUEUE, SIZE, ret_cursor);
}

static void expect_cursor(const struct region *r, struct vql_cursor want)
{
        struct vql_cursor got;

        assert_int_equal(read_back(r, &got), 0);
        assert_int_equal(got.avail, want.avail);
        assert_int_equal(got.used, want.used);
        assert_int_equal(got.avail_wrap, want.avail_wrap);
        assert_int_equal(got.used_wrap, want.used_wrap);
}

static void expect_refusal(const struct region *r, int err)
{
        struct vql_cursor got = { .avail = 0x1234 };

        assert_int_equal(read_back(r, &got), -err);
        assert_int_equal(got.avail, 0x1234);
}

static void test_never_used(void **state)
{
        (void)state;
        for (int packed = 0; packed < 2; packed++) {
                struct region r;
                struct vql_cursor c;

                region_open(&r, packed);
                expect_refusal(&r, ENODATA);
                vql_inflight_settle(r.f, QUEUE, &(struct vql_cursor){ 0 });
                expect_cursor(&r, (struct vql_cursor){ 0 });
                /* Its neighbours are still as they were, and there is no fourth queue. */
                for (uint16_t q = 0; q < 5; q++)
                        assert_int_equal(vql_inflight_read(r.f, q, SIZE, &c),
                                         q == QUEUE ? 0 : -ENODATA);
                region_close(&r);
        }
        vql_inflight_unmap(NULL);
}

static void test_settled_positions_come_back(void **state)
{
        static const struct vql_cursor split[] = {
                { 0, 0, 0, 0 }, { 7, 7, 0, 0 }, { 65535, 65535, 0, 0 }, { 32768, 32768, 0, 0 }
        };
        static const struct vql_cursor packed[] = {
                { 0, 0, 1, 1 }, { 0, 0, 0, 0 }, { SIZE - 1, SIZE - 1, 1, 1 }, { 3, 3, 0, 0 }
        };
        struct region s, p;

        (void)state;
        region_open(&s, false);
        region_open(&p, true);
        for (int i = 0; i < 4; i++) {
                vql_inflight_settle(s.f, QUEUE, &split[i]);
                expect_cursor(&s, split[i]);
                vql_inflight_settle(p.f, QUEUE, &packed[i]);
                expect_cursor(&p, packed[i]);
        }
        region_close(&p);
        region_close(&s);
}

/* The image that any other back-end expects to find, byte for byte where it matters. */
static void test_settled_image(void **state)
{
        struct region r;

        (void)state;
        region_open(&r, true);
        memset(r.queue, 0xff, vql_inflight_queue_bytes(SIZE, true));
        vql_inflight_settle(r.f, QUEUE, &(struct vql_cursor){ 5, 5, 1, 1 });
        assert_int_equal(get16(&r, AT_VERSION), 1);
        assert_int_equal(get16(&r, AT_DESC_NUM), SIZE);
        assert_int_equal(get16(&r, PACKED_FREE_HEAD), 0);
        assert_int_equal(get16(&r, PACKED_OLD_FREE_HEAD), 0);
        assert_int_equal(get16(&r, PACKED_USED), 5);
        assert_int_equal(get16(&r, PACKED_OLD_USED), 5);
        assert_int_equal(r.queue[PACKED_WRAP], 1);
        assert_int_equal(r.queue[PACKED_OLD_WRAP], 1);
        for (unsigned int i = 0; i < SIZE; i++) {
                assert_int_equal(r.queue[PACKED_DESC + i * PACKED_STRIDE], 0);
                assert_int_equal(get16(&r, PACKED_DESC + i * PACKED_STRIDE + PACKED_DESC_NEXT),
                                 i + 1);
        }
        region_close(&r);

        region_open(&r, false);
        memset(r.queue, 0xff, vql_inflight_queue_bytes(SIZE, false));
        vql_inflight_settle(r.f, QUEUE, &(struct vql_cursor){ 65535, 65535, 0, 0 });
        assert_int_equal(get16(&r, AT_VERSION), 1);
        assert_int_equal(get16(&r, AT_DESC_NUM), SIZE);
        assert_int_equal(get16(&r, SPLIT_USED), 65535);
        for (unsigned int i = 0; i < SIZE; i++)
                assert_int_equal(r.queue[SPLIT_DESC + i * SPLIT_STRIDE], 0);
        region_close(&r);
}

static void test_settle_stays_in_its_queue(void **state)
{
        (void)state;
        for (int packed = 0; packed < 2; packed++) {
                size_t stride = vql_inflight_queue_bytes(SIZE, packed);
                struct region r;
                uint8_t *copy;

                region_open(&r, packed);
                memset(r.bytes, 0xa5, r.len);
                copy = malloc(r.len);
                assert_non_null(copy);
                memcpy(copy, r.bytes, r.len);
                for (unsigned int q = 3; q < 65536; q += 17)
                        vql_inflight_settle(r.f, (uint16_t)q, &(struct vql_cursor){ 0 });
                assert_memory_equal(r.bytes, copy, r.len);
                vql_inflight_settle(r.f, QUEUE, &(struct vql_cursor){ 0 });
                assert_memory_equal(r.bytes, copy, stride);
                assert_memory_equal(r.bytes + 2 * stride, copy + 2 * stride, stride);
                free(copy);
                region_close(&r);
        }
}

static void split_in_flight(struct region *r, unsigned int head)
{
        r->queue[SPLIT_DESC + head * SPLIT_STRIDE] = 1;
}

static void packed_in_flight(struct region *r, unsigned int entry, uint16_t num)
{
        r->queue[PACKED_DESC + entry * PACKED_STRIDE] = 1;
        put16(r, PACKED_DESC + entry * PACKED_STRIDE + PACKED_DESC_NUM, num);
}

static void test_buffers_in_flight(void **state)
{
        struct region r;

        (void)state;
        region_open(&r, false);
        vql_inflight_settle(r.f, QUEUE, &(struct vql_cursor){ 65534, 65534, 0, 0 });
        split_in_flight(&r, 0);
        split_in_flight(&r, 3);
        split_in_flight(&r, SIZE - 1);
        expect_cursor(&r, (struct vql_cursor){ 1, 65534, 0, 0 });
        region_close(&r);

        region_open(&r, true);
        vql_inflight_settle(r.f, QUEUE, &(struct vql_cursor){ 6, 6, 1, 1 });
        packed_in_flight(&r, 0, 1);
        expect_cursor(&r, (struct vql_cursor){ 7, 6, 1, 1 });
        packed_in_flight(&r, 1, 4);
        expect_cursor(&r, (struct vql_cursor){ 3, 6, 0, 1 });
        /* A full ring: one round ahead, at the same slot. */
        packed_in_flight(&r, 5, 3);
        expect_cursor(&r, (struct vql_cursor){ 6, 6, 0, 1 });
        packed_in_flight(&r, 7, 1);
        expect_refusal(&r, EBADMSG);
        vql_inflight_settle(r.f, QUEUE, &(struct vql_cursor){ 2, 2, 0, 0 });
        expect_cursor(&r, (struct vql_cursor){ 2, 2, 0, 0 });
        region_close(&r);
}

static void test_ring_smaller_than_the_region(void **state)
{
        struct region r;
        struct vql_cursor c;

        (void)state;
        region_open(&r, false);
        vql_inflight_settle(r.f, QUEUE, &(struct vql_cursor){ 9, 9, 0, 0 });
        split_in_flight(&r, 3);
        assert_int_equal(vql_inflight_read(r.f, QUEUE, 4, &c), 0);
        assert_int_equal(c.avail, 10);
        split_in_flight(&r, 4);
        assert_int_equal(vql_inflight_read(r.f, QUEUE, 4, &c), -EBADMSG);
        assert_int_equal(vql_inflight_read(r.f, QUEUE, SIZE + 1, &c), -EBADMSG);
        region_close(&r);

        region_open(&r, true);
        vql_inflight_settle(r.f, QUEUE, &(struct vql_cursor){ 4, 4, 0, 0 });
        assert_int_equal(vql_inflight_read(r.f, QUEUE, 5, &c), 0);
        assert_int_equal(vql_inflight_read(r.f, QUEUE, 4, &c), -EBADMSG);
        region_close(&r);
}

struct spoil {
        size_t offset;
        uint8_t value[2];
        bool packed;
};

/* Each one spoils an image that is fine at 5, wrap 1. */
static const struct spoil spoils[] = {
        { AT_VERSION, { 2, 0 }, false },
        { AT_VERSION, { 0, 1 }, true },
        { AT_DESC_NUM, { 0, 0 }, false },
        { AT_DESC_NUM, { SIZE - 1, 0 }, false },
        { AT_DESC_NUM, { SIZE + 1, 0 }, false },
        { AT_DESC_NUM, { 0xff, 0xff }, true },
        { SPLIT_DESC, { 2, 0 }, false },
        { SPLIT_DESC + 7 * SPLIT_STRIDE, { 0xff, 0 }, false },
        { PACKED_USED, { SIZE, 0 }, true },
        { PACKED_USED, { 0xff, 0xff }, true },
        { PACKED_USED, { 6, 0 }, true },
        { PACKED_OLD_USED, { 4, 0 }, true },
        { PACKED_WRAP, { 2, 1 }, true },
        { PACKED_WRAP, { 0, 1 }, true },
        { PACKED_WRAP, { 0xff, 0xff }, true },
        { PACKED_DESC, { 2, 0 }, true },
        { PACKED_DESC + 7 * PACKED_STRIDE, { 1, 0 }, true }, /* a chain of no descriptors */
};

static void test_hostile_images(void **state)
{
        (void)state;
        for (size_t i = 0; i < sizeof(spoils) / sizeof(spoils[0]); i++) {
                struct region r;

                region_open(&r, spoils[i].packed);
                vql_inflight_settle(
                        r.f, QUEUE,
                        &(struct vql_cursor){ 5, 5, spoils[i].packed, spoils[i].packed });
                memcpy(r.queue + spoils[i].offset, spoils[i].value, 2);
                expect_refusal(&r, EBADMSG);
                region_close(&r);
        }
}

/* Bytes that often are nearly right, so that the checks behind the first are reached. */
static void scribble(struct region *r)
{
        static const uint8_t likely[] = { 0, 0, 0, 0, 0, 1, 1, 2, SIZE, 255 };
        size_t n = vql_inflight_queue_bytes(SIZE, r->packed);

        for (size_t i = 0; i < n; i++)
                r->queue[i] = rand() % 4 ? 0 : likely[(size_t)rand() % sizeof(likely)];
        if (rand() % 8) {
                put16(r, AT_VERSION, 1);
                put16(r, AT_DESC_NUM, SIZE);
        }
        if (r->packed && rand() % 4)
                memcpy(r->queue + PACKED_OLD_USED, r->queue + PACKED_USED, 2);
}

static void check_split_cursor(const struct vql_cursor *c)
{
        assert_true((uint16_t)(c->avail - c->used) <= SIZE);
        assert_int_equal(c->avail_wrap | c->used_wrap, 0);
}

static void check_packed_cursor(const struct vql_cursor *c)
{
        int ahead = c->avail - c->used + (c->avail_wrap != c->used_wrap ? SIZE : 0);

        assert_true(c->avail < SIZE && c->used < SIZE);
        assert_true(c->avail_wrap <= 1 && c->used_wrap <= 1);
        assert_in_range(ahead, 0, SIZE);
}

static void test_random_images(void **state)
{
        int fine = 0;

        (void)state;
        srand(SEED);
        for (int packed = 0; packed < 2; packed++) {
                struct region r;

                region_open(&r, packed);
                for (int i = 0; i < 20000; i++) {
                        struct vql_cursor c;
                        int ret;

                        scribble(&r);
                        ret = read_back(&r, &c);
                        assert_true(ret == 0 || ret == -ENODATA || ret == -EBADMSG);
                        if (ret < 0)
                                continue;
                        fine++;
                        (packed ? check_packed_cursor : check_split_cursor)(&c);
                }
                region_close(&r);
        }
        assert_true(fine > 100);
}

/* What may be read after a cut, in this order: the old position, none, the new position. */
enum phase { OLD, NONE, NEW, IMPOSSIBLE };

static enum phase phase_of(const struct region *r)
{
        struct vql_cursor c;
        int ret = read_back(r, &c);

        if (ret == -ENODATA)
                return NONE;
        if (ret == 0 && c.used == 3 && c.avail == 5 && c.used_wrap == r->packed &&
            c.avail_wrap == r->packed)
                return OLD;
        if (ret == 0 && c.used == 6 && c.avail == 6 && !c.used_wrap && !c.avail_wrap)
                return NEW;
        return IMPOSSIBLE;
}

/* Our mappings stay out of children: the child has one of its own. */
static void settle_traced(const struct region *r)
{
        struct vql_inflight *f;

        if (map_region(r, &f, NULL) < 0)
                _exit(3);
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
                _exit(MAY_NOT_TRACE);
        raise(SIGSTOP);
        vql_inflight_settle(f, QUEUE, &(struct vql_cursor){ 6, 6, 0, 0 });
        _exit(0);
}

/* Let a child settle, an instruction at a time, and look after each what a cut would leave. */
static void cut_everywhere(const struct region *r)
{
        unsigned int seen[IMPOSSIBLE + 1] = { 0 };
        enum phase last = OLD;
        pid_t pid = fork();
        int status;

        if (pid == 0)
                settle_traced(r);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (WIFEXITED(status) && WEXITSTATUS(status) == MAY_NOT_TRACE) {
                print_message("skipped: this process may not trace its child\n");
                skip();
        }
        while (WIFSTOPPED(status)) {
                enum phase now = phase_of(r);

                assert_true(WSTOPSIG(status) == SIGSTOP || WSTOPSIG(status) == SIGTRAP);
                seen[now]++;
                assert_true(now >= last);
                last = now;
                assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
                assert_int_equal(waitpid(pid, &status, 0), pid);
        }
        assert_int_equal(status, 0);
        assert_int_equal(seen[IMPOSSIBLE], 0);
        assert_true(seen[OLD] && seen[NONE] && seen[NEW]);
}

static void test_settle_recovers_from_any_cut(void **state)
{
        struct region r;

        (void)state;
        region_open(&r, false);
        vql_inflight_settle(r.f, QUEUE, &(struct vql_cursor){ 3, 3, 0, 0 });
        split_in_flight(&r, 2);
        split_in_flight(&r, 6);
        cut_everywhere(&r);
        region_close(&r);

        region_open(&r, true);
        vql_inflight_settle(r.f, QUEUE, &(struct vql_cursor){ 3, 3, 1, 1 });
        packed_in_flight(&r, 4, 2);
        cut_everywhere(&r);
        region_close(&r);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_never_used),
                cmocka_unit_test(test_settled_positions_come_back),
                cmocka_unit_test(test_settled_image),
                cmocka_unit_test(test_settle_stays_in_its_queue),
                cmocka_unit_test(test_buffers_in_flight),
                cmocka_unit_test(test_ring_smaller_than_the_region),
                cmocka_unit_test(test_hostile_images),
                cmocka_unit_test(test_random_images),
                cmocka_unit_test(test_settle_recovers_from_any_cut),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
