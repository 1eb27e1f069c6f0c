/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/pvp_child.h"

#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

enum { ANSWER_MS = 30000, END_MS = 5000, TAIL = 800, EXIT_NO_PROGRAM = 127 };

/* ---- the place ---- */

static void ending_signals(sigset_t *set)
{
        sigemptyset(set);
        sigaddset(set, SIGINT);
        sigaddset(set, SIGTERM);
        sigaddset(set, SIGHUP);
}

int pvp_place_init(struct pvp_place *p)
{
        const char *parent = getenv("TMPDIR");
        sigset_t ending;
        int n, rc;

        ending_signals(&ending);
        sigprocmask(SIG_BLOCK, &ending, NULL);
        p->stop_fd = signalfd(-1, &ending, SFD_CLOEXEC);
        n = snprintf(p->dir, sizeof(p->dir), "%s/vqlift-pvp-XXXXXX", parent ? parent : "/tmp");
        if (n < 0 || (size_t)n >= sizeof(p->dir))
                errno = ENAMETOOLONG;
        else if (p->stop_fd >= 0 && mkdtemp(p->dir))
                return 0;
        rc = -errno;
        p->dir[0] = '\0';
        fprintf(stderr, "vqlift-bench pvp: a folder in $TMPDIR or /tmp: %s\n", strerror(-rc));
        return rc;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
        (void)st;
        (void)type;
        (void)ftw;
        return remove(path);
}

void pvp_place_fini(struct pvp_place *p)
{
        if (p->dir[0])
                nftw(p->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
        close(p->stop_fd);
}

int pvp_place_wait(const struct pvp_place *p, double seconds)
{
        struct pollfd stop = { .fd = p->stop_fd, .events = POLLIN };
        const struct timespec t = { .tv_sec = (time_t)seconds,
                                    .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9) };

        return ppoll(&stop, 1, &t, NULL) == 0 ? 0 : -EINTR;
}

/* ---- a child ---- */

static _Noreturn void run(const struct pvp_place *place, const char *const *argv, pid_t parent)
{
        sigset_t ending;

        ending_signals(&ending);
        sigprocmask(SIG_UNBLOCK, &ending, NULL);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                _exit(EXIT_NO_PROGRAM);
        /* DPDK keeps what it writes there. */
        setenv("RUNTIME_DIRECTORY", place->dir, 1);
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        dprintf(STDOUT_FILENO, "%s: %s.  Debian has dpdk-testpmd in dpdk-dev.\n", argv[0],
                strerror(errno));
        _exit(EXIT_NO_PROGRAM);
}

int pvp_child_start(const struct pvp_place *place, const char *name, const char *const *argv,
                    struct pvp_child **ret_child)
{
        struct pvp_child *c = calloc(1, sizeof(*c));
        const struct winsize size = { .ws_row = 50, .ws_col = 200 };
        const pid_t parent = getpid();
        struct termios terminal;

        if (!c)
                return -ENOMEM;
        c->name = name;
        c->place = place;
        memset(&terminal, 0, sizeof(terminal));
        cfmakeraw(&terminal);
        c->pid = forkpty(&c->terminal, NULL, &terminal, &size);
        if (c->pid < 0) {
                int rc = -errno;

                fprintf(stderr, "vqlift-bench pvp: %s: %s\n", name, strerror(errno));
                free(c);
                return rc;
        }
        if (c->pid == 0)
                run(place, argv, parent);
        *ret_child = c;
        return 0;
}

static int complain(const struct pvp_child *c, int err, const char *what)
{
        const size_t from = c->n > TAIL ? c->n - TAIL : 0;

        fprintf(stderr, "vqlift-bench pvp: %s %s; its last words:\n%s\n", c->name, what,
                c->text + from);
        return -err;
}

/* Take what it says.  0 at its end. */
static ssize_t hear(struct pvp_child *c)
{
        ssize_t n;

        if (c->n > PVP_TEXT / 2) {
                memmove(c->text, c->text + c->n - PVP_TEXT / 4, PVP_TEXT / 4);
                c->n = PVP_TEXT / 4;
        }
        n = read(c->terminal, c->text + c->n, PVP_TEXT - 1 - c->n);
        if (n <= 0) /* EIO: the other end of the terminal is closed */
                return 0;
        c->n += (size_t)n;
        c->text[c->n] = '\0';
        return n;
}

static int64_t now_ms(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int pvp_child_wait(struct pvp_child *c, const char *word)
{
        const int64_t end = now_ms() + ANSWER_MS;

        while (!strstr(c->text, word)) {
                struct pollfd p[] = { { .fd = c->terminal, .events = POLLIN },
                                      { .fd = c->place->stop_fd, .events = POLLIN } };
                const int64_t left = end - now_ms();

                if (left <= 0 || poll(p, 2, (int)left) == 0)
                        return complain(c, ETIMEDOUT, "does not answer");
                if (p[1].revents)
                        return -EINTR;
                if (p[0].revents && hear(c) == 0)
                        return complain(c, ECHILD, "ended");
        }
        return 0;
}

int pvp_child_ask(struct pvp_child *c, const char *line, const char *word)
{
        c->n = 0;
        c->text[0] = '\0';
        if (dprintf(c->terminal, "%s\n", line) < 0)
                return complain(c, EPIPE, "does not listen");
        return pvp_child_wait(c, word);
}

static bool wait_end(pid_t pid)
{
        struct pollfd p = { .fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN };
        bool ended;

        if (p.fd < 0)
                return false;
        ended = poll(&p, 1, END_MS) == 1;
        close(p.fd);
        return ended;
}

void pvp_child_free(struct pvp_child *c)
{
        if (!c)
                return;
        kill(c->pid, SIGTERM);
        if (!wait_end(c->pid))
                kill(c->pid, SIGKILL);
        waitpid(c->pid, NULL, 0);
        close(c->terminal);
        free(c);
}
