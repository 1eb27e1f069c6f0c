/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqliftd/reload.h"

#include <inttypes.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <systemd/sd-daemon.h>

#include "common/keys.h"

static void put(void *arg, const char *line)
{
        vql_logger_print(arg, LOG_ERR, "%s", line);
}

int vql_config_load_logged(const char *path, const struct vql_logger *log,
                           struct vql_config *ret_config)
{
        struct vql_report report = { 0 };
        int r;

        r = vql_config_load(path, &report, ret_config);
        vql_report_print(&report, path, put, (void *)log);
        if (r < 0 && vql_report_clean(&report))
                vql_logger_print(log, LOG_ERR, "%s: %s", path, strerror(-r));
        vql_report_fini(&report);
        return r;
}

static void log_fixed_keys(const struct vql_config *config, const char *file, const json_t *running,
                           const struct vql_logger *log)
{
        const json_t *wanted = vql_config_daemon(config);
        char path[VQL_REPORT_PATH];
        const json_t *have, *want;

        for (const struct vql_key *key = vql_daemon_rule.keys; key->name; key++) {
                have = json_object_get(running, key->name);
                want = json_object_get(wanted, key->name);
                if ((!have && !want) || json_equal(have, want))
                        continue;
                vql_path_key(path, "daemon", key->name);
                vql_logger_print(log, LOG_WARNING, "%s:%u: %s: takes effect at the next start",
                                 file, vql_config_place(config, path).line, path);
        }
}

static void apply(const struct vql_config *config, struct vql_portset *ports,
                  const struct vql_logger *log)
{
        struct vql_portset_changes c;

        vql_portset_apply(ports, vql_config_ports(config), &c);
        vql_logger_print(log, c.failed ? LOG_ERR : LOG_NOTICE,
                         "reload: ports: %zu added, %zu deleted, %zu changed, %zu kept, %zu failed",
                         c.added, c.deleted, c.changed, c.kept, c.failed);
}

void vql_reload(const char *path, const json_t *running, struct vql_portset *ports,
                const struct vql_logger *log)
{
        struct vql_config config;
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
                   (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000);
        if (vql_config_load_logged(path, log, &config) < 0) {
                vql_logger_print(log, LOG_ERR, "reload: %s is refused, nothing is changed", path);
        } else {
                log_fixed_keys(&config, path, running, log);
                apply(&config, ports, log);
                vql_config_fini(&config);
        }
        sd_notify(0, "READY=1");
}
