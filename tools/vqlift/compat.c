/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift/compat.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/schema.h"

enum { DOCUMENT_VERSION = 1, BITS = 64, MESSAGE = 160, PAGEFAULT = 8, DEVICE_STATE = 19 };

static const char *const bit_keys[] = { "features", "protocol-features" };
/* What the other one must have as much of. */
static const char *const limit_keys[] = { "queue-pairs", "ring-size-split", "ring-size-packed",
                                          "memory-slots", "state-version" };

/* ---- documents ---- */

static void refuse(struct vql_report *report, const char *key, const json_t *value,
                   const char *expected)
{
        if (value)
                vql_schema_refuse(report, key, value, expected);
        else
                vql_report_add(report, key, expected, "is missing, expected %s", expected);
}

static void validate_bits(const json_t *document, const char *key, struct vql_report *report)
{
        json_t *bits = json_object_get(document, key), *bit;
        char path[VQL_REPORT_PATH];
        const char *name;

        if (!json_is_object(bits))
                refuse(report, key, bits, "an object of names with bit numbers");
        json_object_foreach(bits, name, bit)
        {
                const json_int_t n = json_integer_value(bit);

                vql_path_key(path, key, name);
                if (!json_is_integer(bit) || n < 0 || n >= BITS)
                        refuse(report, path, bit, "a bit number, 0 to 63");
        }
}

static void validate_limit(const json_t *document, const char *key, bool required,
                           struct vql_report *report)
{
        const json_t *limit = json_object_get(document, key);
        const json_int_t n = json_integer_value(limit);

        if (!required && json_is_null(limit))
                return;
        if (!json_is_integer(limit) || n < 1 || n > UINT32_MAX)
                refuse(report, key, limit, required ? "a number" : "a number or null");
}

void vql_compat_validate(const json_t *document, struct vql_report *report)
{
        const json_t *format = json_object_get(document, "format");
        const json_t *version = json_object_get(document, "version");

        if (!json_is_string(format) || strcmp(json_string_value(format), "vqlift-compat") != 0) {
                refuse(report, "format", format, "\"vqlift-compat\", as compat dump writes it");
                return;
        }
        if (!json_is_integer(version) || json_integer_value(version) != DOCUMENT_VERSION) {
                refuse(report, "version", version, "1");
                return;
        }
        for (size_t i = 0; i < sizeof(bit_keys) / sizeof(*bit_keys); i++)
                validate_bits(document, bit_keys[i], report);
        for (size_t i = 0; i < sizeof(limit_keys) / sizeof(*limit_keys); i++)
                validate_limit(document, limit_keys[i], true, report);
        validate_limit(document, "mtu", false, report);
}

/* ---- comparison ---- */

static int __attribute__((format(printf, 3, 4)))
add_reason(json_t *reasons, json_t *reason, const char *fmt, ...)
{
        char message[MESSAGE];
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(message, sizeof(message), fmt, ap);
        va_end(ap);
        json_object_set_new(reason, "message", json_string(message));
        return json_array_append_new(reasons, reason);
}

static bool has_bit(const json_t *bits, json_int_t wanted)
{
        json_t *bit;
        const char *name;

        json_object_foreach((json_t *)(uintptr_t)bits, name, bit)
        {
                if (json_integer_value(bit) == wanted)
                        return true;
        }
        return false;
}

/* Some serve the move itself, if both sides have them; no guest relies on them. */
static bool matters(const char *key, json_int_t bit)
{
        return (bit != PAGEFAULT && bit != DEVICE_STATE) || strcmp(key, "protocol-features") != 0;
}

/* The words are those of the daemon that refuses SET_FEATURES (lib/vhost_user). */
static int check_bits(const json_t *from, const json_t *to, const char *key, json_t *reasons)
{
        json_t *bit;
        const char *name;
        int r = 0;

        json_object_foreach(json_object_get(from, key), name, bit)
        {
                const json_int_t n = json_integer_value(bit);

                if (r == 0 && matters(key, n) && !has_bit(json_object_get(to, key), n))
                        r = add_reason(
                                reasons,
                                json_pack("{s:s, s:I, s:s}", "key", key, "bit", n, "name", name),
                                "bit %d (%.60s) is not offered", (int)n, name);
        }
        return r;
}

static int check_limit(const json_t *from, const json_t *to, const char *key, json_t *reasons)
{
        const json_int_t wanted = json_integer_value(json_object_get(from, key));
        const json_int_t most = json_integer_value(json_object_get(to, key));

        if (wanted <= most)
                return 0;
        return add_reason(reasons, json_pack("{s:s}", "key", key), "%lld, expected at most %lld",
                          (long long)wanted, (long long)most);
}

/* A document without a port knows no MTU: it depends on the port. */
static int check_mtu(const json_t *from, const json_t *to, json_t *reasons)
{
        const json_t *wanted = json_object_get(from, "mtu"), *most = json_object_get(to, "mtu");
        const char *device = json_string_value(json_object_get(to, "uplink-device"));

        if (json_is_null(wanted) || json_is_null(most) ||
            json_integer_value(wanted) <= json_integer_value(most))
                return 0;
        return add_reason(reasons, json_pack("{s:s}", "key", "mtu"),
                          "MTU %lld: uplink %.63s carries %lld",
                          (long long)json_integer_value(wanted), device ? device : "",
                          (long long)json_integer_value(most));
}

json_t *vql_compat_check(const json_t *from, const json_t *to)
{
        json_t *reasons = json_array();
        int r = reasons ? 0 : -1;

        for (size_t i = 0; r == 0 && i < sizeof(bit_keys) / sizeof(*bit_keys); i++)
                r = check_bits(from, to, bit_keys[i], reasons);
        for (size_t i = 0; r == 0 && i < sizeof(limit_keys) / sizeof(*limit_keys); i++)
                r = check_limit(from, to, limit_keys[i], reasons);
        if (r == 0)
                r = check_mtu(from, to, reasons);
        if (r == 0)
                return reasons;
        json_decref(reasons);
        return NULL;
}
