/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>

#include "memory/userfault.h"
#include "process.h"
#include "session_peer.h"

/* Postcopy: what the front-end is told, when memory comes into use, and who waits for it. */

enum { PAGE = 4096, WAIT_MS = 10000 };

#define MIB  (UINT64_C(1) << 20)
#define MAPS "vql-unit-session"

/* A session whose front-end has our userfaultfd; -1 and a skipped test where there is none. */
struct arrival {
        struct peer *p;
        int uffd;
};

static struct arrival *arrival_new(void)
{
        struct arrival *a = calloc(1, sizeof(*a));

        if (!vql_userfault_works()) {
                print_message("this host has no userfaultfd for us\n");
                free(a);
                skip();
        }
        a->p = peer_new();
        peer_negotiate(a->p, false);
        a->p->host.applied = 0;
        peer_empty(a->p, VQL_REQ_POSTCOPY_ADVISE);
        assert_reply(a->p, 0);
        a->uffd = a->p->out.fd;
        assert_true(a->uffd >= 0);
        return a;
}

static void arrival_free(struct arrival *a)
{
        peer_free(a->p);
        close(a->uffd);
        free(a);
}

static struct arrival *arrival_new_listening(void)
{
        struct arrival *a = arrival_new();

        peer_empty(a->p, VQL_REQ_POSTCOPY_LISTEN);
        assert_ack(a->p, true);
        return a;
}

static void unknown_without_negotiation(void **state)
{
        struct peer *p = peer_new();

        (void)state;
        peer_empty(p, VQL_REQ_POSTCOPY_ADVISE);
        assert_reply(p, 0);
        assert_int_equal(p->out.fd, -1);
        peer_empty(p, VQL_REQ_POSTCOPY_LISTEN);
        assert_ack(p, false);
        peer_empty(p, VQL_REQ_POSTCOPY_END);
        assert_ack(p, false);
        peer_free(p);
}

static void order_of_messages(void **state)
{
        struct arrival *a = arrival_new_listening();
        size_t fds = process_count_fds();

        (void)state;
        peer_empty(a->p, VQL_REQ_POSTCOPY_ADVISE);
        assert_reply(a->p, 0);
        assert_int_equal(a->p->out.fd, -1);
        peer_empty(a->p, VQL_REQ_POSTCOPY_END);
        assert_ack(a->p, true);
        assert_int_equal(process_count_fds(), fds - 1);
        peer_empty(a->p, VQL_REQ_POSTCOPY_LISTEN);
        assert_ack(a->p, false);
        /* Another migration of the same guest. */
        peer_empty(a->p, VQL_REQ_POSTCOPY_ADVISE);
        assert_reply(a->p, 0);
        close(a->p->out.fd);
        peer_mem_table(a->p, (struct vql_wire_region[]){ peer_region(0, PAGE) }, 1);
        assert_silent(a->p);
        peer_empty(a->p, VQL_REQ_POSTCOPY_LISTEN);
        assert_ack(a->p, false);
        arrival_free(a);
}

/* The addresses in a reply to SET_MEM_TABLE. */
static struct vql_wire_mem_table replied_table(const struct peer *p, uint32_t n)
{
        struct vql_wire_mem_table w;

        assert_reply(p, 8 + n * sizeof(w.region[0]));
        memcpy(&w, p->out.body, p->out.size);
        assert_int_equal(w.n, n);
        return w;
}

static void table_is_used_once_placed(void **state)
{
        struct arrival *a = arrival_new_listening();
        struct vql_wire_region r[] = { peer_region(8 * MIB, 2 * PAGE), peer_region(0, PAGE) };
        struct vql_wire_mem_table w;

        (void)state;
        r[0].mmap_offset = PAGE;
        peer_mem_table(a->p, r, 2);
        w = replied_table(a->p, 2);
        assert_null(a->p->session->mem);
        assert_int_equal(a->p->host.applied, 0);
        peer_u64(a->p, VQL_REQ_SET_MEM_TABLE, 0);
        assert_silent(a->p);
        assert_int_equal(a->p->host.changes, VQL_CHANGE_MEMORY);
        for (unsigned int i = 0; i < 2; i++) {
                struct vql_mem_span span;

                assert_int_equal(vql_mem_find(a->p->session->mem, r[i].gpa, &span), 0);
                assert_int_equal(w.region[i].gpa, r[i].gpa);
                assert_int_equal(w.region[i].uva, (uintptr_t)span.va);
        }
        arrival_free(a);
        assert_int_equal(process_count_maps(MAPS), 0);
}

/* With slots there is one word about the addresses of all of them; one of them comes twice, as
 * QEMU 7.2 announces it for a second pair of queues. */
static void slots_are_used_once_placed(void **state)
{
        struct arrival *a = arrival_new_listening();
        struct vql_wire_mem_slot w[4];
        int fds[] = { peer_memfd(PAGE), peer_memfd(PAGE), peer_memfd(PAGE), -1 };

        (void)state;
        fds[3] = dup(fds[2]);
        for (unsigned int i = 0; i < 4; i++) {
                peer_mem_slot(a->p, VQL_REQ_ADD_MEM_REG, peer_region((i < 3 ? i : 2) * MIB, PAGE),
                              fds[i]);
                assert_reply(a->p, sizeof(w[i]));
                memcpy(&w[i], a->p->out.body, sizeof(w[i]));
        }
        assert_int_equal(w[2].region.uva, w[3].region.uva);
        assert_null(a->p->session->mem);
        peer_u64(a->p, VQL_REQ_ADD_MEM_REG, 0);
        assert_silent(a->p);
        assert_int_equal(vql_mem_table_count(a->p->session->mem), 3);
        /* Nothing new, and a removal, which needs no watch. */
        peer_u64(a->p, VQL_REQ_ADD_MEM_REG, 0);
        assert_silent(a->p);
        peer_mem_slot(a->p, VQL_REQ_REM_MEM_REG, peer_region(0, PAGE), -1);
        assert_silent(a->p);
        assert_int_equal(vql_mem_table_count(a->p->session->mem), 2);
        arrival_free(a);
        assert_int_equal(process_count_maps(MAPS), 0);
}

static void refused_addresses(void **state)
{
        struct arrival *a = arrival_new_listening();
        struct vql_wire_region r = peer_region(0, PAGE);

        (void)state;
        peer_mem_table(a->p, &r, 1);
        replied_table(a->p, 1);
        peer_u64(a->p, VQL_REQ_SET_MEM_TABLE, 1);
        assert_ends(a->p, "did not take");
        assert_null(a->p->session->mem);
        assert_int_equal(process_count_maps(MAPS), 0);
        arrival_free(a);
}

/* ---- pages that are missing ---- */

static void *touch(void *page)
{
        return (void *)(uintptr_t) * (volatile uint8_t *)page;
}

static struct uffd_msg next_fault(int uffd)
{
        struct pollfd f = { .fd = uffd, .events = POLLIN };
        struct uffd_msg m;

        assert_int_equal(poll(&f, 1, WAIT_MS), 1);
        assert_int_equal(read(uffd, &m, sizeof(m)), sizeof(m));
        assert_int_equal(m.event, UFFD_EVENT_PAGEFAULT);
        return m;
}

/* A session with two pages of memory, the second of which is missing and waited for. */
static struct arrival *arrival_with_fault(int file, pthread_t *ret_reader)
{
        struct arrival *a = arrival_new_listening();
        const struct vql_wire_region r = peer_region(0, 2 * PAGE);
        const struct vql_wire_mem_table body = { .n = 1, .region = { r } };
        struct vql_wire_mem_table w;
        uint8_t *at;

        peer_send(a->p, VQL_REQ_SET_MEM_TABLE, &body, 8 + sizeof(r), &file, 1);
        w = replied_table(a->p, 1);
        peer_u64(a->p, VQL_REQ_SET_MEM_TABLE, 0);
        assert_silent(a->p);
        at = (uint8_t *)(uintptr_t)w.region[0].uva;
        assert_int_equal(*at, 'p');
        assert_int_equal(pthread_create(ret_reader, NULL, touch, at + PAGE), 0);
        assert_int_equal(next_fault(a->uffd).arg.pagefault.address, (uintptr_t)at + PAGE);
        return a;
}

static int half_a_file(void)
{
        int file = peer_memfd(2 * PAGE);

        assert_int_equal(pwrite(file, "p", 1, 0), 1);
        return file;
}

static void missing_page_arrives(void **state)
{
        int file = half_a_file(), same = dup(file);
        pthread_t reader;
        struct arrival *a = arrival_with_fault(file, &reader);
        struct vql_mem_span span;
        struct uffdio_range page;
        void *seen;

        (void)state;
        assert_int_equal(pwrite(same, "q", 1, PAGE), 1);
        assert_int_equal(vql_mem_find(a->p->session->mem, PAGE, &span), 0);
        page = (struct uffdio_range){ .start = (uintptr_t)span.va + PAGE, .len = PAGE };
        assert_int_equal(ioctl(a->uffd, UFFDIO_WAKE, &page), 0);
        assert_int_equal(pthread_join(reader, &seen), 0);
        assert_int_equal((uintptr_t)seen, 'q');
        close(same);
        arrival_free(a);
}

/* The front-end is gone, but somebody still has its duplicate: who waits must go on. */
static void end_in_the_middle(void **state)
{
        pthread_t reader;
        struct arrival *a = arrival_with_fault(half_a_file(), &reader);
        void *seen;

        (void)state;
        vql_session_end_postcopy(a->p->session);
        assert_int_equal(pthread_join(reader, &seen), 0);
        assert_int_equal((uintptr_t)seen, 0);
        arrival_free(a);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(unknown_without_negotiation),
                cmocka_unit_test(order_of_messages),
                cmocka_unit_test(table_is_used_once_placed),
                cmocka_unit_test(slots_are_used_once_placed),
                cmocka_unit_test(refused_addresses),
                cmocka_unit_test(missing_page_arrives),
                cmocka_unit_test(end_in_the_middle),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
