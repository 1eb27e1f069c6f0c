/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqliftd/keeper.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <systemd/sd-daemon.h>
#include <systemd/sd-event.h>

#include "vqliftd/logger.h"
#include "vqliftd/turn.h"

enum {
        MAX_WORDS = 1024,       /* of the command line, and of the environment */
        MAX_FAILURES = 3,       /* in a row, of daemons that ended before they served */
        RETRY_US = 1000 * 1000, /* until a standby that failed is tried again */
};

enum child_state { CHILD_NONE, CHILD_STARTING, CHILD_READY, CHILD_GOING, CHILD_SERVING };

struct keeper;

struct child {
        struct keeper *keeper;
        enum child_state state;
        pid_t pid;
        int fd;
        sd_event_source *words, *end;
        bool replaced; /* its end was wanted */
};

struct keeper {
        const struct vql_daemon_options *options;
        struct vql_logger log;
        char program[PATH_MAX];
        sd_event *loop;
        sd_event_source *silence; /* fires when the serving daemon has not been heard for long */
        sd_event_source *retry;
        uint64_t watchdog_us; /* 0: silence is no fault */
        struct child child[2];
        struct child *active; /* has its turn; NULL: nobody */
        uint64_t vacant_us;   /* since when nobody serves */
        unsigned int failures;
        bool ever_served, ending, handing_over;
        int result;
};

static uint64_t now_us(const struct keeper *k)
{
        uint64_t t = 0;

        sd_event_now(k->loop, CLOCK_MONOTONIC, &t);
        return t;
}

static struct child *standby_of(struct keeper *k)
{
        return k->active == &k->child[0] ? &k->child[1] : &k->child[0];
}

static void forget(struct child *c)
{
        sd_event_source_disable_unref(c->words);
        sd_event_source_disable_unref(c->end);
        if (c->fd >= 0)
                close(c->fd);
        *c = (struct child){ .keeper = c->keeper, .fd = -1 };
}

/* A daemon that does not wait for anything of ours ends when its socket does. */
static void dismiss(struct child *c)
{
        c->replaced = true;
        c->words = sd_event_source_disable_unref(c->words);
        if (c->fd >= 0)
                close(c->fd);
        c->fd = -1;
}

/* The loop ends with the last daemon. */
static int end_if_alone(struct keeper *k)
{
        const bool alone = k->child[0].state == CHILD_NONE && k->child[1].state == CHILD_NONE;

        return alone ? sd_event_exit(k->loop, 0) : 0;
}

static int give_up(struct keeper *k, int err)
{
        k->ending = true;
        k->result = err;
        for (int n = 0; n < 2; n++)
                if (k->child[n].state != CHILD_NONE)
                        dismiss(&k->child[n]);
        return end_if_alone(k);
}

static void hear(struct keeper *k)
{
        if (k->watchdog_us > 0)
                sd_event_source_set_time(k->silence, now_us(k) + k->watchdog_us);
        sd_event_source_set_enabled(k->silence,
                                    k->watchdog_us > 0 ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
}

static void give_turn(struct keeper *k, struct child *c)
{
        k->active = c;
        c->state = CHILD_GOING;
        vql_turn_tell(c->fd, VQL_TURN_GO);
        hear(k);
}

/* ---- starting a daemon ---- */

static int on_words(sd_event_source *src, int fd, uint32_t events, void *arg);
static int on_end(sd_event_source *src, const siginfo_t *info, void *arg);

/* Ours plus one option; what systemd told us is meant for us alone. */
static int make_words(const struct keeper *k, const char *option, char **ret_argv, char **ret_env)
{
        size_t n = 0, m = 0;

        for (; k->options->argv[n]; n++) {
                if (n + 2 > MAX_WORDS)
                        return -E2BIG;
                ret_argv[n] = k->options->argv[n];
        }
        ret_argv[n] = (char *)(uintptr_t)option;
        ret_argv[n + 1] = NULL;
        for (size_t i = 0; environ[i]; i++) {
                if (m + 1 > MAX_WORDS)
                        return -E2BIG;
                if (strncmp(environ[i], "NOTIFY_SOCKET=", 14) != 0 &&
                    strncmp(environ[i], "WATCHDOG_PID=", 13) != 0)
                        ret_env[m++] = environ[i];
        }
        ret_env[m] = NULL;
        return 0;
}

static int launch(struct keeper *k, int fd, pid_t *ret_pid)
{
        char option[32], *argv[MAX_WORDS + 1], *env[MAX_WORDS + 1];
        posix_spawn_file_actions_t files;
        posix_spawnattr_t attributes;
        sigset_t none;
        int r;

        snprintf(option, sizeof(option), "--" VQL_TURN_OPTION "=%d", fd);
        r = make_words(k, option, argv, env);
        if (r < 0)
                return r;
        sigemptyset(&none);
        posix_spawn_file_actions_init(&files);
        posix_spawnattr_init(&attributes);
        posix_spawn_file_actions_adddup2(&files, fd, fd); /* takes close-on-exec away */
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
        posix_spawnattr_setsigmask(&attributes, &none);
        r = posix_spawn(ret_pid, k->program, &files, &attributes, argv, env);
        posix_spawnattr_destroy(&attributes);
        posix_spawn_file_actions_destroy(&files);
        return -r;
}

static int start(struct keeper *k, struct child *c)
{
        int pair[2];
        int r;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        c->fd = pair[0];
        r = launch(k, pair[1], &c->pid);
        close(pair[1]);
        if (r == 0)
                r = sd_event_add_child(k->loop, &c->end, c->pid, WEXITED, on_end, c);
        if (r >= 0)
                r = sd_event_add_io(k->loop, &c->words, c->fd, EPOLLIN, on_words, c);
        if (r < 0) {
                vql_logger_print(&k->log, LOG_ERR, "%s does not start: %s", k->program,
                                 strerror(-r));
                forget(c);
                return r;
        }
        c->state = CHILD_STARTING;
        return 0;
}

static void start_standby_later(struct keeper *k)
{
        sd_event_source_set_time(k->retry, now_us(k) + RETRY_US);
        sd_event_source_set_enabled(k->retry, SD_EVENT_ONESHOT);
}

static void start_standby(struct keeper *k)
{
        struct child *c = standby_of(k);

        if (!k->ending && c->state == CHILD_NONE && start(k, c) < 0)
                start_standby_later(k);
}

static int on_retry(sd_event_source *src, uint64_t now, void *arg)
{
        (void)src;
        (void)now;
        start_standby(arg);
        return 0;
}

/* ---- what daemons say and do ---- */

static void serves(struct keeper *k, struct child *c)
{
        c->state = CHILD_SERVING;
        k->failures = 0;
        if (k->ever_served)
                vql_logger_print(&k->log, LOG_NOTICE,
                                 "daemon %d took over, %" PRIu64 " ms after the last one ended",
                                 (int)c->pid, (now_us(k) - k->vacant_us) / 1000);
        k->ever_served = true;
        sd_notifyf(0, "READY=1\nSTATUS=Daemon %d serves", (int)c->pid);
        /* Not before: its start would cost the one that takes over its time. */
        start_standby(k);
}

static void vacate(struct keeper *k)
{
        struct child *next = standby_of(k);

        k->active = NULL;
        k->vacant_us = now_us(k);
        sd_event_source_set_enabled(k->silence, SD_EVENT_OFF);
        if (!k->ending && next->state == CHILD_READY && !next->replaced)
                give_turn(k, next);
}

static void ready(struct keeper *k, struct child *c)
{
        c->state = CHILD_READY;
        vql_logger_print(&k->log, LOG_DEBUG, "daemon %d is ready", (int)c->pid);
        if (!k->active)
                give_turn(k, c);
        else if (k->handing_over)
                kill(k->active->pid, SIGTERM);
        k->handing_over = false;
}

static void listen_to(struct keeper *k, struct child *c, char word)
{
        switch (word) {
        case VQL_TURN_READY:
                if (c->state == CHILD_STARTING)
                        ready(k, c);
                break;
        case VQL_TURN_SERVES:
                if (c->state == CHILD_GOING)
                        serves(k, c);
                break;
        case VQL_TURN_ALIVE:
                if (c == k->active)
                        hear(k);
                break;
        case VQL_TURN_ENDED:
                if (c == k->active && c->state == CHILD_SERVING)
                        vacate(k);
                break;
        default:
                break;
        }
}

static int on_words(sd_event_source *src, int fd, uint32_t events, void *arg)
{
        struct child *c = arg;
        char word;

        (void)events;
        if (recv(fd, &word, 1, MSG_DONTWAIT) == 1)
                listen_to(c->keeper, c, word);
        else
                sd_event_source_set_enabled(src, SD_EVENT_OFF); /* its end follows */
        return 0;
}

static void log_end(const struct keeper *k, const struct child *c, const siginfo_t *info)
{
        const bool wanted = k->ending || c->replaced;
        const int level = wanted ? LOG_INFO : LOG_ERR;

        if (info->si_code == CLD_EXITED)
                vql_logger_print(&k->log, level, "daemon %d ended with %d", (int)c->pid,
                                 info->si_status);
        else
                vql_logger_print(&k->log, level, "daemon %d ended: %s", (int)c->pid,
                                 strsignal(info->si_status));
}

/* A daemon ended that never served.  While another one does there is time; else no other will do
 * better if it was the first, or the third. */
static int on_failure(struct keeper *k)
{
        if (k->active) {
                start_standby_later(k);
                return 0;
        }
        if (k->ever_served && ++k->failures < MAX_FAILURES) {
                start_standby(k);
                return 0;
        }
        vql_logger_print(&k->log, LOG_ERR, "%u daemons in a row did not come to serve, giving up",
                         k->failures + !k->ever_served);
        return give_up(k, -ECHILD);
}

static int on_end(sd_event_source *src, const siginfo_t *info, void *arg)
{
        struct child *c = arg;
        struct keeper *k = c->keeper;
        const enum child_state was = c->state;
        const bool replaced = c->replaced;

        (void)src;
        log_end(k, c, info);
        if (c == k->active)
                vacate(k);
        forget(c);
        if (k->ending)
                return end_if_alone(k);
        if (was != CHILD_SERVING && !replaced)
                return on_failure(k);
        /* While one is on its way to serve, the next waits for it (serves()). */
        if (!k->active || k->active->state == CHILD_SERVING)
                start_standby(k);
        return 0;
}

static int on_silence(sd_event_source *src, uint64_t now, void *arg)
{
        struct keeper *k = arg;

        (void)src;
        (void)now;
        if (k->active) {
                vql_logger_print(&k->log, LOG_ERR, "daemon %d hangs, killing it",
                                 (int)k->active->pid);
                kill(k->active->pid, SIGKILL);
        }
        return 0;
}

/* ---- signals ---- */

static int on_stop(sd_event_source *src, const struct signalfd_siginfo *info, void *arg)
{
        struct keeper *k = arg;

        (void)src;
        vql_logger_print(&k->log, LOG_INFO, "ending: %s", strsignal((int)info->ssi_signo));
        sd_notify(0, "STOPPING=1");
        return give_up(k, 0);
}

static void renew_standby(struct keeper *k)
{
        struct child *c = standby_of(k);

        if (c->state == CHILD_STARTING || c->state == CHILD_READY)
                dismiss(c);
}

static int on_reload(sd_event_source *src, const struct signalfd_siginfo *info, void *arg)
{
        struct keeper *k = arg;

        (void)src;
        (void)info;
        if (!k->active)
                return 0;
        kill(k->active->pid, SIGHUP);
        /* What takes effect at the next start takes effect when this one takes over. */
        renew_standby(k);
        return 0;
}

static int on_upgrade(sd_event_source *src, const struct signalfd_siginfo *info, void *arg)
{
        struct keeper *k = arg;

        (void)src;
        (void)info;
        vql_logger_print(&k->log, LOG_NOTICE, "handing over to a new start of %s", k->program);
        k->handing_over = true;
        renew_standby(k);
        return 0;
}

/* ---- life ---- */

static int block_signals(void)
{
        static const int taken[] = { SIGTERM, SIGINT, SIGHUP, SIGUSR2, SIGCHLD };
        sigset_t set;

        sigemptyset(&set);
        for (size_t i = 0; i < sizeof(taken) / sizeof(*taken); i++)
                sigaddset(&set, taken[i]);
        return sigprocmask(SIG_BLOCK, &set, NULL) < 0 ? -errno : 0;
}

static int make_timers(struct keeper *k)
{
        int r = sd_event_add_time(k->loop, &k->silence, CLOCK_MONOTONIC, UINT64_MAX, 0, on_silence,
                                  k);

        if (r >= 0)
                r = sd_event_source_set_enabled(k->silence, SD_EVENT_OFF);
        if (r >= 0)
                r = sd_event_add_time(k->loop, &k->retry, CLOCK_MONOTONIC, UINT64_MAX, 0, on_retry,
                                      k);
        if (r >= 0)
                r = sd_event_source_set_enabled(k->retry, SD_EVENT_OFF);
        return r;
}

static int make_loop(struct keeper *k)
{
        int r = block_signals();

        if (r >= 0)
                r = sd_event_default(&k->loop);
        if (r >= 0)
                r = sd_event_add_signal(k->loop, NULL, SIGTERM, on_stop, k);
        if (r >= 0)
                r = sd_event_add_signal(k->loop, NULL, SIGINT, on_stop, k);
        if (r >= 0)
                r = sd_event_add_signal(k->loop, NULL, SIGHUP, on_reload, k);
        if (r >= 0)
                r = sd_event_add_signal(k->loop, NULL, SIGUSR2, on_upgrade, k);
        if (r >= 0)
                r = make_timers(k);
        if (r >= 0)
                r = sd_event_set_watchdog(k->loop, 1);
        return r < 0 ? r : 0;
}

static int find_program(struct keeper *k)
{
        const ssize_t n = readlink("/proc/self/exe", k->program, sizeof(k->program) - 1);

        if (n < 0)
                return -errno;
        k->program[n] = '\0';
        return 0;
}

int vql_keeper_run(const struct vql_daemon_options *options, int log_level)
{
        struct keeper k = { .options = options };
        int r;

        vql_logger_init(&k.log, log_level);
        for (int i = 0; i < 2; i++)
                k.child[i] = (struct child){ .keeper = &k, .fd = -1 };
        sd_watchdog_enabled(0, &k.watchdog_us);
        r = find_program(&k);
        if (r == 0)
                r = make_loop(&k);
        if (r == 0)
                r = start(&k, &k.child[0]);
        if (r == 0)
                r = sd_event_loop(k.loop);
        if (r < 0)
                vql_logger_print(&k.log, LOG_ERR, "keeper: %s", strerror(-r));
        for (int i = 0; i < 2; i++)
                forget(&k.child[i]);
        sd_event_source_disable_unref(k.silence);
        sd_event_source_disable_unref(k.retry);
        sd_event_unref(k.loop);
        return r < 0 ? r : k.result;
}
