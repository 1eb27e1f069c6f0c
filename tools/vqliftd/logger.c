/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqliftd/logger.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/printable.h"
#include "common/text.h"

enum { LINE_MAX_BYTES = 1024 };

/* JOURNAL_STREAM is inherited by children whose standard error goes elsewhere: compare. */
static bool is_journal(int fd)
{
        const char *stream = getenv("JOURNAL_STREAM");
        uintmax_t device, inode;
        struct stat st;

        return stream && sscanf(stream, "%ju:%ju", &device, &inode) == 2 && fstat(fd, &st) == 0 &&
               st.st_dev == device && st.st_ino == inode;
}

void vql_logger_init(struct vql_logger *log, int level)
{
        log->fd = STDERR_FILENO;
        log->level = level;
        log->journal = is_journal(log->fd);
}

static void add_prefix(struct vql_text *t, const struct vql_logger *log, int level)
{
        static const char *const names[] = { "emerg",   "alert",  "crit", "error",
                                             "warning", "notice", "info", "debug" };
        struct timespec now;
        char clock[16] = "";
        struct tm local;

        level &= LOG_PRIMASK;
        if (log->journal) {
                vql_text_add(t, "<%d>", level);
                return;
        }
        clock_gettime(CLOCK_REALTIME, &now);
        if (localtime_r(&now.tv_sec, &local))
                strftime(clock, sizeof(clock), "%H:%M:%S", &local);
        vql_text_add(t, "%s.%03ld %-7s ", clock, now.tv_nsec / 1000000, names[level]);
}

static void write_line(const struct vql_logger *log, int level, const char *name, const char *line)
{
        char buffer[LINE_MAX_BYTES];
        struct vql_text t;

        if (level > log->level)
                return;
        vql_text_init(&t, buffer, sizeof(buffer) - 1);
        add_prefix(&t, log, level);
        vql_text_add(&t, "%s%s%s", name ? name : "", name ? ": " : "", line);
        vql_printable(buffer);
        /* One write a line, so that the lines of several threads do not mix.  A log that cannot be
         * written is no reason to stop. */
        buffer[t.used++] = '\n';
        if (write(log->fd, buffer, t.used) < 0)
                return;
}

void vql_logger_write(void *arg, int level, const char *name, const char *line)
{
        write_line(arg, level, name, line);
}

void vql_logger_print(const struct vql_logger *log, int level, const char *fmt, ...)
{
        char line[LINE_MAX_BYTES];
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(line, sizeof(line), fmt, ap);
        va_end(ap);
        write_line(log, level, NULL, line);
}
