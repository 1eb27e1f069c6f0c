/* SPDX-License-Identifier: BSD-3-Clause */
/* A configuration file is accepted or refused with reasons, and one that is accepted becomes
 * parameters that keep to the bounds of the library. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/keys.h"
#include "vqliftd/config.h"
#include "vqliftd/daemon_params.h"
#include "vqliftd/port_params.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool right)
{
        if (!right)
                abort();
}

static void look_at_line(void *arg, const char *line)
{
        size_t *lines = arg;

        require(strlen(line) > strlen("F: "));
        ++*lines;
}

static void look_at_report(const struct vql_report *report)
{
        size_t lines = 0;

        vql_report_print(report, "F", look_at_line, &lines);
        require(lines >= report->n);
}

static void look_at_port(const json_t *port)
{
        struct vql_port_request request;
        const struct vql_port_params *p = &request.params;

        vql_port_params_from(port, &request);
        require(p->name && *p->name && strlen(p->name) < VQL_NAME_BYTES);
        require(p->socket && *p->socket == '/' && strlen(p->socket) < VQL_PATH_BYTES);
        require(p->uplink && *p->uplink && strlen(p->uplink) < VQL_TEXT_BYTES);
        require(p->queue_pairs >= 1 && p->queue_pairs <= 128 && p->uplink_queues <= 128);
        require(p->socket_mode <= 0777 && p->mtu <= 65535 && p->worker >= -1);
}

static void look_at_daemon(const json_t *daemon)
{
        struct vql_daemon_params p;
        char why[256] = "";

        if (vql_daemon_params_init(&p, daemon, why, sizeof(why)) == 0) {
                require(p.params.n_worker_cpus <= VQL_DAEMON_MAX_WORKERS);
                require(p.params.memory_mb >= 64);
        }
        vql_daemon_params_fini(&p);
}

/* JSON is YAML: what was accepted is so again, and means the same. */
static void look_again(const struct vql_config *config)
{
        char *text = json_dumps(config->yaml.tree, JSON_ENSURE_ASCII);
        struct vql_report report = { 0 };
        struct vql_config again;

        require(text);
        /* libyaml does not take surrogate pairs. */
        if (!strstr(text, "\\uD")) {
                require(vql_config_parse(text, strlen(text), &report, &again) == 0);
                require(json_equal(again.yaml.tree, config->yaml.tree));
                vql_config_fini(&again);
        }
        vql_report_fini(&report);
        free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct vql_report report = { 0 };
        struct vql_config config;
        json_t *port;
        size_t i;
        int r;

        r = vql_config_parse((const char *)data, size, &report, &config);
        require(r == 0 ? vql_report_clean(&report) : !vql_report_clean(&report));
        look_at_report(&report);
        vql_report_fini(&report);
        if (r < 0)
                return 0;
        look_at_daemon(vql_config_daemon(&config));
        json_array_foreach(vql_config_ports(&config), i, port) look_at_port(port);
        look_again(&config);
        vql_config_fini(&config);
        return 0;
}
