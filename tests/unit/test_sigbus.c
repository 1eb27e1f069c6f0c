/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory/sigbus.h"
#include "process.h"

enum { PAGE = 4096, HUGE_PAGE = 2 << 20, PAGES = 64 };

#define MEMFD_NAME "vql-unit-sigbus"

/* In front of libc's: refuses more anonymous memory than this at once. */
static volatile size_t most_anonymous = SIZE_MAX;

void *mmap(void *va, size_t len, int prot, int flags, int fd, off_t offset)
{
        if (flags & MAP_ANONYMOUS && len > most_anonymous) {
                errno = ENOMEM;
                return MAP_FAILED;
        }
        return (void *)syscall(SYS_mmap, va, len, prot, flags, fd, offset);
}

/* The handler that was there before: records what reaches it and jumps back to the test. */
static sigjmp_buf back;
static void *volatile foreign_addr;
static volatile int foreign_code;

static void on_foreign(int sig, siginfo_t *info, void *context)
{
        (void)sig;
        (void)context;
        foreign_addr = info->si_addr;
        foreign_code = info->si_code;
        siglongjmp(back, 1);
}

struct file {
        int fd;
        size_t len, page;
        volatile uint8_t *va;
        int notify;
        struct vql_sigbus_range *range;
};

static bool file_open(struct file *f, size_t len, size_t page)
{
        unsigned int huge = page == HUGE_PAGE ? MFD_HUGETLB | PROCESS_HUGE_2MB : 0;

        *f = (struct file){ .len = len, .page = page, .va = MAP_FAILED, .notify = -1 };
        f->fd = memfd_create(MEMFD_NAME, MFD_CLOEXEC | huge);
        if (f->fd >= 0 && ftruncate(f->fd, (off_t)len) == 0)
                f->va = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
        if (f->va == MAP_FAILED)
                return false;
        f->notify = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        assert_true(f->notify >= 0);
        return true;
}

static void file_open_guarded(struct file *f, size_t len)
{
        assert_true(file_open(f, len, PAGE));
        assert_int_equal(vql_sigbus_guard((void *)f->va, len, PAGE, f->notify, &f->range), 0);
        assert_false(vql_sigbus_hit(f->range));
}

static void file_close(struct file *f)
{
        vql_sigbus_release(f->range);
        if (f->va != MAP_FAILED)
                munmap((void *)f->va, f->len);
        if (f->notify >= 0)
                close(f->notify);
        if (f->fd >= 0)
                close(f->fd);
}

static void file_shrink(const struct file *f, size_t len)
{
        assert_int_equal(ftruncate(f->fd, (off_t)len), 0);
}

static uint64_t notifications(const struct file *f)
{
        uint64_t n = 0;

        return read(f->notify, &n, sizeof(n)) == sizeof(n) ? n : 0;
}

static void test_replaces_a_page_that_is_gone(void **state)
{
        struct file f, other;
        char c = 0;

        (void)state;
        process_guard_sigbus();
        file_open_guarded(&f, 4 * PAGE);
        file_open_guarded(&other, 4 * PAGE);
        memset((void *)f.va, 'a', 4 * PAGE);
        file_shrink(&f, 2 * PAGE);
        assert_int_equal(f.va[2 * PAGE + 7], 0);
        assert_true(vql_sigbus_hit(f.range));
        assert_int_equal(notifications(&f), 1);

        /* The page is ours now, without another fault; what the file still has stays shared. */
        f.va[2 * PAGE + 7] = 'b';
        assert_int_equal(f.va[2 * PAGE + 7], 'b');
        f.va[2 * PAGE - 1] = 'c';
        assert_int_equal(pread(f.fd, &c, 1, 2 * PAGE - 1), 1);
        assert_int_equal(c, 'c');
        assert_int_equal(notifications(&f), 0);

        other.va[3 * PAGE] = 'd';
        assert_int_equal(pread(other.fd, &c, 1, 3 * PAGE), 1);
        assert_int_equal(c, 'd');
        assert_false(vql_sigbus_hit(other.range));
        assert_int_equal(notifications(&other), 0);
        file_close(&other);
        file_close(&f);
        assert_int_equal(process_count_maps(MEMFD_NAME), 0);
}

static void test_write_to_a_page_that_is_gone(void **state)
{
        struct file f;

        (void)state;
        process_guard_sigbus();
        file_open_guarded(&f, PAGE);
        file_shrink(&f, 0);
        f.va[PAGE - 1] = 1;
        f.va[0] = 2;
        assert_int_equal(f.va[PAGE - 1], 1);
        assert_int_equal(f.va[0], 2);
        assert_int_equal(notifications(&f), 1);
        file_close(&f);
}

static void test_nobody_to_notify(void **state)
{
        struct file f;

        (void)state;
        process_guard_sigbus();
        assert_true(file_open(&f, PAGE, PAGE));
        assert_int_equal(vql_sigbus_guard((void *)f.va, PAGE, PAGE, -1, &f.range), 0);
        file_shrink(&f, 0);
        assert_int_equal(f.va[0], 0);
        assert_true(vql_sigbus_hit(f.range));
        file_close(&f);
}

/* From the last page down, each fault has a live mapping before it and a replaced one behind. */
static void test_many_faults_few_mappings(void **state)
{
        struct file f;
        size_t maps;

        (void)state;
        process_guard_sigbus();
        file_open_guarded(&f, PAGES * PAGE);
        file_shrink(&f, PAGE);
        maps = process_count_maps("");
        for (size_t i = PAGES; i-- > 1;)
                assert_int_equal(f.va[i * PAGE], 0);
        assert_int_equal(notifications(&f), PAGES - 1);
        assert_in_range(process_count_maps(""), maps, maps + 2);
        f.va[0] = 1;
        file_close(&f);

        /* From the first page up, the first fault is the only one. */
        file_open_guarded(&f, PAGES * PAGE);
        file_shrink(&f, PAGE);
        for (size_t i = 1; i < PAGES; i++)
                assert_int_equal(f.va[i * PAGE], 0);
        assert_int_equal(notifications(&f), 1);
        file_close(&f);
}

/* Touch `va` and expect the fault to reach the handler that was there before ours. */
static void expect_foreign(volatile uint8_t *va)
{
        foreign_addr = NULL;
        foreign_code = 0;
        if (sigsetjmp(back, 1) == 0) {
                (void)*va;
                fail_msg("no fault arrived");
        }
        assert_ptr_equal(foreign_addr, va);
        assert_int_equal(foreign_code, BUS_ADRERR);
}

/* As under strict overcommit: the tail is more private memory than may be had, a page is not. */
static void test_replaces_the_page_alone_when_memory_is_short(void **state)
{
        struct file f;
        size_t maps;

        (void)state;
        process_guard_sigbus();
        file_open_guarded(&f, PAGES * PAGE);
        file_shrink(&f, 0);
        maps = process_count_maps("");
        most_anonymous = PAGE;
        errno = ENOTUNIQ; /* the refusals in the handler must not be seen out here */
        for (size_t i = 0; i < PAGES; i += 2)
                assert_int_equal(f.va[i * PAGE], 0);
        assert_int_equal(errno, ENOTUNIQ);
        most_anonymous = SIZE_MAX;
        assert_int_equal(notifications(&f), PAGES / 2);
        assert_true(process_count_maps("") >= maps + PAGES - 2);
        file_close(&f);
}

static void test_no_memory_at_all_is_passed_on(void **state)
{
        struct file f;

        (void)state;
        process_guard_sigbus();
        file_open_guarded(&f, PAGE);
        file_shrink(&f, 0);
        most_anonymous = 0;
        expect_foreign(f.va);
        most_anonymous = SIZE_MAX;
        assert_false(vql_sigbus_hit(f.range));
        assert_int_equal(notifications(&f), 0);
        file_close(&f);
}

static void test_foreign_fault_is_passed_on(void **state)
{
        struct file guarded, foreign;

        (void)state;
        process_guard_sigbus();
        file_open_guarded(&guarded, PAGE);
        assert_true(file_open(&foreign, PAGE, PAGE));
        file_shrink(&foreign, 0);
        expect_foreign(foreign.va + 5);
        assert_false(vql_sigbus_hit(guarded.range));
        file_close(&foreign);
        file_close(&guarded);
}

static void test_range_ends_where_it_ends(void **state)
{
        struct file f;

        (void)state;
        process_guard_sigbus();
        assert_true(file_open(&f, 3 * PAGE, PAGE));
        assert_int_equal(vql_sigbus_guard((void *)(f.va + PAGE), PAGE, PAGE, f.notify, &f.range),
                         0);
        file_shrink(&f, 0);
        expect_foreign(f.va + PAGE - 1);
        expect_foreign(f.va + 2 * PAGE);
        assert_false(vql_sigbus_hit(f.range));
        assert_int_equal(f.va[2 * PAGE - 1], 0);
        expect_foreign(f.va + 2 * PAGE);
        assert_true(vql_sigbus_hit(f.range));
        file_close(&f);
}

static void test_released_range_is_foreign(void **state)
{
        struct file f;

        (void)state;
        process_guard_sigbus();
        file_open_guarded(&f, PAGE);
        file_shrink(&f, 0);
        vql_sigbus_release(f.range);
        f.range = NULL;
        expect_foreign(f.va);
        assert_int_equal(notifications(&f), 0);
        file_close(&f);
        vql_sigbus_release(NULL);
}

static void test_slot_is_taken_again_without_its_past(void **state)
{
        struct file f;
        struct vql_sigbus_range *first;

        (void)state;
        process_guard_sigbus();
        file_open_guarded(&f, PAGE);
        file_shrink(&f, 0);
        assert_int_equal(f.va[0], 0);
        first = f.range;
        assert_true(vql_sigbus_hit(first));
        file_close(&f);
        file_open_guarded(&f, PAGE);
        assert_ptr_equal(f.range, first);
        file_close(&f);
}

/* The kernel lets a thread send itself any siginfo, also one that looks like the kernel's own. */
static void send_sigbus(int code, volatile uint8_t *va)
{
        siginfo_t info = { .si_signo = SIGBUS, .si_code = code, .si_addr = (void *)va };

        assert_int_equal(
                syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)syscall(SYS_gettid), SIGBUS, &info),
                0);
}

/* Only a fault for want of a page says that there is a page to replace. */
static void test_other_signals_are_passed_on(void **state)
{
        static const int codes[] = { SI_QUEUE, SI_USER, SI_TKILL, BUS_ADRALN, BUS_MCEERR_AO };
        struct file f;

        (void)state;
        process_guard_sigbus();
        file_open_guarded(&f, PAGE);
        for (volatile size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
                foreign_addr = NULL;
                if (sigsetjmp(back, 1) == 0) {
                        send_sigbus(codes[i], f.va);
                        fail_msg("code %d did not arrive", codes[i]);
                }
                assert_int_equal(foreign_code, codes[i]);
                assert_ptr_equal(foreign_addr, f.va);
        }
        assert_false(vql_sigbus_hit(f.range));
        file_close(&f);
}

/* A page of broken hardware has good ones behind it. */
static void test_broken_hardware_costs_one_page(void **state)
{
        struct file f;
        char c = 0;

        (void)state;
        process_guard_sigbus();
        file_open_guarded(&f, 3 * PAGE);
        memset((void *)f.va, 'a', 3 * PAGE);
        send_sigbus(BUS_MCEERR_AR, f.va + PAGE + 1);
        assert_true(vql_sigbus_hit(f.range));
        assert_int_equal(notifications(&f), 1);
        assert_int_equal(f.va[PAGE - 1], 'a');
        assert_int_equal(f.va[PAGE], 0);
        assert_int_equal(f.va[2 * PAGE - 1], 0);
        f.va[2 * PAGE] = 'b';
        assert_int_equal(pread(f.fd, &c, 1, 2 * PAGE), 1);
        assert_int_equal(c, 'b');
        file_close(&f);
}

static void test_install_again_changes_nothing(void **state)
{
        struct sigaction before, after;

        (void)state;
        process_guard_sigbus();
        assert_int_equal(sigaction(SIGBUS, NULL, &before), 0);
        assert_int_equal(vql_sigbus_install(), 0);
        assert_int_equal(sigaction(SIGBUS, NULL, &after), 0);
        assert_ptr_equal(before.sa_sigaction, after.sa_sigaction);
        test_foreign_fault_is_passed_on(state);
}

static atomic_bool stop_churning;

static void *churn(void *arg)
{
        static uint8_t page[2][PAGE] __attribute__((aligned(PAGE)));

        (void)arg;
        while (!stop_churning) {
                struct vql_sigbus_range *r[2] = { NULL };

                for (int i = 0; i < 2; i++)
                        if (vql_sigbus_guard(page[i], PAGE, PAGE, -1, &r[i]) < 0)
                                return "table is full";
                for (int i = 0; i < 2; i++)
                        vql_sigbus_release(r[i]);
        }
        return NULL;
}

/* Faults find their range while other slots come and go. */
static void test_faults_while_slots_change(void **state)
{
        pthread_t thread;
        void *trouble = "did not run";

        (void)state;
        process_guard_sigbus();
        stop_churning = false;
        assert_int_equal(pthread_create(&thread, NULL, churn, NULL), 0);
        for (int i = 0; i < 500; i++) {
                struct file f;

                file_open_guarded(&f, PAGE);
                file_shrink(&f, 0);
                assert_int_equal(f.va[0], 0);
                assert_int_equal(notifications(&f), 1);
                file_close(&f);
        }
        stop_churning = true;
        pthread_join(thread, &trouble);
        assert_null(trouble);
}

static void *touch_backwards(void *arg)
{
        struct file *f = arg;

        for (size_t i = PAGES; i-- > 0;)
                (void)f->va[i * PAGE];
        return NULL;
}

static void test_two_threads_fault_in_one_range(void **state)
{
        (void)state;
        process_guard_sigbus();
        for (int round = 0; round < 20; round++) {
                pthread_t thread[2];
                struct file f;

                file_open_guarded(&f, PAGES * PAGE);
                file_shrink(&f, 0);
                for (int i = 0; i < 2; i++)
                        assert_int_equal(pthread_create(&thread[i], NULL, touch_backwards, &f), 0);
                for (int i = 0; i < 2; i++)
                        pthread_join(thread[i], NULL);
                assert_in_range(notifications(&f), PAGES, 2 * PAGES);
                file_close(&f);
        }
}

/* The hole that opens is a huge page: nothing smaller can be put into such a mapping. */
static void test_huge_page_is_replaced_whole(void **state)
{
        struct file f;

        (void)state;
        process_guard_sigbus();
        if (!file_open(&f, 2 * HUGE_PAGE, HUGE_PAGE)) {
                print_message("skipped: no two free 2 MiB huge pages (%s)\n", strerror(errno));
                file_close(&f);
                skip();
        }
        assert_int_equal(vql_sigbus_guard((void *)f.va, f.len, HUGE_PAGE, f.notify, &f.range), 0);
        f.va[0] = f.va[HUGE_PAGE] = 1;
        file_shrink(&f, HUGE_PAGE);
        assert_int_equal(f.va[HUGE_PAGE + 3 * PAGE], 0);
        assert_int_equal(f.va[HUGE_PAGE], 0);
        assert_int_equal(f.va[2 * HUGE_PAGE - 1], 0);
        assert_int_equal(notifications(&f), 1);
        assert_int_equal(f.va[0], 1);
        file_close(&f);
}

/* What a new process does whose handler before ours is this one. */

static void on_plain(int sig)
{
        _exit(sig == SIGBUS ? 42 : 43);
}

struct fresh {
        const char *name;
        void (*handler)(int); /* SIG_ERR: leave what is there */
        bool fault;           /* a foreign fault, else raise() */
        int exit, signal;     /* how the process must end; exit -1: any but 0 */
};

static const struct fresh fresh[] = {
        { "default-fault", SIG_DFL, true, 0, SIGBUS },
        { "default-raise", SIG_DFL, false, 0, SIGBUS },
        { "ignore-fault", SIG_IGN, true, 0, SIGBUS },
        { "ignore-raise", SIG_IGN, false, 0, 0 },
        { "plain-fault", on_plain, true, 42, 0 },
        { "plain-raise", on_plain, false, 42, 0 },
        { "untouched-fault", SIG_ERR, true, -1, SIGBUS },
};

static int run_fresh(const char *name)
{
        for (size_t i = 0; i < sizeof(fresh) / sizeof(fresh[0]); i++) {
                const struct rlimit no_core = { 0, 0 };
                struct file f;

                if (strcmp(fresh[i].name, name) != 0)
                        continue;
                setrlimit(RLIMIT_CORE, &no_core);
                if (fresh[i].handler != SIG_ERR)
                        signal(SIGBUS, fresh[i].handler);
                if (vql_sigbus_install() < 0 || !file_open(&f, PAGE, PAGE))
                        return 99;
                if (!fresh[i].fault)
                        return raise(SIGBUS);
                if (ftruncate(f.fd, 0) < 0)
                        return 98;
                return f.va[0];
        }
        return 97;
}

static int status_of(pid_t pid)
{
        int status;

        assert_true(pid > 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        return status;
}

static void expect_fresh(const struct fresh *c)
{
        pid_t pid = fork();
        int status;

        if (pid == 0) {
                /* The report of a sanitizer's handler would only confuse the reader. */
                if (!freopen("/dev/null", "w", stderr))
                        _exit(96);
                execl("/proc/self/exe", "test_sigbus", c->name, NULL);
                _exit(95);
        }
        status = status_of(pid);
        if (WIFSIGNALED(status)) {
                assert_int_equal(WTERMSIG(status), c->signal);
                return;
        }
        assert_true(c->exit != 0 || c->signal == 0);
        if (c->exit < 0)
                assert_in_range(WEXITSTATUS(status), 1, 90);
        else
                assert_int_equal(WEXITSTATUS(status), c->exit);
}

static void test_handlers_before_ours(void **state)
{
        (void)state;
        for (size_t i = 0; i < sizeof(fresh) / sizeof(fresh[0]); i++)
                expect_fresh(&fresh[i]);
}

int main(int argc, char **argv)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_replaces_a_page_that_is_gone),
                cmocka_unit_test(test_write_to_a_page_that_is_gone),
                cmocka_unit_test(test_nobody_to_notify),
                cmocka_unit_test(test_many_faults_few_mappings),
                cmocka_unit_test(test_replaces_the_page_alone_when_memory_is_short),
                cmocka_unit_test(test_no_memory_at_all_is_passed_on),
                cmocka_unit_test(test_foreign_fault_is_passed_on),
                cmocka_unit_test(test_range_ends_where_it_ends),
                cmocka_unit_test(test_released_range_is_foreign),
                cmocka_unit_test(test_slot_is_taken_again_without_its_past),
                cmocka_unit_test(test_other_signals_are_passed_on),
                cmocka_unit_test(test_broken_hardware_costs_one_page),
                cmocka_unit_test(test_install_again_changes_nothing),
                cmocka_unit_test(test_faults_while_slots_change),
                cmocka_unit_test(test_two_threads_fault_in_one_range),
                cmocka_unit_test(test_huge_page_is_replaced_whole),
                cmocka_unit_test(test_handlers_before_ours),
        };

        const struct sigaction act = { .sa_sigaction = on_foreign, .sa_flags = SA_SIGINFO };

        if (argc > 1)
                return run_fresh(argv[1]);
        /* Before cmocka and the guard: this is the handler that the guard finds. */
        if (sigaction(SIGBUS, &act, NULL) < 0)
                return 1;
        process_guard_sigbus();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
