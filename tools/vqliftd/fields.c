/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqliftd/fields.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <vqlift/vqlift.h>

#include "common/json_value.h"

enum { MASK_BITS = 64 };

static json_t *pack_bit(enum vql_field_type type, unsigned int bit)
{
        const char *name = type == VQL_FIELD_FEATURES ? vql_feature_to_name(bit) : NULL;

        return name ? json_string(name) : json_integer(bit);
}

/* Bits without a name keep their number. */
static json_t *pack_mask(enum vql_field_type type, uint64_t mask)
{
        json_t *list = json_array();

        for (unsigned int bit = 0; bit < MASK_BITS; bit++) {
                if (!((mask >> bit) & 1))
                        continue;
                if (json_array_append_new(list, pack_bit(type, bit)) < 0) {
                        json_decref(list);
                        return NULL;
                }
        }
        return list;
}

/* Every bit by a name, so that another host's program can tell what it does not know. */
static json_t *pack_named_bits(const char *(*name_of)(unsigned int bit), uint64_t mask)
{
        json_t *object = json_object();
        char number[16];

        for (unsigned int bit = 0; bit < MASK_BITS; bit++) {
                const char *name = name_of(bit);

                if (!((mask >> bit) & 1))
                        continue;
                snprintf(number, sizeof(number), "bit-%u", bit);
                if (json_object_set_new(object, name ? name : number, json_integer(bit)) < 0) {
                        json_decref(object);
                        return NULL;
                }
        }
        return object;
}

static json_t *pack_mac(const uint8_t mac[6])
{
        return json_sprintf("%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4],
                            mac[5]);
}

static json_t *pack_signed(int64_t n)
{
        return n < 0 ? json_null() : json_integer(n);
}

static json_t *pack_field(enum vql_field_type type, const void *at)
{
        switch (type) {
        case VQL_FIELD_TEXT:
                return vql_json_text(at);
        case VQL_FIELD_BOOLEAN:
                return json_boolean(*(const bool *)at);
        case VQL_FIELD_INT:
                return pack_signed(*(const int *)at);
        case VQL_FIELD_INT64:
                return pack_signed(*(const int64_t *)at);
        case VQL_FIELD_UINT:
                return vql_json_counter(*(const unsigned int *)at);
        case VQL_FIELD_UINT64:
                return vql_json_counter(*(const uint64_t *)at);
        case VQL_FIELD_KNOWN:
                return *(const unsigned int *)at ? vql_json_counter(*(const unsigned int *)at)
                                                 : json_null();
        case VQL_FIELD_FEATURES:
        case VQL_FIELD_MASK:
                return pack_mask(type, *(const uint64_t *)at);
        case VQL_FIELD_MAC:
                return pack_mac(at);
        case VQL_FIELD_FEATURE_BITS:
                return pack_named_bits(vql_feature_to_name, *(const uint64_t *)at);
        case VQL_FIELD_PROTOCOL_BITS:
                return pack_named_bits(vql_protocol_feature_to_name, *(const uint64_t *)at);
        }
        return NULL;
}

json_t *vql_fields_pack(const struct vql_field *fields, const void *from)
{
        json_t *object = json_object();

        for (; fields->key; fields++) {
                json_t *value = pack_field(fields->type, (const char *)from + fields->offset);

                if (json_object_set_new(object, fields->key, value) < 0) {
                        json_decref(object);
                        return NULL;
                }
        }
        return object;
}

const char *vql_field_type_name(enum vql_field_type type)
{
        static const char *const names[] = {
                [VQL_FIELD_TEXT] = "string",
                [VQL_FIELD_BOOLEAN] = "boolean",
                [VQL_FIELD_INT] = "integer or null",
                [VQL_FIELD_INT64] = "integer or null",
                [VQL_FIELD_UINT] = "integer",
                [VQL_FIELD_UINT64] = "integer",
                [VQL_FIELD_KNOWN] = "integer or null",
                [VQL_FIELD_FEATURES] = "list of names",
                [VQL_FIELD_MASK] = "list of bit numbers",
                [VQL_FIELD_MAC] = "string",
                [VQL_FIELD_FEATURE_BITS] = "object of names with bit numbers",
                [VQL_FIELD_PROTOCOL_BITS] = "object of names with bit numbers",
        };

        return names[type];
}
