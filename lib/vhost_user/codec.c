/* SPDX-License-Identifier: BSD-3-Clause */
#include "vhost_user/codec.h"

#include <errno.h>
#include <string.h>

int vql_header_decode(const uint8_t bytes[VQL_MSG_HEADER], struct vql_msg_in *in,
                      struct vql_error *e)
{
        struct vql_wire_header h;

        memcpy(&h, bytes, sizeof(h));
        if ((h.flags & VQL_WIRE_VERSION_MASK) != VQL_WIRE_VERSION)
                return vql_fail(e, EPROTO, "request %u: flags 0x%x, expected protocol version %d",
                                h.request, h.flags, VQL_WIRE_VERSION);
        if (h.flags & VQL_WIRE_REPLY)
                return vql_fail(e, EPROTO, "request %u: flags 0x%x say reply, expected a request",
                                h.request, h.flags);
        if (h.size > VQL_MSG_MAX_BODY)
                return vql_fail(e, EPROTO, "request %u: %u bytes announced, expected at most %d",
                                h.request, h.size, VQL_MSG_MAX_BODY);
        in->request = h.request;
        in->flags = h.flags;
        in->size = h.size;
        return 0;
}

static struct vql_region_desc region_of(const struct vql_wire_region *w)
{
        return (struct vql_region_desc){
                .gpa = w->gpa,
                .size = w->size,
                .uva = w->uva,
                .mmap_offset = w->mmap_offset,
        };
}

/* For the members of the payload that have the layout of the wire. */
static int decode_plain(const uint8_t *bytes, uint32_t size, union vql_payload *p,
                        struct vql_error *e)
{
        (void)e;
        memcpy(p, bytes, size);
        return 0;
}

static int decode_nothing(const uint8_t *bytes, uint32_t size, union vql_payload *p,
                          struct vql_error *e)
{
        (void)bytes;
        (void)size;
        (void)p;
        (void)e;
        return 0;
}

static int decode_vring_fd(const uint8_t *bytes, uint32_t size, union vql_payload *p,
                           struct vql_error *e)
{
        uint64_t v;

        memcpy(&v, bytes, size);
        if (v & ~(uint64_t)(VQL_WIRE_VRING_INDEX | VQL_WIRE_VRING_NO_FD))
                return vql_fail(e, EBADMSG,
                                "0x%llx, expected a ring index in bits 0 to 7 and bit 8",
                                (unsigned long long)v);
        p->vring_fd.index = v & VQL_WIRE_VRING_INDEX;
        p->vring_fd.no_fd = v & VQL_WIRE_VRING_NO_FD;
        return 0;
}

static int decode_mem_table(const uint8_t *bytes, uint32_t size, union vql_payload *p,
                            struct vql_error *e)
{
        struct vql_wire_mem_table w;

        memcpy(&w, bytes, size);
        if (w.n < 1 || w.n > VQL_WIRE_TABLE_REGIONS)
                return vql_fail(e, EBADMSG, "%u regions, expected 1 to %d", w.n,
                                VQL_WIRE_TABLE_REGIONS);
        if (size != 8 + w.n * sizeof(w.region[0]))
                return vql_fail(e, EBADMSG, "%u bytes for %u regions, expected %zu", size, w.n,
                                8 + w.n * sizeof(w.region[0]));
        p->table.n = w.n;
        for (uint32_t i = 0; i < w.n; i++)
                p->table.region[i] = region_of(&w.region[i]);
        return 0;
}

static int decode_mem_slot(const uint8_t *bytes, uint32_t size, union vql_payload *p,
                           struct vql_error *e)
{
        struct vql_wire_mem_slot w;

        (void)e;
        memcpy(&w, bytes, size);
        p->region = region_of(&w.region);
        return 0;
}

static int decode_inflight(const uint8_t *bytes, uint32_t size, union vql_payload *p,
                           struct vql_error *e)
{
        if (size != VQL_WIRE_INFLIGHT_MIN && size != sizeof(p->inflight))
                return vql_fail(e, EBADMSG, "%u bytes, expected %d or %zu", size,
                                VQL_WIRE_INFLIGHT_MIN, sizeof(p->inflight));
        p->inflight.padding = 0;
        memcpy(&p->inflight, bytes, size);
        return 0;
}

typedef int decoder(const uint8_t *bytes, uint32_t size, union vql_payload *p, struct vql_error *e);

static const struct {
        uint32_t min, max;
        decoder *decode; /* called with a size between min and max only */
} forms[VQL_BODY_COUNT] = {
        [VQL_BODY_NONE] = { 0, 0, decode_nothing },
        [VQL_BODY_U64] = { 8, 8, decode_plain },
        [VQL_BODY_MAC] = { 8, 8, decode_plain },
        [VQL_BODY_STATE] = { 8, 8, decode_plain },
        [VQL_BODY_ADDR] = { 40, 40, decode_plain },
        [VQL_BODY_VRING_FD] = { 8, 8, decode_vring_fd },
        [VQL_BODY_MEM_TABLE] = { 8 + 32, 8 + 8 * 32, decode_mem_table },
        [VQL_BODY_MEM_SLOT] = { 40, 40, decode_mem_slot },
        [VQL_BODY_LOG] = { 16, 16, decode_plain },
        [VQL_BODY_INFLIGHT] = { 20, 24, decode_inflight },
        [VQL_BODY_DEVICE_STATE] = { 8, 8, decode_plain },
        [VQL_BODY_ANY] = { 0, VQL_MSG_MAX_BODY, decode_nothing },
};

int vql_body_decode(enum vql_body form, const uint8_t *bytes, uint32_t size,
                    union vql_payload *ret_payload, struct vql_error *e)
{
        if (size < forms[form].min || size > forms[form].max) {
                if (forms[form].min == forms[form].max)
                        return vql_fail(e, EBADMSG, "%u bytes, expected %u", size, forms[form].min);
                return vql_fail(e, EBADMSG, "%u bytes, expected %u to %u", size, forms[form].min,
                                forms[form].max);
        }
        return forms[form].decode(bytes, size, ret_payload, e);
}
