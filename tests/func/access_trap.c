/* SPDX-License-Identifier: BSD-3-Clause */
#include "access_trap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { PAGE = 4096, TRAP_FLAG = 1 << 8 };

/* Signals are a matter of the whole process. */
static struct {
        uint8_t *page;
        unsigned int seen;
        void (*fire)(void *arg, unsigned int n);
        void *arg;
        struct sigaction old[2];
} trap;

#ifdef __has_feature
#define UNDER_TSAN __has_feature(thread_sanitizer)
#elif defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#else
#define UNDER_TSAN 0
#endif

/* The CPU stops after one instruction if it is told to, and signals come at once. */
#if defined(__x86_64__) && !UNDER_TSAN
#define STEPS
#endif

bool access_trap_works(void)
{
#ifdef STEPS
        return true;
#else
        return false;
#endif
}

static void set_step(void *context, bool on)
{
#ifdef STEPS
        ucontext_t *c = context;

        if (on)
                c->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
        else
                c->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
#else
        (void)context, (void)on;
#endif
}

/* Before the access: let one instruction through. */
static void on_fault(int sig, siginfo_t *info, void *context)
{
        if ((uintptr_t)info->si_addr - (uintptr_t)trap.page >= PAGE) {
                sigaction(sig, &trap.old[0], NULL); /* not ours: it comes again at once */
                return;
        }
        trap.fire(trap.arg, trap.seen++);
        mprotect(trap.page, PAGE, PROT_READ | PROT_WRITE);
        set_step(context, true);
}

/* Behind it. */
static void on_step(int sig, siginfo_t *info, void *context)
{
        (void)sig, (void)info;
        mprotect(trap.page, PAGE, PROT_NONE);
        set_step(context, false);
}

void access_trap_arm(void *page, void (*fire)(void *arg, unsigned int n), void *arg)
{
        struct sigaction fault = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
        struct sigaction step = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO };

        trap.page = page;
        trap.seen = 0;
        trap.fire = fire;
        trap.arg = arg;
        assert_int_equal(sigaction(SIGSEGV, &fault, &trap.old[0]), 0);
        assert_int_equal(sigaction(SIGTRAP, &step, &trap.old[1]), 0);
        assert_int_equal(mprotect(page, PAGE, PROT_NONE), 0);
}

unsigned int access_trap_disarm(void)
{
        assert_int_equal(mprotect(trap.page, PAGE, PROT_READ | PROT_WRITE), 0);
        assert_int_equal(sigaction(SIGSEGV, &trap.old[0], NULL), 0);
        assert_int_equal(sigaction(SIGTRAP, &trap.old[1], NULL), 0);
        return trap.seen;
}
