/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TOOLS_FIELDS_H
#define VQLIFT_TOOLS_FIELDS_H

/* The library's structs as JSON, by tables that the manual is made from too. */

#include <stddef.h>

#include <jansson.h>

enum vql_field_type {
        VQL_FIELD_TEXT,     /* char[] */
        VQL_FIELD_BOOLEAN,  /* bool */
        VQL_FIELD_INT,      /* int; negative: null */
        VQL_FIELD_INT64,    /* int64_t; negative: null */
        VQL_FIELD_UINT,     /* unsigned int or uint32_t */
        VQL_FIELD_UINT64,   /* uint64_t */
        VQL_FIELD_KNOWN,    /* unsigned int or uint32_t; 0: null */
        VQL_FIELD_FEATURES, /* uint64_t of virtio feature bits: list of names */
        VQL_FIELD_MASK,     /* uint64_t: list of bit numbers */
        VQL_FIELD_MAC,      /* uint8_t[6] */
        /* uint64_t: an object of names, each with its bit number */
        VQL_FIELD_FEATURE_BITS,
        VQL_FIELD_PROTOCOL_BITS,
};

struct vql_field {
        const char *key;
        enum vql_field_type type;
        size_t offset;
        const char *help;
};

#define VQL_FIELD(owner, key, type, member, help)                           \
        {                                                                   \
                key, VQL_FIELD_##type, offsetof(struct owner, member), help \
        }

/* A new object with every field of `from`; the table ends with a row without a key.  NULL: no
 * memory. */
json_t *vql_fields_pack(const struct vql_field *fields, const void *from);

/* How the manual names the type. */
const char *vql_field_type_name(enum vql_field_type type);

#endif
