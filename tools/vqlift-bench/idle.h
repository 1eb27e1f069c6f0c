/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BENCH_IDLE_H
#define VQLIFT_BENCH_IDLE_H

/*
 * vqlift-bench idle: what a packet costs if the worker that moves it also has guests that send and
 * get nothing, and what such a guest's queues take of memory.
 */

int idle_main(int argc, char **argv);

#endif
