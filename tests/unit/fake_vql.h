/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TESTS_FAKE_VQL_H
#define VQLIFT_TESTS_FAKE_VQL_H

/*
 * A library that moves no packets: it keeps what it was given, so that the tools can be tested
 * without DPDK.
 *
 * A port whose uplink is "fail:N" is refused with errno N.  One whose uplink is "odd" has a reason
 * that is not UTF-8.  Memory of 666 MiB cannot be had.  Every addition and deletion is logged.
 */

#include <vqlift/vqlift.h>

/* What the port was added with, or NULL. */
const struct vql_port_params *fake_vql_params(const struct vql *v, const char *name);

#endif
