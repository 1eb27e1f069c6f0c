/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqliftd/control_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

int vql_control_socket_make_folder(const char *path)
{
        char folder[sizeof(((struct vql_control_socket *)0)->path)];
        char *slash;

        snprintf(folder, sizeof(folder), "%s", path);
        slash = strrchr(folder, '/');
        if (!slash || slash == folder)
                return 0;
        *slash = '\0';
        if (mkdir(folder, 0755) < 0)
                return errno == EEXIST ? 0 : -errno;
        /* Whatever the umask says, the group of the socket has to get there. */
        return chmod(folder, 0755) < 0 ? -errno : 0;
}

/* The lock is held until the fd is closed, by us or by the end of the process. */
static int lock(struct vql_control_socket *s)
{
        char path[sizeof(s->path) + sizeof(".lock")];

        snprintf(path, sizeof(path), "%s.lock", s->path);
        s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (s->lock_fd < 0)
                return -errno;
        if (flock(s->lock_fd, LOCK_EX | LOCK_NB) < 0)
                return errno == EWOULDBLOCK ? -EADDRINUSE : -errno;
        return 0;
}

static struct sockaddr_un make_address(const char *path)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };

        memcpy(address.sun_path, path, strlen(path));
        return address;
}

/* 0: the path is free; -EADDRINUSE, -EEXIST or -errno. */
static int remove_stale(const char *path)
{
        struct sockaddr_un address = make_address(path);
        struct stat st;
        int fd, r;

        if (lstat(path, &st) < 0)
                return errno == ENOENT ? 0 : -errno;
        if (!S_ISSOCK(st.st_mode))
                return -EEXIST;
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return -errno;
        r = connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
        close(fd);
        /* EAGAIN: somebody listens, and is busy. */
        if (r == 0 || r == -EAGAIN)
                return -EADDRINUSE;
        if (r != -ECONNREFUSED)
                return r;
        return unlink(path) < 0 ? -errno : 0;
}

static int bind_and_listen(struct vql_control_socket *s, gid_t gid)
{
        struct sockaddr_un address = make_address(s->path);
        struct stat st;
        mode_t mask;
        int r;

        s->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (s->fd < 0)
                return -errno;
        /* Closed to all until its group is right. */
        mask = umask(0177);
        r = bind(s->fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
        umask(mask);
        if (r < 0)
                return r;
        if (lstat(s->path, &st) < 0)
                return -errno;
        s->device = st.st_dev;
        s->inode = st.st_ino;
        if (gid != (gid_t)-1 && lchown(s->path, (uid_t)-1, gid) < 0)
                return -errno;
        if (chmod(s->path, 0660) < 0 || listen(s->fd, SOMAXCONN) < 0)
                return -errno;
        return 0;
}

static int log_failure(const struct vql_control_socket *s, int err, const struct vql_logger *log)
{
        const char *why = strerror(-err);

        if (err == -EADDRINUSE)
                why = "another daemon listens there";
        else if (err == -EEXIST)
                why = "there is a file that is not a socket";
        vql_logger_print(log, LOG_ERR, "control socket %s: %s", s->path, why);
        return err;
}

int vql_control_socket_open(const char *path, gid_t gid, const struct vql_logger *log,
                            struct vql_control_socket *ret_socket)
{
        struct vql_control_socket s = { .fd = -1, .lock_fd = -1 };
        int r;

        snprintf(s.path, sizeof(s.path), "%s", path);
        r = strlen(path) < sizeof(s.path) ? vql_control_socket_make_folder(path) : -ENAMETOOLONG;
        if (r == 0)
                r = lock(&s);
        if (r == 0)
                r = remove_stale(path);
        if (r == 0)
                r = bind_and_listen(&s, gid);
        if (r < 0) {
                vql_control_socket_close(&s);
                return log_failure(&s, r, log);
        }
        *ret_socket = s;
        return 0;
}

void vql_control_socket_close(struct vql_control_socket *s)
{
        struct stat st;

        /* Without the lock, the file may be that of a later daemon with the same inode number. */
        if (s->lock_fd >= 0 && s->inode && lstat(s->path, &st) == 0 && st.st_dev == s->device &&
            st.st_ino == s->inode)
                unlink(s->path);
        if (s->fd >= 0)
                close(s->fd);
        if (s->lock_fd >= 0)
                close(s->lock_fd);
        s->fd = s->lock_fd = -1;
}
