/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_PORT_BURST_IMPL_H
#define VQLIFT_PORT_BURST_IMPL_H

/* For the bench and tests in this tree: the burst datapath with the choice of its instances. */

struct vql_burst_queue;
struct vql_instance_set;

/* Move packets by this set from now on, which must run on this CPU. */
void vql_burst_use(struct vql_burst_queue *b, const struct vql_instance_set *set);

#endif
