/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_VHOST_USER_HANDLERS_H
#define VQLIFT_VHOST_USER_HANDLERS_H

/* What the message table points to; see call.h for what each kind does. */

#include "vhost_user/call.h"

/* handlers_features.c */
vql_handler vql_handle_get_features, vql_handle_set_features;
vql_handler vql_handle_get_protocol_features, vql_handle_set_protocol_features;
vql_handler vql_handle_get_queue_num, vql_handle_get_max_mem_slots;

/* handlers_device.c */
vql_handler vql_handle_set_owner, vql_handle_reset_owner;
vql_handler vql_handle_get_status, vql_handle_set_status, vql_handle_reset_device;
vql_handler vql_handle_set_mtu, vql_handle_send_rarp, vql_handle_set_backend_fd;
vql_finisher vql_finish_set_status, vql_finish_reset_device;

/* handlers_memory.c */
vql_handler vql_handle_set_mem_table, vql_handle_add_mem_reg, vql_handle_rem_mem_reg;

/* handlers_ring.c */
vql_handler vql_handle_set_vring_num, vql_handle_set_vring_addr, vql_handle_set_vring_base;
vql_handler vql_handle_get_vring_base, vql_handle_set_vring_enable;
vql_handler vql_handle_set_vring_kick, vql_handle_set_vring_call, vql_handle_set_vring_err;
vql_finisher vql_finish_get_vring_base;

/* handlers_log.c */
vql_handler vql_handle_set_log_base, vql_handle_set_log_fd;
vql_handler vql_handle_get_inflight_fd, vql_handle_set_inflight_fd;
vql_finisher vql_finish_set_log_base;

/* handlers_postcopy.c */
vql_handler vql_handle_postcopy_advise, vql_handle_postcopy_listen, vql_handle_postcopy_end;
vql_handler vql_handle_postcopy_placed;
/* While the session listens: keep the table until the front-end knows where it is, and the address
 * to tell it. */
void vql_postcopy_announce(struct vql_call *c, struct vql_mem_table *t);
uint64_t vql_postcopy_place(const struct vql_session *s, uint64_t gpa);

/* handlers_state.c */
vql_handler vql_handle_set_device_state_fd, vql_handle_check_device_state;

/* refusals.c */
vql_refuser vql_refuse_nothing_back; /* a reply without payload and descriptor */
vql_refuser vql_refuse_zero, vql_refuse_one;
vql_refuser vql_refuse_same_size; /* as many zeroes as came */
vql_refuser vql_refuse_crypto_session, vql_refuse_device_state, vql_refuse_shmem_config;

#endif
