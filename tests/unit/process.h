/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_PROCESS_H
#define TESTS_UNIT_PROCESS_H

/*
 * What the kernel says about this process (open descriptors, mappings and their flags), and the
 * SIGBUS guard in a test program.
 */

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "memory/sigbus.h"

static inline size_t process_count_fds(void)
{
        DIR *dir = opendir("/proc/self/fd");
        size_t n = 0;

        while (readdir(dir))
                n++;
        closedir(dir);
        return n;
}

/* Mappings whose line contains `text`; "" counts all. */
static inline size_t process_count_maps(const char *text)
{
        FILE *maps = fopen("/proc/self/maps", "re");
        char line[512];
        size_t n = 0;

        while (fgets(line, sizeof(line), maps))
                n += strstr(line, text) != NULL;
        fclose(maps);
        return n;
}

/* memfd_create() with MFD_HUGETLB: 2 MiB pages, in a word that glibc has no name for. */
#define PROCESS_HUGE_2MB (21U << 26)

/* gcc has the macro, clang the feature. */
#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
enum { PROCESS_THREAD_SANITIZER = 1 };
#else
enum { PROCESS_THREAD_SANITIZER = 0 };
#endif

struct process_map {
        uintptr_t start, end;
        char flags[256]; /* of smaps, "rd wr sh ..." with a blank before and after each */
};

/* The mapping that holds `va`; false if there is none. */
static inline bool process_find_map(const void *va, struct process_map *ret_map)
{
        FILE *smaps = fopen("/proc/self/smaps", "re");
        struct process_map m = { 0 };
        uintptr_t at = (uintptr_t)va;
        bool found = false;
        char line[512];

        while (!found && fgets(line, sizeof(line), smaps)) {
                unsigned long start, end;

                if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
                        m = (struct process_map){ start, end, "" };
                else if (sscanf(line, "VmFlags:%255[^\n]", m.flags) == 1)
                        found = at >= m.start && at < m.end;
        }
        fclose(smaps);
        if (found)
                *ret_map = m;
        return found;
}

/*
 * cmocka puts a SIGBUS handler of its own in front of every test.  main() calls this before cmocka,
 * and a test whose mappings lose pages once more, to have the guard in front as in a program.
 */
static inline void process_guard_sigbus(void)
{
        static struct sigaction guard;

        if (!guard.sa_sigaction) {
                vql_sigbus_install();
                sigaction(SIGBUS, NULL, &guard);
        }
        sigaction(SIGBUS, &guard, NULL);
}

/*
 * clang's thread sanitizer holds a lock of its own around each atomic access, and takes it again in
 * a signal handler.  True, with the reason printed, if a test with such a fault must be left out.
 */
static inline bool process_atomics_must_not_fault(void)
{
        if (PROCESS_THREAD_SANITIZER)
                printf("skipped: the thread sanitizer locks up when an atomic access faults\n");
        return PROCESS_THREAD_SANITIZER;
}

#endif
