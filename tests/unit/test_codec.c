/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "vhost_user/codec.h"
#include "vhost_user/message_table.h"

/* Bytes as they were on the wire of a little-endian machine, written out by hand. */
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the vectors are those of a little-endian machine"
#endif

#define U64_1_TO_8 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08
#define U32_7      0x07, 0x00, 0x00, 0x00
#define U32_256    0x00, 0x01, 0x00, 0x00
#define U64_HIGH   0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80
#define U64_LOW    0x00, 0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00
#define U64_USER   0xf0, 0xde, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12
#define U64_ZERO   0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00
#define REGION     U64_LOW, U64_HIGH, U64_USER, U64_1_TO_8

static void check_u64(const union vql_payload *p)
{
        assert_true(p->u64 == 0x0807060504030201);
}

static void check_mac(const union vql_payload *p)
{
        assert_memory_equal(p->mac, "\x01\x02\x03\x04\x05\x06", 6);
}

static void check_device_state(const union vql_payload *p)
{
        assert_int_equal(p->device_state.direction, 7);
        assert_int_equal(p->device_state.phase, 256);
}

static void check_state(const union vql_payload *p)
{
        assert_int_equal(p->state.index, 7);
        assert_int_equal(p->state.num, 256);
}

static void check_addr(const union vql_payload *p)
{
        assert_int_equal(p->addr.index, 7);
        assert_int_equal(p->addr.flags, 256);
        assert_true(p->addr.desc_uva == 0x1000);
        assert_true(p->addr.used_uva == 0x8000000000000000);
        assert_true(p->addr.avail_uva == 0x123456789abcdef0);
        assert_true(p->addr.log_gpa == 0x0807060504030201);
}

static void check_region(const struct vql_region_desc *d)
{
        assert_true(d->gpa == 0x1000);
        assert_true(d->size == 0x8000000000000000);
        assert_true(d->uva == 0x123456789abcdef0);
        assert_true(d->mmap_offset == 0x0807060504030201);
}

static void check_slot(const union vql_payload *p)
{
        check_region(&p->region);
}

static void check_table(const union vql_payload *p)
{
        assert_int_equal(p->table.n, 2);
        check_region(&p->table.region[0]);
        check_region(&p->table.region[1]);
}

static void check_log(const union vql_payload *p)
{
        assert_true(p->log.size == 0x1000);
        assert_true(p->log.offset == 0x123456789abcdef0);
}

static void check_inflight(const union vql_payload *p)
{
        assert_true(p->inflight.mmap_size == 0x1000);
        assert_true(p->inflight.mmap_offset == 0x8000000000000000);
        assert_int_equal(p->inflight.num_queues, 7);
        assert_int_equal(p->inflight.queue_size, 256);
}

static void check_vring_fd(const union vql_payload *p)
{
        assert_int_equal(p->vring_fd.index, 0xfe);
        assert_false(p->vring_fd.no_fd);
}

static void check_vring_no_fd(const union vql_payload *p)
{
        assert_int_equal(p->vring_fd.index, 3);
        assert_true(p->vring_fd.no_fd);
}

struct vector {
        uint32_t request;
        uint32_t size;
        void (*check)(const union vql_payload *p); /* NULL: no payload */
        uint8_t bytes[80];
        uint32_t also_size; /* another size that is right, or 0 */
};

static const struct vector vectors[] = {
        { VQL_REQ_GET_FEATURES, 0, NULL, { 0 }, 0 },
        { VQL_REQ_SET_FEATURES, 8, check_u64, { U64_1_TO_8 }, 0 },
        { VQL_REQ_SET_OWNER, 0, NULL, { 0 }, 0 },
        { VQL_REQ_RESET_OWNER, 0, NULL, { 0 }, 0 },
        { VQL_REQ_SET_MEM_TABLE, 72, check_table, { 2, 0, 0, 0, U32_7, REGION, REGION }, 0 },
        { VQL_REQ_SET_LOG_BASE, 16, check_log, { U64_LOW, U64_USER }, 0 },
        { VQL_REQ_SET_LOG_FD, 0, NULL, { 0 }, 0 },
        { VQL_REQ_SET_VRING_NUM, 8, check_state, { U32_7, U32_256 }, 0 },
        { VQL_REQ_SET_VRING_ADDR,
          40,
          check_addr,
          { U32_7, U32_256, U64_LOW, U64_HIGH, U64_USER, U64_1_TO_8 },
          0 },
        { VQL_REQ_SET_VRING_BASE, 8, check_state, { U32_7, U32_256 }, 0 },
        { VQL_REQ_GET_VRING_BASE, 8, check_state, { U32_7, U32_256 }, 0 },
        { VQL_REQ_SET_VRING_KICK, 8, check_vring_fd, { 0xfe }, 0 },
        { VQL_REQ_SET_VRING_CALL, 8, check_vring_no_fd, { 3, 1 }, 0 },
        { VQL_REQ_SET_VRING_ERR, 8, check_vring_no_fd, { 3, 1 }, 0 },
        { VQL_REQ_GET_PROTOCOL_FEATURES, 0, NULL, { 0 }, 0 },
        { VQL_REQ_SET_PROTOCOL_FEATURES, 8, check_u64, { U64_1_TO_8 }, 0 },
        { VQL_REQ_GET_QUEUE_NUM, 0, NULL, { 0 }, 0 },
        { VQL_REQ_SET_VRING_ENABLE, 8, check_state, { U32_7, U32_256 }, 0 },
        { VQL_REQ_SEND_RARP, 8, check_mac, { U64_1_TO_8 }, 0 },
        { VQL_REQ_NET_SET_MTU, 8, check_u64, { U64_1_TO_8 }, 0 },
        { VQL_REQ_SET_BACKEND_REQ_FD, 0, NULL, { 0 }, 0 },
        { VQL_REQ_POSTCOPY_ADVISE, 0, NULL, { 0 }, 0 },
        { VQL_REQ_POSTCOPY_LISTEN, 0, NULL, { 0 }, 0 },
        { VQL_REQ_POSTCOPY_END, 0, NULL, { 0 }, 0 },
        { VQL_REQ_GET_INFLIGHT_FD,
          20,
          check_inflight,
          { U64_LOW, U64_HIGH, 7, 0, 0x00, 0x01, U32_7 },
          24 },
        { VQL_REQ_SET_INFLIGHT_FD,
          24,
          check_inflight,
          { U64_LOW, U64_HIGH, 7, 0, 0x00, 0x01, U32_7 },
          20 },
        { VQL_REQ_RESET_DEVICE, 0, NULL, { 0 }, 0 },
        { VQL_REQ_GET_MAX_MEM_SLOTS, 0, NULL, { 0 }, 0 },
        { VQL_REQ_ADD_MEM_REG, 40, check_slot, { U64_HIGH, REGION }, 0 },
        { VQL_REQ_REM_MEM_REG, 40, check_slot, { U64_ZERO, REGION }, 0 },
        { VQL_REQ_SET_STATUS, 8, check_u64, { U64_1_TO_8 }, 0 },
        { VQL_REQ_GET_STATUS, 0, NULL, { 0 }, 0 },
        { VQL_REQ_SET_DEVICE_STATE_FD, 8, check_device_state, { U32_7, U32_256 }, 0 },
        { VQL_REQ_CHECK_DEVICE_STATE, 0, NULL, { 0 }, 0 },
};

enum { N_VECTORS = sizeof(vectors) / sizeof(vectors[0]) };

static int decode(uint32_t request, const uint8_t *bytes, uint32_t size, union vql_payload *p)
{
        struct vql_error e;
        int err = vql_body_decode(vql_request_find(request)->body, bytes, size, p, &e);

        if (err < 0)
                assert_int_equal(err, -EBADMSG);
        return err;
}

static void every_message_decodes(void **state)
{
        (void)state;
        for (size_t i = 0; i < N_VECTORS; i++) {
                const struct vector *v = &vectors[i];
                union vql_payload p;

                memset(&p, 0xee, sizeof(p));
                assert_int_equal(decode(v->request, v->bytes, v->size, &p), 0);
                if (v->check)
                        v->check(&p);
        }
}

/* All sizes up to beyond the largest fixed form, and the largest that a header may announce. */
static void every_wrong_size_is_refused(void **state)
{
        (void)state;
        for (size_t i = 0; i < N_VECTORS; i++) {
                const struct vector *v = &vectors[i];
                uint8_t bytes[VQL_MSG_MAX_BODY] = { 0 };
                union vql_payload p;

                memcpy(bytes, v->bytes, sizeof(v->bytes));
                for (uint32_t size = 0; size <= VQL_MSG_MAX_BODY; size++) {
                        bool right = size == v->size || (v->also_size && size == v->also_size);

                        if ((decode(v->request, bytes, size, &p) == 0) != right)
                                fail_msg("%s: %u bytes", vql_request_name(v->request), size);
                        if (size == 300)
                                size = VQL_MSG_MAX_BODY - 1;
                }
        }
}

static void every_request_has_a_vector_or_is_never_carried_out(void **state)
{
        unsigned int rows = 0;

        (void)state;
        for (uint32_t id = 0; id < 1000; id++) {
                const struct vql_request *r = vql_request_find(id);
                bool vector = false;

                for (size_t i = 0; i < N_VECTORS; i++)
                        vector |= vectors[i].request == id;
                if (r && (r->handle != NULL) != vector)
                        fail_msg("%s", r->name);
                rows += r != NULL;
        }
        assert_int_equal(rows, 44);
        assert_null(vql_request_find(0));
        assert_null(vql_request_find(45));
        assert_null(vql_request_find(UINT32_MAX));
        assert_null(vql_request_name(0));
        assert_string_equal(vql_request_name(5), "SET_MEM_TABLE");
        assert_string_equal(vql_request_name(44), "GET_SHMEM_CONFIG");
}

/* A table's size goes with its number of regions; both bound each other (FAULTS B1). */
static void table_counts_are_checked(void **state)
{
        struct vql_wire_mem_table w;
        union vql_payload p;

        (void)state;
        memset(&w, 0x11, sizeof(w));
        for (uint32_t n = 0; n <= 9; n++) {
                for (uint32_t fit = 0; fit <= 8; fit++) {
                        bool right = n >= 1 && n <= 8 && n == fit;
                        uint32_t size = 8 + fit * 32;

                        w.n = n;
                        assert_int_equal(
                                decode(VQL_REQ_SET_MEM_TABLE, (const uint8_t *)&w, size, &p) == 0,
                                right);
                        if (right)
                                assert_int_equal(p.table.n, n);
                }
        }
        w.n = 0x80000001; /* 32 times this wraps to 32 */
        assert_int_equal(decode(VQL_REQ_SET_MEM_TABLE, (const uint8_t *)&w, 40, &p), -EBADMSG);
}

/* Any bit beyond index and flag would be lost if it were not refused (FAULTS A10). */
static void ring_fd_takes_nine_bits(void **state)
{
        (void)state;
        for (unsigned int bit = 0; bit < 64; bit++) {
                uint64_t v = UINT64_C(1) << bit;
                union vql_payload p;

                assert_int_equal(
                        decode(VQL_REQ_SET_VRING_KICK, (const uint8_t *)&v, sizeof(v), &p) == 0,
                        bit <= 8);
                if (bit <= 8) {
                        assert_int_equal(p.vring_fd.index, bit < 8 ? 1 << bit : 0);
                        assert_int_equal(p.vring_fd.no_fd, bit == 8);
                }
        }
}

/* What is never carried out is not looked at, whatever its size. */
static void other_devices_messages_pass(void **state)
{
        uint8_t bytes[VQL_MSG_MAX_BODY];
        union vql_payload p;

        (void)state;
        memset(bytes, 0xff, sizeof(bytes));
        for (uint32_t size = 0; size <= VQL_MSG_MAX_BODY; size += 512)
                assert_int_equal(decode(VQL_REQ_CREATE_CRYPTO_SESSION, bytes, size, &p), 0);
}

static int header(uint32_t request, uint32_t flags, uint32_t size, struct vql_msg_in *in)
{
        const struct vql_wire_header w = { request, flags, size };
        struct vql_error e = { "" };
        int err = vql_header_decode((const uint8_t *)&w, in, &e);

        assert_true(err == 0 || (err == -EPROTO && e.text[0]));
        return err;
}

static void header_bytes_are_taken_apart(void **state)
{
        static const uint8_t bytes[12] = { 12, 0, 0, 0, 9, 0, 0, 0, 0x00, 0x10, 0, 0 };
        struct vql_msg_in in;
        struct vql_error e;

        (void)state;
        assert_int_equal(vql_header_decode(bytes, &in, &e), 0);
        assert_int_equal(in.request, VQL_REQ_SET_VRING_KICK);
        assert_int_equal(in.flags, VQL_WIRE_VERSION | VQL_WIRE_NEED_REPLY);
        assert_int_equal(in.size, 4096);
}

static void header_is_checked(void **state)
{
        struct vql_msg_in in;

        (void)state;
        assert_int_equal(header(0, 1, 0, &in), 0); /* unknown requests are the session's matter */
        assert_int_equal(header(UINT32_MAX, 1, 0, &in), 0);
        assert_int_equal(header(1, 0xfffffff9, 0, &in), 0); /* flags that nobody has defined */
        for (uint32_t version = 0; version < 4; version++)
                assert_int_equal(header(1, version, 0, &in) == 0, version == 1);
        assert_int_equal(header(1, 5, 0, &in), -EPROTO);
        assert_int_equal(header(1, 0xd, 8, &in), -EPROTO);
        assert_int_equal(header(1, 1, 4096, &in), 0);
        assert_int_equal(header(1, 1, 4097, &in), -EPROTO);
        assert_int_equal(header(1, 9, UINT32_MAX, &in), -EPROTO);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_message_decodes),
                cmocka_unit_test(every_wrong_size_is_refused),
                cmocka_unit_test(every_request_has_a_vector_or_is_never_carried_out),
                cmocka_unit_test(table_counts_are_checked),
                cmocka_unit_test(ring_fd_takes_nine_bits),
                cmocka_unit_test(other_devices_messages_pass),
                cmocka_unit_test(header_bytes_are_taken_apart),
                cmocka_unit_test(header_is_checked),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
