/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_ENDPOINT_PLACE_H
#define TESTS_UNIT_ENDPOINT_PLACE_H

/* An endpoint with a loop and a directory of its own.  For cmocka tests. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "loop.h"
#include "process.h"
#include "vhost_user/endpoint.h"

struct place {
        sd_event *loop;
        struct vql_endpoint *endpoint;
        struct vql_endpoint_params params;
        struct vql_log log;
        struct vql_error error;
        char dir[64];
        char path[256];
        volatile int connected; /* how often */
        int fd;                 /* of the last connection */
        unsigned int lines;     /* logged */
        char last_line[512];
        size_t fds_before;
};

static inline void on_connected(void *arg, int fd)
{
        struct place *p = arg;

        p->connected++;
        p->fd = fd;
}

static inline void on_line(void *arg, int level, const char *name, const char *line)
{
        struct place *p = arg;

        (void)level;
        (void)name;
        p->lines++;
        snprintf(p->last_line, sizeof(p->last_line), "%s", line);
}

static inline struct place *place_new(enum vql_role role)
{
        struct place *p = calloc(1, sizeof(*p));

        p->fds_before = process_count_fds();
        p->loop = loop_new();
        p->fd = -1;
        p->log = (struct vql_log){ .write = on_line, .arg = p, .level = LOG_DEBUG };
        snprintf(p->dir, sizeof(p->dir), "/tmp/vql-unit-endpoint-XXXXXX");
        assert_non_null(mkdtemp(p->dir));
        snprintf(p->path, sizeof(p->path), "%s/sock", p->dir);
        p->params = (struct vql_endpoint_params){
                .loop = p->loop,
                .path = p->path,
                .role = role,
                .mode = 0640,
                .uid = (uid_t)-1,
                .gid = (gid_t)-1,
                .log = &p->log,
                .connected = on_connected,
                .arg = p,
        };
        return p;
}

static inline int place_open(struct place *p)
{
        return vql_endpoint_new(&p->params, &p->endpoint, &p->error);
}

static inline struct place *place_new_open(enum vql_role role)
{
        struct place *p = place_new(role);

        assert_int_equal(place_open(p), 0);
        return p;
}

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
        (void)st;
        (void)type;
        (void)ftw;
        return remove(path);
}

static inline void place_free(struct place *p)
{
        vql_endpoint_free(p->endpoint);
        if (p->fd >= 0)
                close(p->fd);
        sd_event_unref(p->loop);
        nftw(p->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
        assert_int_equal(process_count_fds(), p->fds_before);
        free(p);
}

static inline size_t entries(const char *path)
{
        DIR *dir = opendir(path);
        size_t n = 0;

        while (readdir(dir))
                n++;
        closedir(dir);
        return n - 2; /* without . and .. */
}

static inline struct sockaddr_un address(const char *path)
{
        struct sockaddr_un sa = { .sun_family = AF_UNIX };

        assert_true(strlen(path) < sizeof(sa.sun_path));
        memcpy(sa.sun_path, path, strlen(path));
        return sa;
}

static inline int client(const char *path)
{
        const struct sockaddr_un sa = address(path);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (connect(fd, (const struct sockaddr *)&sa, sizeof(sa)) == 0)
                return fd;
        close(fd);
        return -errno;
}

static inline int bound(const char *path)
{
        const struct sockaddr_un sa = address(path);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        assert_int_equal(bind(fd, (const struct sockaddr *)&sa, sizeof(sa)), 0);
        return fd;
}

static inline int server(const char *path)
{
        int fd = bound(path);

        assert_int_equal(listen(fd, 1), 0);
        return fd;
}

/* Has the other end closed? */
static inline bool is_closed(int fd)
{
        char byte;

        return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

static inline void assert_refused(struct place *p, int err, const char *sentence)
{
        assert_int_equal(place_open(p), -err);
        if (!strstr(p->error.text, sentence))
                fail_msg("\"%s\" does not say \"%s\"", p->error.text, sentence);
        assert_null(p->endpoint);
}

#endif
