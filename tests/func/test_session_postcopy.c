/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A guest that runs here while its memory is still on its way: our front-end plays the one that
 * has the missing pages.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "host.h"
#include "memory/userfault.h"

enum { WAIT_MS = 20000, REGIONS = 8 };

/* The front-end's thread that answers for missing pages. */
struct source {
        pthread_t thread;
        int uffd, stop_fd;
        const struct fe_memory *mem;
        uint64_t base[REGIONS]; /* where the back-end mapped them */
        unsigned int n;
        _Atomic unsigned int placed; /* pages */
        _Atomic bool holds_back;     /* takes note of what is missing, but sends nothing */
        _Atomic unsigned int held;
};

/* The place of a missing page in our memory, or -1. */
static int find_page(const struct source *s, uint64_t at, uint64_t *ret_offset)
{
        for (unsigned int i = 0; i < s->n; i++) {
                *ret_offset = at - s->base[i];
                if (at >= s->base[i] && *ret_offset < s->mem->region[i].spec.size)
                        return (int)i;
        }
        return -1;
}

static void place_page(struct source *s, uint64_t at)
{
        struct uffdio_range page = { .start = at & ~(uint64_t)(FE_PAGE - 1), .len = FE_PAGE };
        static const uint8_t zeroes[FE_PAGE];
        uint64_t offset;
        int region = find_page(s, page.start, &offset);
        const struct fe_region *r;

        if (region < 0)
                return; /* nobody wakes who waits: the test fails by its time-out */
        r = &s->mem->region[region];
        if (pwrite(r->fd, zeroes, sizeof(zeroes), (off_t)(r->spec.offset + offset)) !=
            sizeof(zeroes))
                return;
        s->placed++;
        ioctl(s->uffd, UFFDIO_WAKE, &page);
}

static void *serve_pages(void *arg)
{
        struct source *s = arg;
        struct pollfd f[] = { { .fd = s->uffd, .events = POLLIN },
                              { .fd = s->stop_fd, .events = POLLIN } };
        struct uffd_msg m;

        while (poll(f, 2, -1) > 0 && !f[1].revents) {
                if (read(s->uffd, &m, sizeof(m)) != sizeof(m) || m.event != UFFD_EVENT_PAGEFAULT)
                        continue;
                if (s->holds_back)
                        s->held++;
                else
                        place_page(s, m.arg.pagefault.address);
        }
        return NULL;
}

static void source_stop(struct source *s)
{
        const uint64_t one = 1;

        assert_int_equal(write(s->stop_fd, &one, sizeof(one)), sizeof(one));
        pthread_join(s->thread, NULL);
        close(s->stop_fd);
        close(s->uffd);
}

static void add_port(struct host *h)
{
        const struct vql_port_params p = {
                .size = sizeof(p),
                .name = "p",
                .socket = host_path(h, "p"),
                .uplink = "loopback",
                .worker = -1,
                .postcopy = true,
        };

        if (!vql_userfault_works()) {
                print_message("this host has no userfaultfd for us\n");
                skip();
        }
        if (vql_port_add(h->vql, &p) < 0)
                fail_msg("port p: %s", vql_last_error(h->vql));
}

/* SET_MEM_TABLE or ADD_MEM_REG as they are in postcopy, with the back-end's addresses back. */
static void send_table(struct fe_frontend *fe, struct source *s)
{
        struct fe_mem_table t = { .n = s->n }, reply;
        const size_t bytes = 8 + s->n * sizeof(t.region[0]);
        struct fe_message m;

        for (unsigned int i = 0; i < s->n; i++)
                t.region[i] = fe_frontend_region(fe, i);
        fe_message_init(&m, FE_SET_MEM_TABLE, &t, bytes);
        for (unsigned int i = 0; i < s->n; i++)
                m.fds[m.nfds++] = s->mem->region[i].fd;
        expect_fe(fe, fe_request_reply(&fe->link, &m, &reply, bytes, NULL), 0);
        for (unsigned int i = 0; i < s->n; i++)
                s->base[i] = reply.region[i].uva;
}

static void send_slots(struct fe_frontend *fe, struct source *s)
{
        for (unsigned int i = 0; i < s->n; i++) {
                struct fe_mem_slot slot = { .region = fe_frontend_region(fe, i) }, reply;
                struct fe_message m;

                fe_message_init(&m, FE_ADD_MEM_REG, &slot, sizeof(slot));
                m.fds[m.nfds++] = s->mem->region[i].fd;
                expect_fe(fe, fe_request_reply(&fe->link, &m, &reply, sizeof(reply), NULL), 0);
                s->base[i] = reply.region.uva;
        }
}

static void send_memory(struct fe_frontend *fe, struct source *s)
{
        const bool slots = fe_has(fe->link.protocol_features, FE_P_CONFIGURE_MEM_SLOTS);
        const uint64_t good = 0;
        struct fe_message m;

        s->mem = fe->setup.mem;
        s->n = s->mem->n;
        (slots ? send_slots : send_table)(fe, s);
        assert_int_equal(pthread_create(&s->thread, NULL, serve_pages, s), 0);
        fe_message_init(&m, slots ? FE_ADD_MEM_REG : FE_SET_MEM_TABLE, &good, sizeof(good));
        assert_int_equal(fe_channel_send(&fe->link.ch, &m), 0);
}

/* A guest whose memory is empty here, so that every page that only the back-end writes is missing.
 */
static void guest_arrive(struct guest *g, struct host *h, struct source *s, uint64_t features,
                         uint64_t protocol_features)
{
        struct fe_setup setup = { .features = features,
                                  .protocol_features = protocol_features | FE_BIT(FE_P_PAGEFAULT) };
        const struct fe_net_params net = { .region = FE_ANY_REGION, .buffers = 128 };
        struct fe_message m;

        *g = (struct guest){ .fe = host_connect(h, "p") };
        *s = (struct source){ .stop_fd = eventfd(0, EFD_CLOEXEC) };
        assert_int_equal(fe_memory_new_layout(FE_MOSAIC, &g->mem), 0);
        setup.mem = g->mem;
        expect_fe(g->fe, fe_frontend_negotiate(g->fe, &setup), 0);
        fe_message_init(&m, FE_POSTCOPY_ADVISE, NULL, 0);
        expect_fe(g->fe, fe_request_reply(&g->fe->link, &m, NULL, 0, &s->uffd), 0);
        assert_true(s->uffd >= 0);
        fe_message_init(&m, FE_POSTCOPY_LISTEN, NULL, 0);
        expect_fe(g->fe, fe_request_force_ack(&g->fe->link, &m), 0);
        expect_fe(g->fe, fe_frontend_send_features(g->fe), 0);
        send_memory(g->fe, s);
        for (unsigned int i = 0; i < 2; i++)
                expect_fe(g->fe, fe_frontend_start_ring(g->fe, i), 0);
        for (unsigned int i = 0; i < 2; i++)
                expect_fe(g->fe, fe_frontend_enable_ring(g->fe, i, true), 0);
        guest_net(g, &net);
}

static void check_arrival(struct host *h, uint64_t features, uint64_t protocol_features)
{
        struct source s;
        struct guest g;
        struct fe_message m;
        unsigned int placed;

        add_port(h);
        guest_arrive(&g, h, &s, features, protocol_features);
        guest_traffic(&g, 2000);
        placed = s.placed;
        assert_true(placed >= 32); /* of the 64 pages that the buffers for receiving fill */
        fe_message_init(&m, FE_POSTCOPY_END, NULL, 0);
        expect_fe(g.fe, fe_request_force_ack(&g.fe->link, &m), 0);
        source_stop(&s);
        guest_traffic(&g, 500);
        expect_fe(g.fe, fe_frontend_stop(g.fe), 0);
        guest_end(&g);
        host_del(h, "p");
}

static void test_split(void **state)
{
        check_arrival(*state, FE_FEATURES_MODERN, FE_PROTOCOL_QEMU);
}

static void test_packed(void **state)
{
        check_arrival(*state, FE_FEATURES_PACKED, FE_PROTOCOL_QEMU);
}

static void test_table(void **state)
{
        check_arrival(*state, FE_FEATURES_MODERN,
                      FE_PROTOCOL_QEMU & ~FE_BIT(FE_P_CONFIGURE_MEM_SLOTS));
}

/* The worker waits for a page when the front-end goes away: it must serve another guest again, and
 * the port a new front-end. */
static void test_gone_in_the_middle(void **state)
{
        static const uint8_t packet[64];
        struct host *h = *state;
        struct guest g, other;
        struct source s;

        add_port(h);
        guest_arrive(&g, h, &s, FE_FEATURES_MODERN, FE_PROTOCOL_QEMU);
        s.holds_back = true;
        assert_true(fe_net_refill(g.net) > 0);
        assert_int_equal(fe_net_send(g.net, NULL, packet, sizeof(packet)), 0);
        for (int ms = 0; ms < WAIT_MS && s.held == 0; ms++)
                poll(NULL, 0, 1);
        assert_true(s.held > 0);
        guest_end(&g);
        host_wait_state(h, "p", "waiting");
        guest_start(&other, h, "p", &(struct fe_setup){ .features = FE_FEATURES_MODERN });
        guest_traffic(&other, 500);
        guest_end(&other);
        source_stop(&s);
        host_del(h, "p");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                host_test(test_split),
                host_test(test_packed),
                host_test(test_table),
                host_test(test_gone_in_the_middle),
        };

        return cmocka_run_group_tests(tests, host_setup, host_teardown);
}
