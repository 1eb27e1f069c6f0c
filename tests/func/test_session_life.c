/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Connections that come and go, ports that come and go under them, and nothing that stays behind.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host.h"

enum { CONNECTS = 2000, RECONNECTS = 200, ADD_DEL = 300, FILE_BYTES = 1 << 20 };

/* ---- 2,000 connects with random misbehaviour ---- */

struct chaos {
        struct host *h;
        struct fe_memory *mem; /* one for all, so that a connect is quick */
        int fd;                /* of FILE_BYTES */
        uint32_t random;
};

static uint32_t rnd(struct chaos *c, uint32_t below)
{
        c->random ^= c->random << 13;
        c->random ^= c->random >> 17;
        c->random ^= c->random << 5;
        return c->random % below;
}

static void random_bytes(struct chaos *c, void *to, size_t n)
{
        for (size_t i = 0; i < n; i++)
                ((uint8_t *)to)[i] = (uint8_t)rnd(c, 256);
}

/* A message of any request with any body and any descriptors; small numbers are likely. */
static void random_message(struct chaos *c, struct fe_message *m)
{
        static const uint64_t likely[] = { 0, 1, 2, 3, 255, 256, 4096, FILE_BYTES, UINT64_MAX };
        uint64_t body[16];

        for (unsigned int i = 0; i < 16; i++) {
                if (rnd(c, 4) == 0)
                        random_bytes(c, &body[i], sizeof(body[i]));
                else
                        body[i] = likely[rnd(c, sizeof(likely) / sizeof(likely[0]))];
        }
        fe_message_init(m, rnd(c, FE_REQUEST_END + 4), body, 0);
        m->size = rnd(c, 3) ? 8 * rnd(c, 6) : rnd(c, 128);
        m->body_len = m->size;
        memcpy(m->body, body, m->body_len);
        if (rnd(c, 2))
                m->flags |= FE_NEED_REPLY;
        m->nfds = rnd(c, 3) ? rnd(c, 3) : rnd(c, 12);
        for (unsigned int i = 0; i < m->nfds; i++)
                m->fds[i] = rnd(c, 2) ? c->fd : STDERR_FILENO;
}

static void do_nothing(struct chaos *c, struct fe_frontend *fe)
{
        (void)c;
        (void)fe;
}

static void send_garbage(struct chaos *c, struct fe_frontend *fe)
{
        uint8_t bytes[64];
        int fds[2] = { c->fd, c->fd };

        random_bytes(c, bytes, sizeof(bytes));
        (void)fe_channel_send_bytes(&fe->link.ch, bytes, 1 + rnd(c, sizeof(bytes)), fds, rnd(c, 3));
}

static void send_part(struct chaos *c, struct fe_frontend *fe)
{
        struct fe_message m;

        random_message(c, &m);
        (void)fe_channel_send_slowly(&fe->link.ch, &m, 7, 0, rnd(c, FE_HEADER + 40));
}

static void negotiate_and_leave(struct chaos *c, struct fe_frontend *fe)
{
        const struct fe_setup s = {
                .mem = c->mem,
                .features = rnd(c, 2) ? FE_FEATURES_MODERN : FE_FEATURES_PACKED,
                .inflight = rnd(c, 2),
        };

        expect_fe(fe, fe_frontend_negotiate(fe, &s), 0);
        if (rnd(c, 2))
                expect_fe(fe, fe_frontend_send_features(fe), 0);
        if (rnd(c, 2))
                expect_fe(fe, fe_frontend_send_memory(fe), 0);
}

static void send_random_messages(struct chaos *c, struct fe_frontend *fe)
{
        struct fe_message m;

        for (uint32_t n = rnd(c, 20); n > 0; n--) {
                random_message(c, &m);
                if (fe_channel_send(&fe->link.ch, &m) < 0)
                        return;
        }
}

static void negotiate_then_random_messages(struct chaos *c, struct fe_frontend *fe)
{
        negotiate_and_leave(c, fe);
        send_random_messages(c, fe);
}

static void set_up(struct chaos *c, struct fe_frontend *fe)
{
        const struct fe_setup s = {
                .mem = c->mem,
                .features = rnd(c, 2) ? FE_FEATURES_MODERN : FE_FEATURES_PACKED,
                .inflight = rnd(c, 2),
                .no_kick_fd = rnd(c, 4) == 0,
        };

        fe_memory_free_all(c->mem);
        expect_fe(fe, fe_frontend_setup(fe, &s), 0);
}

/* Packets under way, and then the line is cut. */
static void traffic_and_leave(struct chaos *c, struct fe_frontend *fe)
{
        const struct fe_net_params p = { .fe = fe, .buffers = 32 };
        struct fe_net *net;
        uint8_t packet[200] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5 };

        set_up(c, fe);
        assert_int_equal(fe_net_new(&p, &net), 0);
        assert_int_equal(fe_net_refill(net), 32);
        for (uint32_t n = rnd(c, 32); n > 0; n--)
                assert_int_equal(fe_net_send(net, NULL, packet, sizeof(packet)), 0);
        fe_net_free(net);
}

static void set_up_then_random_messages(struct chaos *c, struct fe_frontend *fe)
{
        set_up(c, fe);
        send_random_messages(c, fe);
}

static void (*const misdeeds[])(struct chaos *c, struct fe_frontend *fe) = {
        do_nothing,
        send_garbage,
        send_part,
        negotiate_and_leave,
        send_random_messages,
        negotiate_then_random_messages,
        traffic_and_leave,
        set_up_then_random_messages,
};

static void one_connect(struct chaos *c)
{
        struct fe_frontend *fe;
        int fd, err;

        err = fe_socket_connect(host_path(c->h, "p"), HOST_WAIT_MS, &fd);
        assert_int_equal(err, 0);
        assert_int_equal(fe_frontend_new(fd, &fe), 0);
        misdeeds[rnd(c, sizeof(misdeeds) / sizeof(misdeeds[0]))](c, fe);
        fe_frontend_free(fe);
        host_wait_state(c->h, "p", "waiting");
}

static void test_connects(void **state)
{
        struct chaos c = { .h = *state, .random = 2654435769u };
        const struct fe_region_spec spec = { .gpa = 0, .size = 4 << 20 };
        struct host_counts before, after;

        c.fd = memfd_create("chaos", MFD_CLOEXEC);
        assert_int_equal(ftruncate(c.fd, FILE_BYTES), 0);
        assert_int_equal(fe_memory_new(&spec, 1, &c.mem), 0);
        host_add(c.h, "p", 2);
        for (unsigned int i = 0; i < 100; i++)
                one_connect(&c);
        before = host_count();
        for (unsigned int i = 0; i < CONNECTS; i++)
                one_connect(&c);
        after = host_count();
        assert_int_equal(after.fds, before.fds);
        assert_int_equal(after.shared_maps, before.shared_maps);
        /* The allocator may take some more address space; a leak would take it a thousand times. */
        assert_in_range(after.maps, 0, before.maps + 50);
        assert_true(host_info(c.h, "p").connections >= CONNECTS);
        host_del(c.h, "p");
        fe_memory_free(c.mem);
        close(c.fd);
}

/* ---- the same guest again and again ---- */

static void reconnect_many(struct host *h, const struct fe_setup *setup)
{
        struct guest g;
        int fd;

        host_add(h, "p", 1);
        guest_start(&g, h, "p", setup);
        g.flow.may_lose = true;
        g.flow.stall_ms = 500;
        for (unsigned int i = 0; i < RECONNECTS; i++) {
                uint64_t received = g.flow.received;

                guest_traffic(&g, 40);
                assert_true(g.flow.received > received);
                /* Leave with some packets under way: their buffers must come back all the same. */
                for (unsigned int k = 0; k < 4; k++)
                        (void)fe_net_send(g.net, NULL, "\2\0\0\0\0\1\2\0\0\0\0\2\x88\xb6", 14);
                fe_channel_close(&g.fe->link.ch);
                assert_int_equal(fe_socket_connect(host_path(h, "p"), HOST_WAIT_MS, &fd), 0);
                expect_fe(g.fe, fe_frontend_reconnect(g.fe, fd), 0);
        }
        guest_end(&g);
        host_del(h, "p");
}

static void test_reconnects(void **state)
{
        static const uint64_t formats[] = { FE_FEATURES_MODERN, FE_FEATURES_PACKED };

        for (unsigned int i = 0; i < 2; i++) {
                struct fe_setup s = { .features = formats[i], .guard = true };

                reconnect_many(*state, &s);
                s.forgets_packed = true;
                reconnect_many(*state, &s);
                s.inflight = true;
                reconnect_many(*state, &s);
        }
}

/* ---- the back-end as client ---- */

/* Our socket appears, and the back-end is there; it goes with us in it, and comes back. */
static void test_client_role(void **state)
{
        const struct fe_setup s = { .features = FE_FEATURES_PACKED };
        struct host *h = *state;
        struct vql_port_params p = {
                .size = sizeof(p),
                .name = "c",
                .socket = host_path(h, "c"),
                .role = VQL_SOCKET_CLIENT,
                .uplink = "loopback",
                .worker = -1,
        };
        struct guest g = { 0 };

        assert_int_equal(vql_port_add(h->vql, &p), 0);
        for (unsigned int i = 0; i < 30; i++) {
                int listener, fd;

                assert_int_equal(fe_socket_listen(host_path(h, "c"), &listener), 0);
                assert_int_equal(fe_socket_accept(listener, HOST_WAIT_MS, &fd), 0);
                if (i == 0)
                        guest_adopt(&g, fd, &s);
                else
                        expect_fe(g.fe, fe_frontend_reconnect(g.fe, fd), 0);
                guest_traffic(&g, 50);
                fe_channel_close(&g.fe->link.ch);
                close(listener);
                unlink(host_path(h, "c"));
                host_wait_state(h, "c", "waiting");
        }
        guest_end(&g);
        host_del(h, "c");
}

/* ---- ports that go while peers come ---- */

struct visitor {
        const char *path;
        atomic_bool stop;
        uint64_t visits, welcomes;
        uint32_t random;
};

static void *visit(void *arg)
{
        struct visitor *v = arg;

        while (!v->stop) {
                struct fe_frontend *fe;
                uint64_t features;
                int fd;

                v->visits++;
                if (fe_socket_connect(v->path, 1, &fd) < 0)
                        continue;
                if (fe_frontend_new(fd, &fe) < 0)
                        break;
                /* The back-end may vanish at any point; what it must not do is hang. */
                if (fe_get_u64(&fe->link, FE_GET_FEATURES, &features) == 0) {
                        v->welcomes++;
                        (void)fe_set_owner(&fe->link);
                        (void)fe_set_u64(&fe->link, FE_SET_FEATURES, features & FE_FEATURES_MODERN);
                }
                if (v->visits % 3 == 0)
                        (void)fe_channel_wait_closed(&fe->link.ch, 2);
                fe_frontend_free(fe);
        }
        return NULL;
}

static void test_add_del_under_visitors(void **state)
{
        enum { VISITORS = 3 };
        struct host *h = *state;
        struct visitor v[VISITORS];
        pthread_t thread[VISITORS];
        struct host_counts before;
        uint64_t welcomes = 0;
        char path[VQL_PATH_BYTES];

        snprintf(path, sizeof(path), "%s", host_path(h, "q"));
        for (unsigned int i = 0; i < 3; i++) {
                host_add(h, "q", 1);
                host_del(h, "q");
        }
        before = host_count();
        for (unsigned int i = 0; i < VISITORS; i++) {
                v[i] = (struct visitor){ .path = path };
                assert_int_equal(pthread_create(&thread[i], NULL, visit, &v[i]), 0);
        }
        for (unsigned int i = 0; i < ADD_DEL; i++) {
                host_add(h, "q", 1 + i % 3);
                usleep(1000 * (i % 5));
                host_del(h, "q");
        }
        for (unsigned int i = 0; i < VISITORS; i++) {
                v[i].stop = true;
                pthread_join(thread[i], NULL);
                welcomes += v[i].welcomes;
        }
        assert_true(welcomes > 10);
        assert_int_equal(host_count().fds, before.fds);
        assert_int_equal(host_count().shared_maps, before.shared_maps);
}

/* A port is deleted while packets run through it: the guest is cut off, its memory untouched from
 * then on, and the same name can be given again at once. */
static void test_del_under_traffic(void **state)
{
        const struct fe_setup s = { .features = FE_FEATURES_MODERN };
        struct host *h = *state;

        for (unsigned int i = 0; i < 50; i++) {
                struct fe_flow_thread *thread;
                struct guest g;

                host_add(h, "p", 1);
                guest_start(&g, h, "p", &s);
                assert_int_equal(fe_flow_start(&g.flow, &thread), 0);
                assert_true(flow_moves(&g.flow, 20));
                host_del(h, "p");
                expect_fe(g.fe, fe_channel_wait_closed(&g.fe->link.ch, HOST_WAIT_MS), 0);
                /* The ring stands still now, with buffers in it: the flow would wait for them. */
                assert_int_equal(fe_flow_abandon(thread), 0);
                guest_end(&g);
        }
}

/* ---- what the timeline tells ---- */

enum phase { CONNECT, NEGOTIATE, FIRST_PACKET, LOG, STOP, HAND_OVER };

static struct vql_session_info session(struct host *h, unsigned int i)
{
        struct vql_session_info info;

        assert_int_equal(vql_port_get_session(h->vql, "p", i, &info), 0);
        return info;
}

/* The phase began and, if `done`, came to its end; each phase where the one before it ended. */
static void assert_phase(const struct vql_session_info *s, enum phase phase, bool done)
{
        const struct vql_phase_info *p = &s->phase[phase];

        assert_true(p->count > 0 && p->at_us >= 0);
        assert_true(done == (p->took_us >= 0));
}

static void assert_follows(const struct vql_session_info *s, enum phase phase, enum phase before)
{
        assert_int_equal(s->phase[phase].at_us, s->phase[before].at_us + s->phase[before].took_us);
}

static void start_log(struct fe_frontend *fe)
{
        const int fd = memfd_create("log", MFD_CLOEXEC);

        assert_int_equal(ftruncate(fd, FILE_BYTES), 0);
        expect_fe(fe, fe_set_log_base(&fe->link, FILE_BYTES, 0, fd), 0);
        close(fd);
        expect_fe(fe, fe_set_u64(&fe->link, FE_SET_FEATURES, fe->features | FE_BIT(FE_F_LOG_ALL)),
                  0);
}

static void live_through_phases(struct host *h, bool packed)
{
        const struct fe_setup s = { .features = packed ? FE_FEATURES_PACKED : FE_FEATURES_MODERN };
        struct vql_session_info i;
        struct guest g;

        guest_start(&g, h, "p", &s);
        i = session(h, 0);
        assert_phase(&i, CONNECT, true);
        assert_phase(&i, NEGOTIATE, true);
        assert_follows(&i, NEGOTIATE, CONNECT);
        assert_phase(&i, FIRST_PACKET, false);
        assert_follows(&i, FIRST_PACKET, NEGOTIATE);
        assert_int_equal(i.phase[STOP].count, 0);
        guest_traffic(&g, 10);
        i = session(h, 0);
        assert_phase(&i, FIRST_PACKET, true);
        assert_int_equal(i.phase[LOG].count, 0);
        start_log(g.fe);
        i = session(h, 0);
        assert_phase(&i, LOG, false);
        expect_fe(g.fe, fe_frontend_stop(g.fe), 0);
        i = session(h, 0);
        assert_phase(&i, STOP, true);
        assert_phase(&i, HAND_OVER, false);
        assert_follows(&i, HAND_OVER, STOP);
        assert_int_equal(i.lasted_us, -1);
        guest_end(&g);
        host_wait_state(h, "p", "waiting");
        i = session(h, 0);
        assert_phase(&i, LOG, true);
        assert_phase(&i, HAND_OVER, true);
        assert_int_equal(i.phase[HAND_OVER].at_us + i.phase[HAND_OVER].took_us, i.lasted_us);
        assert_true(i.reason[0] != '\0');
}

/* Its rings stop when it goes. */
static void leave_without_a_word(struct host *h)
{
        const struct fe_setup s = { .features = FE_FEATURES_MODERN };
        struct vql_session_info i;
        struct guest g;

        guest_start(&g, h, "p", &s);
        guest_end(&g);
        host_wait_state(h, "p", "waiting");
        i = session(h, 0);
        assert_phase(&i, STOP, true);
        assert_phase(&i, FIRST_PACKET, false);
}

static void test_timeline(void **state)
{
        struct host *h = *state;
        struct vql_session_info i;

        assert_int_equal(vql_port_get_session(h->vql, "p", 0, &i), -ENOENT);
        host_add(h, "p", 1);
        assert_int_equal(vql_port_get_session(h->vql, "p", 0, &i), -ERANGE);
        live_through_phases(h, false);
        live_through_phases(h, true);
        assert_int_equal(session(h, 0).connection, 2);
        assert_int_equal(session(h, 1).connection, 1);
        assert_int_equal(vql_port_get_session(h->vql, "p", 2, &i), -ERANGE);
        assert_non_null(strstr(vql_last_error(h->vql), "session 2"));
        leave_without_a_word(h);
        host_del(h, "p");
}

/* ---- names and sockets ---- */

static void test_refused_ports(void **state)
{
        struct host *h = *state;
        struct vql_port_params p = {
                .size = sizeof(p),
                .name = "p",
                .socket = host_path(h, "p"),
                .uplink = "loopback",
                .worker = -1,
        };
        char other[VQL_PATH_BYTES], file[VQL_PATH_BYTES];
        int fd;

        host_add(h, "p", 1);
        assert_int_equal(vql_port_add(h->vql, &p), -EEXIST);
        assert_non_null(strstr(vql_last_error(h->vql), "p"));
        p.name = "q";
        assert_int_equal(vql_port_add(h->vql, &p), -EADDRINUSE);
        snprintf(file, sizeof(file), "%s/file", h->dir);
        fd = open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        close(fd);
        p.socket = file;
        assert_true(vql_port_add(h->vql, &p) < 0);
        assert_int_equal(access(file, F_OK), 0); /* whatever it is, it is not ours */
        unlink(file);
        snprintf(other, sizeof(other), "%s/no/such/folder", h->dir);
        p.socket = other;
        assert_true(vql_port_add(h->vql, &p) < 0);
        assert_int_equal(vql_port_del(h->vql, "q"), -ENOENT);
        host_del(h, "p");
        assert_int_equal(vql_port_count(h->vql), 0);
}

/* The whole library goes while packets run through it. */
static int teardown_under_traffic(void **state)
{
        const struct fe_setup s = { .features = FE_FEATURES_MODERN };
        struct fe_flow_thread *thread;
        struct host *h = *state;
        struct guest g;
        int err;

        host_add(h, "last", 1);
        guest_start(&g, h, "last", &s);
        if (fe_flow_start(&g.flow, &thread) < 0)
                return -1;
        err = flow_moves(&g.flow, 100) ? 0 : -1;
        if (host_teardown(state) < 0)
                err = -1;
        if (fe_flow_abandon(thread) < 0)
                err = -1;
        guest_end(&g);
        return err;
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                host_test(test_connects),          host_test(test_reconnects),
                host_test(test_client_role),       host_test(test_add_del_under_visitors),
                host_test(test_del_under_traffic), host_test(test_refused_ports),
                host_test(test_timeline),
        };

        return cmocka_run_group_tests(tests, host_setup, teardown_under_traffic);
}
