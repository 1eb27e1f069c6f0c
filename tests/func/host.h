/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FUNC_HOST_H
#define FUNC_HOST_H

/*
 * The product in this process, through its public interface alone: a context, a directory for its
 * sockets, ports whose uplink sends everything back.  Failures end the test that called.
 */

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include <vqlift/vqlift.h>

#include "frontend/frontend.h"
#include "frontend/net.h"

enum { HOST_WAIT_MS = 20000 };

struct host {
        struct vql *vql;
        char dir[32];
        struct sigaction on_sigbus; /* the library's: cmocka puts its own in place at each test */
};

/* cmocka group fixtures: *state is the struct host. */
int host_setup(void **state);
int host_teardown(void **state);
/* A test, after which no port is left even if it failed. */
int host_tidy(void **state);
#define host_test(fn) cmocka_unit_test_teardown(fn, host_tidy)

void host_add(struct host *h, const char *name, unsigned int queue_pairs);
void host_del(struct host *h, const char *name);
/* The path of a port's socket; valid until the next call in the same thread. */
const char *host_path(const struct host *h, const char *name);
struct vql_port_info host_info(struct host *h, const char *name);
/* Wait until the port is in that state ("waiting", "connected", "running", "broken"). */
void host_wait_state(struct host *h, const char *name, const char *state);
/* A counter of one ring by its name. */
uint64_t host_stat(struct host *h, const char *name, unsigned int ring, const char *stat);
/* Has the library logged a line that contains `text` since the last host_log_clear()? */
bool host_logged(const char *text);
void host_log_clear(void);

/* What a process can leak. */
struct host_counts {
        unsigned int fds, maps, shared_maps;
};
struct host_counts host_count(void);

/* A front-end that is connected and no more; and one that is set up with buffers posted. */
struct fe_frontend *host_connect(struct host *h, const char *name);

struct guest {
        struct fe_memory *mem;
        struct fe_frontend *fe;
        struct fe_net *net;
        struct fe_flow flow;
};
void guest_start(struct guest *g, struct host *h, const char *name, const struct fe_setup *setup);
/* The same over a socket that is connected already. */
void guest_adopt(struct guest *g, int fd, const struct fe_setup *setup);
/* Only the packets' side anew: after the front-end was changed by hand. */
void guest_net(struct guest *g, const struct fe_net_params *params);
void guest_end(struct guest *g);
/* Wait until n further packets of a flow in a thread have come back; false: they do not. */
bool flow_moves(const struct fe_flow *f, uint64_t n);
/* n packets out and back, each once, in order, every byte right. */
void guest_traffic(struct guest *g, uint64_t n);

/* `call` returned `want`, or the test fails with the front-end's sentence. */
void expect_result(const struct fe_frontend *fe, const char *call, int got, int want);
#define expect_fe(fe, call, want) expect_result(fe, #call, call, want)

#endif
