/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vhost_user/session.h"

enum { MAGIC = 0x4a51564c, VERSION = 3 };

/* What one ring left behind; valid only while `live` is set. */
struct record {
        uint64_t desc_uva;
        uint32_t size;
        uint32_t live;
        uint64_t position; /* vql_position_word(); stored by the datapath */
};

struct file {
        uint32_t magic, version;
        struct record ring[VQL_MAX_RINGS];
};

struct vql_journal {
        struct file *file;
        char *path; /* NULL: in memory */
};

static int map_file(struct vql_journal *j, struct vql_error *e)
{
        int fd = open(j->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        int rc = 0;
        struct stat st;
        void *va;

        if (fd < 0)
                return vql_fail(e, errno, "state file %s: %s", j->path, strerror(errno));
        /* The map must never be longer than the file: an odd length begins anew. */
        if (fstat(fd, &st) < 0 ||
            (st.st_size != (off_t)sizeof(struct file) &&
             (ftruncate(fd, 0) < 0 || ftruncate(fd, sizeof(struct file)) < 0))) {
                rc = vql_fail(e, errno, "state file %s: %s", j->path, strerror(errno));
                goto out;
        }
        va = mmap(NULL, sizeof(struct file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (va == MAP_FAILED)
                rc = vql_fail(e, errno, "state file %s: %s", j->path, strerror(errno));
        else
                j->file = va;
out:
        close(fd);
        return rc;
}

static int map_memory(struct vql_journal *j, struct vql_error *e)
{
        void *va = mmap(NULL, sizeof(struct file), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (va == MAP_FAILED)
                return vql_fail(e, errno, "journal: %s", strerror(errno));
        j->file = va;
        return 0;
}

int vql_journal_open(const char *dir, const char *port, struct vql_journal **ret_journal,
                     struct vql_error *e)
{
        struct vql_journal *j = calloc(1, sizeof(*j));
        int rc;

        if (!j || (dir && asprintf(&j->path, "%s/%s.rings", dir, port) < 0)) {
                free(j);
                return vql_fail(e, ENOMEM, "journal: out of memory");
        }
        rc = j->path ? map_file(j, e) : map_memory(j, e);
        if (rc < 0) {
                vql_journal_close(j);
                return rc;
        }
        if (j->file->magic != MAGIC || j->file->version != VERSION) {
                memset(j->file, 0, sizeof(*j->file));
                j->file->magic = MAGIC;
                j->file->version = VERSION;
        }
        *ret_journal = j;
        return 0;
}

void vql_journal_close(struct vql_journal *j)
{
        if (!j)
                return;
        if (j->file)
                munmap(j->file, sizeof(*j->file));
        free(j->path);
        free(j);
}

void vql_journal_forget(struct vql_journal *j)
{
        if (j->path)
                unlink(j->path);
}

uint64_t *vql_journal_begin(struct vql_journal *j, uint16_t index, uint64_t desc_uva, uint16_t size,
                            const struct vql_cursor *at)
{
        struct record *r = &j->file->ring[index];

        __atomic_store_n(&r->live, 0, __ATOMIC_RELEASE);
        r->desc_uva = desc_uva;
        r->size = size;
        r->position = vql_position_word(at->used, at->used_wrap, at->used, at->used_wrap);
        __atomic_store_n(&r->live, 1, __ATOMIC_RELEASE);
        return &r->position;
}

void vql_journal_end(struct vql_journal *j, uint16_t index)
{
        __atomic_store_n(&j->file->ring[index].live, 0, __ATOMIC_RELEASE);
}

int vql_journal_find(const struct vql_journal *j, uint16_t index, uint64_t desc_uva, uint16_t size,
                     struct vql_cursor ret_cursors[2])
{
        const struct record *r = &j->file->ring[index];

        if (!r->live || r->desc_uva != desc_uva || r->size != size ||
            vql_position_read(r->position, size, ret_cursors) < 0)
                return -ENODATA;
        return 0;
}
