/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_PORT_OFFER_H
#define VQLIFT_PORT_OFFER_H

#include "base/error.h"
#include "vhost_user/session.h"

/*
 * What a port of `queue_pairs` offers: of the virtio features those in `only` (0: all), without
 * those in `off`.  The two that vhost-user adds are always offered.
 * -EINVAL if a feature in `only` or `off` is not one that the software path offers, or needs one
 * that is not in `only`, or the front-end could not talk to us without one in `off`; the sentence
 * names the bit.
 */
int vql_offer_make(unsigned int queue_pairs, uint64_t only, uint64_t off,
                   struct vql_offer *ret_offer, struct vql_error *e);

/* Features whose dependencies are missing in `set` are taken out (virtio 1.2, 5.1.3.1). */
uint64_t vql_offer_close(uint64_t set);

#endif
