/* SPDX-License-Identifier: BSD-3-Clause */
#include "drivers/virtio_pci/args.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct number {
        const char *key;
        size_t offset; /* in struct vql_vpci_args */
        uint32_t min, max;
};

#define NUMBER(key, field, min, max)                                 \
        {                                                            \
                key, offsetof(struct vql_vpci_args, field), min, max \
        }

static const struct number numbers[] = {
        NUMBER("allow-no-access-platform", allow_no_access_platform, 0, 1),
        NUMBER("in-order", in_order, 0, 1),
        NUMBER("reset-timeout-ms", reset_timeout_ms, 1, VPCI_RESET_MS_MAX),
        NUMBER("ctrl-timeout-ms", ctrl_timeout_ms, 1, VPCI_CTRL_MS),
};

/* One "key=value" or "key", which is short for key=1. */
struct word {
        const char *key, *value;
        size_t key_bytes, value_bytes;
};

static bool is_key(const struct word *w, const char *key)
{
        return strlen(key) == w->key_bytes && memcmp(key, w->key, w->key_bytes) == 0;
}

static struct word split_word(const char *text, size_t n)
{
        const char *equals = memchr(text, '=', n);
        struct word w = { text, "1", n, 1 };

        if (equals) {
                w.key_bytes = (size_t)(equals - text);
                w.value = equals + 1;
                w.value_bytes = n - w.key_bytes - 1;
        }
        return w;
}

static int parse_number(const struct word *w, const struct number *n, void *args,
                        struct vql_error *e)
{
        char *end;
        unsigned long value = strtoul(w->value, &end, 10);

        if (!isdigit((unsigned char)*w->value) || end != w->value + w->value_bytes ||
            value < n->min || value > n->max)
                return vql_fail(e, EINVAL, "device argument %s is \"%.*s\", expected %u to %u",
                                n->key, (int)w->value_bytes, w->value, n->min, n->max);
        *(uint32_t *)((char *)args + n->offset) = (uint32_t)value;
        return 0;
}

static int parse_token(const struct word *w, struct vql_vpci_args *args, struct vql_error *e)
{
        if (w->value_bytes != VPCI_TOKEN_BYTES - 1)
                return vql_fail(e, EINVAL, "device argument vf-token is \"%.*s\", expected a UUID",
                                (int)w->value_bytes, w->value);
        memcpy(args->vf_token, w->value, w->value_bytes);
        return 0;
}

static int parse_word(const struct word *w, struct vql_vpci_args *args, struct vql_error *e)
{
        if (is_key(w, "vf-token"))
                return parse_token(w, args, e);
        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
                if (is_key(w, numbers[i].key))
                        return parse_number(w, &numbers[i], args, e);
        }
        return vql_fail(e, EINVAL,
                        "device argument \"%.*s\" is unknown, expected "
                        "allow-no-access-platform, in-order, reset-timeout-ms, ctrl-timeout-ms or "
                        "vf-token",
                        (int)w->key_bytes, w->key);
}

int vql_vpci_args_parse(const char *text, struct vql_vpci_args *ret_args, struct vql_error *e)
{
        struct vql_vpci_args args = {
                .in_order = 1,
                .reset_timeout_ms = VPCI_RESET_MS_MAX,
                .ctrl_timeout_ms = VPCI_CTRL_MS,
        };

        while (text && *text) {
                size_t n = strcspn(text, ",");
                struct word w = split_word(text, n);
                int ret = parse_word(&w, &args, e);

                if (ret)
                        return ret;
                text += n;
                if (*text == ',')
                        text++;
        }
        *ret_args = args;
        return 0;
}
