/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FUNC_ACCESS_TRAP_H
#define FUNC_ACCESS_TRAP_H

/*
 * Something happens between any two accesses to a page: each access faults, and is let through for
 * one instruction.  So a second CPU that changes memory at the worst moment can be played without
 * one, every moment in turn.  One trap at a time, one thread.
 */

#include <stdbool.h>

/* Does this machine (and this build: not the thread sanitizer's) allow it? */
bool access_trap_works(void);

/* Call fire(arg, n) before access number n (from 0) to the page at `page`. */
void access_trap_arm(void *page, void (*fire)(void *arg, unsigned int n), void *arg);
/* Returns how many accesses there were. */
unsigned int access_trap_disarm(void);

#endif
