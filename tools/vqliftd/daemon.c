/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqliftd/daemon.h"

#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <systemd/sd-daemon.h>
#include <systemd/sd-event.h>

#include "vqliftd/config.h"
#include "vqliftd/control.h"
#include "vqliftd/control_socket.h"
#include "vqliftd/daemon_params.h"
#include "vqliftd/keeper.h"
#include "vqliftd/reload.h"
#include "vqliftd/rpc.h"
#include "vqliftd/turn.h"

enum { ERROR_BYTES = 512, CLIENT_DEADLINE_US = 10 * 1000000 };

struct daemon {
        const struct vql_daemon_options *options;
        struct vql_config config; /* as at start; what a reload brings is in `ports` */
        struct vql_logger log;
        struct vql_control_socket socket;
        struct vql *vql;
        struct vql_portset *ports;
        struct vql_rpc rpc;
        sd_event *loop;
        struct vql_control *control;
        int turn_fd;           /* to our keeper; -1: there is none */
        uint64_t heartbeat_us; /* how often it wants to hear of us; 0: never */
        sd_event_source *heartbeat;
};

typedef int step_fn(struct daemon *d);

static int load_config(struct daemon *d)
{
        const char *level;

        vql_logger_init(&d->log, LOG_INFO);
        if (vql_config_load_logged(d->options->config, &d->log, &d->config) < 0)
                return -EINVAL;
        level = json_string_value(json_object_get(vql_config_daemon(&d->config), "log-level"));
        d->log.level =
                d->options->log_level >= 0 ? d->options->log_level : vql_log_level_from_name(level);
        return 0;
}

/* The signals that the loop takes are blocked before there is any other thread to get them. */
static int prepare_process(struct daemon *d)
{
        struct rlimit files;
        sigset_t set;

        sigemptyset(&set);
        sigaddset(&set, SIGTERM);
        sigaddset(&set, SIGINT);
        sigaddset(&set, SIGHUP);
        sigprocmask(SIG_BLOCK, &set, NULL);
        signal(SIGPIPE, SIG_IGN);
        /* A port takes some ten descriptors, and more with every queue pair. */
        getrlimit(RLIMIT_NOFILE, &files);
        files.rlim_cur = files.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &files) < 0)
                vql_logger_print(&d->log, LOG_WARNING, "limit of open files: %s", strerror(errno));
        return 0;
}

/* Log what is wrong with a value of the file that only this host could tell. */
static int refuse_value(const struct daemon *d, const char *path, int err, const char *why)
{
        struct vql_place place = vql_config_place(&d->config, path);

        vql_logger_print(&d->log, LOG_ERR, "%s:%u: %s: %s", d->options->config, place.line, path,
                         why);
        return err;
}

static int find_group(const struct daemon *d, gid_t *ret_gid)
{
        const json_t *group = json_object_get(vql_config_daemon(&d->config), "control-group");
        const char *name = json_string_value(group);
        char why[ERROR_BYTES];
        struct group *found;

        *ret_gid = (gid_t)-1;
        if (json_is_integer(group))
                *ret_gid = (gid_t)json_integer_value(group);
        if (!name)
                return 0;
        found = getgrnam(name);
        if (!found) {
                snprintf(why, sizeof(why), "\"%s\", expected a group that exists", name);
                return refuse_value(d, "daemon.control-group", -EINVAL, why);
        }
        *ret_gid = found->gr_gid;
        return 0;
}

static int open_control(struct daemon *d)
{
        const json_t *path = json_object_get(vql_config_daemon(&d->config), "control");
        gid_t gid;
        int r;

        r = find_group(d, &gid);
        if (r < 0)
                return r;
        return vql_control_socket_open(json_string_value(path), gid, &d->log, &d->socket);
}

/* The state directory is in there too, by default. */
static int make_folder(struct daemon *d)
{
        const char *path =
                json_string_value(json_object_get(vql_config_daemon(&d->config), "control"));
        int r = vql_control_socket_make_folder(path);

        if (r < 0)
                vql_logger_print(&d->log, LOG_ERR, "folder of %s: %s", path, strerror(-r));
        return r;
}

static int create_library(struct daemon *d)
{
        char why[ERROR_BYTES] = "";
        struct vql_daemon_params p;
        int r;

        r = vql_daemon_params_init(&p, vql_config_daemon(&d->config), why, sizeof(why));
        if (r < 0) {
                vql_daemon_params_fini(&p);
                return refuse_value(d, "daemon.workers", r, why[0] ? why : strerror(-r));
        }
        p.params.log = vql_logger_write;
        p.params.log_arg = &d->log;
        p.params.log_level = d->log.level;
        r = vql_create(&p.params, &d->vql, why, sizeof(why));
        if (r < 0)
                vql_logger_print(&d->log, LOG_ERR, "%s", why);
        vql_daemon_params_fini(&p);
        return r;
}

static int add_ports(struct daemon *d)
{
        char path[VQL_REPORT_PATH];
        json_t *port;
        size_t i;
        int r;

        r = vql_portset_new(d->vql, &d->log, &d->ports);
        if (r < 0)
                return refuse_value(d, "ports", r, strerror(-r));
        json_array_foreach(vql_config_ports(&d->config), i, port)
        {
                r = vql_portset_add(d->ports, port, VQL_ORIGIN_FILE);
                vql_path_index(path, "ports", i);
                if (r < 0)
                        return refuse_value(d, path, r, vql_last_error(d->vql));
        }
        return 0;
}

static int on_stop(sd_event_source *source, const struct signalfd_siginfo *info, void *arg)
{
        const struct daemon *d = arg;

        vql_logger_print(&d->log, LOG_INFO, "ending: %s", strsignal((int)info->ssi_signo));
        return sd_event_exit(sd_event_source_get_event(source), 0);
}

/* The keeper is gone: what it started ends with it. */
static int on_keeper(sd_event_source *source, int fd, uint32_t events, void *arg)
{
        const struct daemon *d = arg;

        (void)fd;
        (void)events;
        vql_logger_print(&d->log, LOG_INFO, "ending: the keeper wants it");
        return sd_event_exit(sd_event_source_get_event(source), 0);
}

static int on_heartbeat(sd_event_source *source, uint64_t now, void *arg)
{
        const struct daemon *d = arg;

        vql_turn_tell(d->turn_fd, VQL_TURN_ALIVE);
        sd_event_source_set_time(source, now + d->heartbeat_us);
        return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static int on_reload(sd_event_source *source, const struct signalfd_siginfo *info, void *arg)
{
        struct daemon *d = arg;

        (void)source;
        (void)info;
        vql_reload(d->options->config, vql_config_daemon(&d->config), d->ports, &d->log);
        return 0;
}

static int watch_keeper(struct daemon *d)
{
        uint64_t watchdog_us = 0;
        int r;

        if (d->turn_fd < 0)
                return 0;
        r = sd_event_add_io(d->loop, NULL, d->turn_fd, EPOLLIN, on_keeper, d);
        if (r < 0 || sd_watchdog_enabled(0, &watchdog_us) <= 0)
                return r;
        d->heartbeat_us = watchdog_us / 4;
        return sd_event_add_time(d->loop, &d->heartbeat, CLOCK_MONOTONIC, 0, 0, on_heartbeat, d);
}

static int make_loop(struct daemon *d)
{
        int r;

        r = sd_event_default(&d->loop);
        if (r >= 0)
                r = sd_event_add_signal(d->loop, NULL, SIGTERM, on_stop, d);
        if (r >= 0)
                r = sd_event_add_signal(d->loop, NULL, SIGINT, on_stop, d);
        if (r >= 0)
                r = sd_event_add_signal(d->loop, NULL, SIGHUP, on_reload, d);
        if (r >= 0)
                r = sd_event_set_watchdog(d->loop, 1);
        if (r >= 0)
                r = watch_keeper(d);
        return r < 0 ? r : 0;
}

static int serve(struct daemon *d)
{
        struct vql_control_params params = {
                .rpc = &d->rpc,
                .fd = d->socket.fd,
                .deadline_us = CLIENT_DEADLINE_US,
        };
        int r;

        d->rpc = (struct vql_rpc){ .vql = d->vql, .ports = d->ports, .log = &d->log };
        r = make_loop(d);
        params.loop = d->loop;
        if (r == 0)
                r = vql_control_new(&params, &d->control);
        if (r == 0) {
                vql_logger_print(&d->log, LOG_INFO,
                                 "vqliftd %s serves, ports: %zu, control socket %s", vql_version(),
                                 vql_port_count(d->vql), d->socket.path);
                sd_notify(0, "READY=1");
                vql_turn_tell(d->turn_fd, VQL_TURN_SERVES);
                r = sd_event_loop(d->loop);
        }
        if (r < 0)
                vql_logger_print(&d->log, LOG_ERR, "event loop: %s", strerror(-r));
        return r;
}

/* In reverse order of the start; takes a half-started daemon. */
static void stop(struct daemon *d)
{
        sd_notify(0, "STOPPING=1");
        vql_control_free(d->control);
        vql_control_socket_close(&d->socket);
        sd_event_source_disable_unref(d->heartbeat);
        sd_event_unref(d->loop);
        vql_portset_free(d->ports);
        /* Another daemon need not wait until packet memory is freed. */
        vql_close_ports(d->vql);
        vql_turn_tell(d->turn_fd, VQL_TURN_ENDED);
        vql_destroy(d->vql);
        vql_config_fini(&d->config);
        if (d->turn_fd >= 0)
                close(d->turn_fd);
}

/* The file may have changed while we waited; its ports are what counts now. */
static int wait_turn(struct daemon *d)
{
        struct vql_config now;
        int r = vql_turn_wait(d->turn_fd);

        if (r < 0)
                return r;
        if (vql_config_load_logged(d->options->config, &d->log, &now) < 0) {
                vql_logger_print(&d->log, LOG_WARNING,
                                 "%s is refused, going on with what it was earlier",
                                 d->options->config);
        } else {
                vql_config_fini(&d->config);
                d->config = now;
        }
        return 0;
}

static step_fn *const steps_alone[] = {
        prepare_process, open_control, create_library, add_ports, serve, NULL,
};

/* What only one daemon can have at a time comes after the wait. */
static step_fn *const steps_in_turn[] = {
        prepare_process, make_folder, create_library, wait_turn,
        open_control,    add_ports,   serve,          NULL,
};

static int take(step_fn *const *steps, struct daemon *d)
{
        int r = 0;

        for (; r == 0 && *steps; steps++)
                r = (*steps)(d);
        return r;
}

static bool wants_standby(const struct daemon *d)
{
        const json_t *standby = json_object_get(vql_config_daemon(&d->config), "standby");

        return strcmp(json_string_value(standby), "yes") == 0;
}

int vql_daemon_run(const struct vql_daemon_options *options)
{
        struct daemon d = {
                .options = options,
                .socket = { .fd = -1, .lock_fd = -1 },
                .turn_fd = options->turn_fd,
        };
        int r = load_config(&d);

        if (r == 0 && d.turn_fd >= 0)
                r = take(steps_in_turn, &d);
        else if (r == 0 && wants_standby(&d))
                r = vql_keeper_run(options, d.log.level);
        else if (r == 0)
                r = take(steps_alone, &d);
        stop(&d);
        return r;
}
