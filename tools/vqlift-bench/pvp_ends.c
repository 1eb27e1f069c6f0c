/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/pvp_ends.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <jansson.h>

#define PROMPT "testpmd> "

enum { WORD = 256, ANSWER_BYTES = 1 << 16 };

/* ---- testpmd ---- */

/* Two lcores on one CPU: the one that reads commands is idle while the other one forwards. */
static int start_testpmd(const struct pvp_place *place, const char *program, const char *name,
                         int cpu, const char *device, struct pvp_child **ret_child)
{
        char lcores[WORD], prefix[WORD];
        const char *argv[PVP_ARGS] = {
                program,
                lcores,
                "--no-huge",
                "--no-shconf",
                "-m",
                "512",
                "--no-pci",
                prefix,
                "--vdev",
                device,
                "--",
                "--interactive",
                "--port-topology=loop",
                "--forward-mode=io",
                "--rxd=1024",
                "--txd=1024",
                "--total-num-mbufs=16384",
                "--disable-link-check",
                NULL,
        };
        int rc;

        snprintf(lcores, sizeof(lcores), "--lcores=0@%d,1@%d", cpu, cpu);
        snprintf(prefix, sizeof(prefix), "--file-prefix=%s", name);
        rc = pvp_child_start(place, name, argv, ret_child);
        return rc < 0 ? rc : pvp_child_wait(*ret_child, PROMPT);
}

int pvp_guest_start(const struct pvp_place *place, const struct pvp_options *o,
                    const struct pvp_ring *ring, bool mergeable, const char *backend,
                    struct pvp_child **ret_guest)
{
        char device[WORD];

        snprintf(
                device, sizeof(device),
                "net_virtio_user0,path=%s/%s.sock,queues=1,queue_size=%d,mrg_rxbuf=%d,packed_vq=%d,"
                "in_order=%d",
                place->dir, backend, PVP_RING_SIZE, mergeable, ring->packed, ring->in_order);
        return start_testpmd(place, o->testpmd,
                             strcmp(backend, "vqlift") == 0 ? "guest-of-vqlift" : "guest-of-vhost",
                             o->guest_cpu, device, ret_guest);
}

int pvp_vhost_start(const struct pvp_place *place, const struct pvp_options *o,
                    struct pvp_child **ret_vhost)
{
        char device[WORD];

        snprintf(device, sizeof(device), "net_vhost0,iface=%s/vhost.sock,queues=1", place->dir);
        return start_testpmd(place, o->testpmd, "vhost", o->backend_cpu, device, ret_vhost);
}

static bool read_number(const char *text, const char *key, uint64_t *ret_number)
{
        const char *at = strstr(text, key);
        char *end;

        if (!at)
                return false;
        at += strlen(key);
        *ret_number = strtoull(at, &end, 10);
        return end != at;
}

int pvp_testpmd_counters(struct pvp_child *c, struct pvp_counters *ret_counters)
{
        struct pvp_counters n;
        int rc = pvp_child_ask(c, "show port stats 0", PROMPT);

        if (rc < 0)
                return rc;
        if (!read_number(c->text, "RX-packets: ", &n.rx) ||
            !read_number(c->text, "RX-bytes: ", &n.rx_bytes) ||
            !read_number(c->text, "TX-packets: ", &n.tx) ||
            !read_number(c->text, "TX-bytes: ", &n.tx_bytes)) {
                fprintf(stderr, "vqlift-bench pvp: %s: no counters in its answer\n", c->name);
                return -EIO;
        }
        *ret_counters = n;
        return 0;
}

/* ---- vqliftd ---- */

static int write_config(const char *path, const struct pvp_place *place, int cpu)
{
        FILE *f = fopen(path, "we");
        int rc = 0;

        if (f) {
                fprintf(f,
                        "daemon:\n  workers: [%d]\n  memory: 128\n  huge: \"no\"\n  state-dir: "
                        "none\n"
                        "  control: %s/control.sock\n"
                        "ports:\n  - name: pvp\n    socket: %s/vqlift.sock\n    uplink: loopback\n",
                        cpu, place->dir, place->dir);
                rc = ferror(f);
        }
        if (f && fclose(f) == 0 && rc == 0)
                return 0;
        fprintf(stderr, "vqlift-bench pvp: %s: %s\n", path, strerror(errno));
        return -EIO;
}

/* In the build folder it is ../vqliftd/vqliftd, seen from our own. */
static const char *find_daemon(const struct pvp_options *o, char *path, size_t n)
{
        static const char beside[] = "/../vqliftd/vqliftd";
        ssize_t len;
        char *slash;

        if (o->vqliftd)
                return o->vqliftd;
        len = readlink("/proc/self/exe", path, n - sizeof(beside));
        if (len <= 0)
                return "vqliftd";
        path[len] = '\0';
        slash = strrchr(path, '/');
        memcpy(slash, beside, sizeof(beside));
        return access(path, X_OK) == 0 ? path : "vqliftd";
}

int pvp_daemon_start(const struct pvp_place *place, const struct pvp_options *o,
                     struct pvp_child **ret_daemon)
{
        char config[WORD], path[4096];
        const char *argv[PVP_ARGS] = { find_daemon(o, path, sizeof(path)), "-c", config, NULL };
        int rc;

        snprintf(config, sizeof(config), "%s/vqlift.yaml", place->dir);
        rc = write_config(config, place, o->backend_cpu);
        if (rc == 0)
                rc = pvp_child_start(place, "vqliftd", argv, ret_daemon);
        return rc < 0 ? rc : pvp_child_wait(*ret_daemon, " serves, ");
}

static int connect_control(const struct pvp_place *place)
{
        struct sockaddr_un at = { .sun_family = AF_UNIX };
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        snprintf(at.sun_path, sizeof(at.sun_path), "%s/control.sock", place->dir);
        if (fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0)
                return fd;
        if (fd >= 0)
                close(fd);
        return -EIO;
}

/* One request and all of its answer, which ends where we say that we have no more to ask. */
static json_t *ask_daemon(const struct pvp_place *place)
{
        static const char request[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"stats.get\"}\n";
        static char answer[ANSWER_BYTES];
        const int fd = connect_control(place);
        size_t n = 0;
        ssize_t got = 0;

        if (fd < 0)
                return NULL;
        if (write(fd, request, sizeof(request) - 1) > 0 && shutdown(fd, SHUT_WR) == 0)
                while ((got = read(fd, answer + n, sizeof(answer) - n)) > 0)
                        n += (size_t)got;
        close(fd);
        return got < 0 ? NULL : json_loadb(answer, n, 0, NULL);
}

int pvp_daemon_counters(const struct pvp_place *place, struct pvp_counters *ret_counters)
{
        json_t *answer = ask_daemon(place);
        json_int_t to_guest, from_guest;
        /* Ring 0 bears what the daemon sends, ring 1 what it receives. */
        int rc = answer ? json_unpack(answer, "{s:[{s:[{s:{s:I}},{s:{s:I}}]}]}", "result", "rings",
                                      "counters", "packets", &to_guest, "counters", "packets",
                                      &from_guest)
                        : -1;

        json_decref(answer);
        if (rc < 0) {
                fprintf(stderr, "vqlift-bench pvp: vqliftd: no counters in its answer\n");
                return -EIO;
        }
        *ret_counters =
                (struct pvp_counters){ .rx = (uint64_t)from_guest, .tx = (uint64_t)to_guest };
        return 0;
}
