/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/sim/sim_impl.h"
#include "virtqueue/features.h"

enum { DEFAULT_SIZE = 1024, DEFAULT_MTU = 1500, MIN_MTU = 68, MAX_MTU = 65535 };

struct knob {
        const char *name;
        int32_t least, most;
};

#define KNOB(name, least, most, what) { #name, least, most },
static const struct knob knobs[] = { VQL_SIM_KNOBS(KNOB) };
#undef KNOB

/* Abilities that can be taken away by name. */
static const struct {
        const char *name;
        uint32_t flag;
} flags[] = {
        { "seek", VQL_DEV_SEEK },
        { "tell", VQL_DEV_TELL },
        { "in_order", VQL_DEV_IN_ORDER },
        { "live", VQL_DEV_LIVE },
        { "late", VQL_DEV_LATE },
        { "log", VQL_DEV_LOG },
        { "packed", VQL_DEV_PACKED },
        { "orderly", VQL_DEV_ORDERLY },
        { "ctrl", VQL_DEV_CTRL },
        { "irq_anyfd", VQL_DEV_IRQ_ANYFD },
        { "hold_keeps", VQL_DEV_HOLD_KEEPS },
};

static int parse_number(const char *key, const char *value, const struct knob *range,
                        int32_t *ret_value, struct vql_error *e)
{
        char *end;
        long n;

        errno = 0;
        n = strtol(value, &end, 10);
        if (end == value || *end || errno || n < range->least || n > range->most)
                return vql_fail(e, EINVAL, "%s=%s, expected %" PRId32 " to %" PRId32, key, value,
                                range->least, range->most);
        *ret_value = (int32_t)n;
        return 0;
}

static int parse_u16(const char *key, const char *value, const struct knob *range,
                     uint16_t *ret_value, struct vql_error *e)
{
        int32_t n = 0;
        int err = parse_number(key, value, range, &n, e);

        if (!err)
                *ret_value = (uint16_t)n;
        return err;
}

static int parse_size(const char *value, struct sim_args *a, struct vql_error *e)
{
        const struct knob range = { "size", 1, 32768 };
        uint16_t size = 0;
        int err = parse_u16("size", value, &range, &size, e);

        if (err < 0)
                return err;
        if (size & (size - 1))
                return vql_fail(e, EINVAL, "size=%u, expected a power of two", size);
        a->size = size;
        return 0;
}

static int parse_mac(const char *value, struct sim_args *a, struct vql_error *e)
{
        uint8_t m[SIM_MAC_BYTES];
        int end = 0;

        if (sscanf(value, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx%n", &m[0], &m[1], &m[2], &m[3],
                   &m[4], &m[5], &end) != SIM_MAC_BYTES ||
            value[end] || (m[0] & 1))
                return vql_fail(e, EINVAL, "mac=%s, expected the address of one station", value);
        memcpy(a->mac, m, sizeof(m));
        return 0;
}

/* An ability of the device, or a feature by its name in the specification. */
static int take_away(const char *name, struct sim_args *a, struct vql_error *e)
{
        int bit;

        for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
                if (strcmp(flags[i].name, name) == 0) {
                        a->without_flags |= flags[i].flag;
                        return 0;
                }
        }
        bit = vql_feature_bit(name);
        if (bit < 0)
                return vql_fail(e, EINVAL, "without=%s, expected an ability or a feature", name);
        a->without_features |= vql_bit((unsigned int)bit);
        return 0;
}

static int parse_without(char *list, struct sim_args *a, struct vql_error *e)
{
        char *rest = NULL;
        int err = 0;

        for (char *name = strtok_r(list, "+", &rest); name && !err;
             name = strtok_r(NULL, "+", &rest))
                err = take_away(name, a, e);
        return err;
}

static int parse_wire(const char *value, struct sim_args *a, struct vql_error *e)
{
        int n = snprintf(a->wire, sizeof(a->wire), "%s", value);

        if (n < 0 || (size_t)n >= sizeof(a->wire))
                return vql_fail(e, EINVAL, "wire of %zu bytes, expected fewer than %zu",
                                strlen(value), sizeof(a->wire));
        return 0;
}

static int parse_knob(const char *key, const char *value, struct sim_args *a, struct vql_error *e)
{
        for (size_t i = 0; i < VQL_SIM_KNOB_COUNT; i++)
                if (strcmp(knobs[i].name, key) == 0)
                        return parse_number(key, value, &knobs[i], &a->knob[i], e);
        return vql_fail(e, EINVAL, "argument %s is unknown; drivers/sim/README.md lists them", key);
}

static int parse_pair(const char *key, char *value, struct sim_args *a, struct vql_error *e)
{
        static const struct knob pairs = { "pairs", 1, SIM_MAX_PAIRS };
        static const struct knob mtu = { "mtu", MIN_MTU, MAX_MTU };

        if (strcmp(key, "pairs") == 0)
                return parse_u16(key, value, &pairs, &a->pairs, e);
        if (strcmp(key, "mtu") == 0)
                return parse_u16(key, value, &mtu, &a->mtu, e);
        if (strcmp(key, "size") == 0)
                return parse_size(value, a, e);
        if (strcmp(key, "mac") == 0)
                return parse_mac(value, a, e);
        if (strcmp(key, "wire") == 0)
                return parse_wire(value, a, e);
        if (strcmp(key, "without") == 0)
                return parse_without(value, a, e);
        return parse_knob(key, value, a, e);
}

/* An address of its own for each device, always the same: locally administered. */
static void choose_mac(const char *address, uint8_t ret_mac[SIM_MAC_BYTES])
{
        uint32_t hash = 2166136261u;

        for (const char *p = address; *p; p++)
                hash = (hash ^ (uint8_t)*p) * 16777619u;
        ret_mac[0] = 0x02;
        ret_mac[1] = 0x76;
        for (int i = 2; i < SIM_MAC_BYTES; i++)
                ret_mac[i] = (uint8_t)(hash >> 8 * (i - 2));
}

int vql_sim_args_parse(const char *address, const char *text, struct sim_args *ret_args,
                       struct vql_error *e)
{
        struct sim_args a = { .pairs = 1, .size = DEFAULT_SIZE, .mtu = DEFAULT_MTU };
        char *copy = strdup(text ? text : ""), *rest = NULL;
        int err = 0;

        if (!copy)
                return vql_fail(e, ENOMEM, "out of memory for arguments");
        choose_mac(address, a.mac);
        parse_wire("loopback", &a, NULL);
        for (char *key = strtok_r(copy, ",", &rest); key && !err;
             key = strtok_r(NULL, ",", &rest)) {
                char *value = strchr(key, '=');

                if (!value) {
                        err = vql_fail(e, EINVAL, "argument \"%s\", expected key=value", key);
                        break;
                }
                *value++ = '\0';
                err = parse_pair(key, value, &a, e);
        }
        free(copy);
        if (!err)
                *ret_args = a;
        return err;
}
