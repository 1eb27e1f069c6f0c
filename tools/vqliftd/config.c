/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqliftd/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/keys.h"
#include "vqliftd/daemon_params.h"
#include "vqliftd/port_params.h"

enum { FILE_MAX_BYTES = 1 << 20 };

/* Note values of `key` that an earlier port has; `seen` maps a value to the path of its owner. */
static int check_unique(const json_t *port, const char *path, const char *key, json_t *seen,
                        struct vql_report *report)
{
        const char *value = json_string_value(json_object_get(port, key)), *owner;
        char member[VQL_REPORT_PATH], expected[VQL_REPORT_PATH + 64];

        if (!value)
                return 0;
        vql_path_key(member, path, key);
        owner = json_string_value(json_object_get(seen, value));
        if (!owner)
                return json_object_set_new(seen, value, json_string(member)) < 0 ? -ENOMEM : 0;
        snprintf(expected, sizeof(expected), "a value other than that of %s", owner);
        vql_schema_refuse(report, member, json_object_get(port, key), expected);
        return 0;
}

/* `names` and `sockets` are what is taken already. */
static int check_ports(const json_t *tree, json_t *names, json_t *sockets,
                       struct vql_report *report)
{
        unsigned int n_workers = vql_daemon_params_workers(json_object_get(tree, "daemon"));
        char path[VQL_REPORT_PATH];
        json_t *port;
        size_t i;
        int r;

        json_array_foreach(json_object_get(tree, "ports"), i, port)
        {
                vql_path_index(path, "ports", i);
                vql_port_params_check(port, path, n_workers, report);
                r = check_unique(port, path, "name", names, report);
                if (r == 0)
                        r = check_unique(port, path, "socket", sockets, report);
                if (r < 0)
                        return r;
        }
        return 0;
}

static void check_cpus(const json_t *workers, struct vql_report *report)
{
        char path[VQL_REPORT_PATH];
        json_t *cpu;
        size_t i;

        json_array_foreach(workers, i, cpu)
        {
                size_t first = 0;

                while (!json_equal(json_array_get(workers, first), cpu))
                        first++;
                vql_path_index(path, "daemon.workers", i);
                if (first < i)
                        vql_schema_refuse(report, path, cpu, "each CPU once");
        }
}

/* A device under pci belongs to one process, from its start on. */
static void check_standby(const json_t *daemon, struct vql_report *report)
{
        const json_t *standby = json_object_get(daemon, "standby");
        const char *word = json_string_value(standby);

        if (word && strcmp(word, "yes") == 0 && json_array_size(json_object_get(daemon, "pci")) > 0)
                vql_schema_refuse(report, "daemon.standby", standby,
                                  "no where pci names devices: two daemons cannot both have them");
}

/* What concerns more than one value. */
static int check_across(const json_t *tree, struct vql_report *report)
{
        const json_t *daemon = json_object_get(tree, "daemon");
        json_t *names = json_object(), *sockets = json_object();
        int r = names && sockets ? 0 : -ENOMEM;

        check_cpus(json_object_get(daemon, "workers"), report);
        check_standby(daemon, report);
        if (r == 0)
                r = check_unique(daemon, "daemon", "control", sockets, report);
        if (r == 0)
                r = check_ports(tree, names, sockets, report);
        json_decref(names);
        json_decref(sockets);
        return r;
}

static struct vql_place find_place(const void *arg, const char *path)
{
        return vql_yaml_find(arg, path);
}

static int check(struct vql_yaml *yaml, struct vql_report *report)
{
        int r;

        vql_schema_check(&vql_config_rule, yaml->tree, "", report);
        r = vql_schema_fill(&vql_config_rule, yaml->tree);
        if (r == 0)
                r = check_across(yaml->tree, report);
        if (r < 0)
                return r;
        vql_report_locate(report, find_place, yaml);
        return vql_report_clean(report) ? 0 : -EINVAL;
}

int vql_config_parse(const char *text, size_t n, struct vql_report *report,
                     struct vql_config *ret_config)
{
        struct vql_yaml yaml;
        int r;

        r = vql_yaml_parse(text, n, report, &yaml);
        if (r < 0)
                return r;
        r = check(&yaml, report);
        if (r < 0)
                vql_yaml_fini(&yaml);
        else
                ret_config->yaml = yaml;
        return r;
}

/* Read until the end or until `buffer` is full: the number of bytes, or -errno. */
static ssize_t read_all(const char *path, char *buffer, size_t size)
{
        size_t used = 0;
        ssize_t n;
        int fd;

        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        do {
                n = read(fd, buffer + used, size - used);
                if (n > 0)
                        used += (size_t)n;
        } while ((n > 0 && used < size) || (n < 0 && errno == EINTR));
        n = n < 0 ? -errno : (ssize_t)used;
        close(fd);
        return n;
}

int vql_config_load(const char *path, struct vql_report *report, struct vql_config *ret_config)
{
        char *text = malloc(FILE_MAX_BYTES + 1);
        ssize_t n;
        int r = -EINVAL;

        if (!text)
                return -ENOMEM;
        n = read_all(path, text, FILE_MAX_BYTES + 1);
        if (n < 0)
                vql_report_add(report, "", "a file that can be read", "cannot be read: %s",
                               strerror((int)-n));
        else if (n > FILE_MAX_BYTES)
                vql_report_add(report, "", "at most 1 MiB", "longer than expected, at most 1 MiB");
        else
                r = vql_config_parse(text, (size_t)n, report, ret_config);
        free(text);
        return r;
}

void vql_config_fini(struct vql_config *c)
{
        vql_yaml_fini(&c->yaml);
}

const json_t *vql_config_daemon(const struct vql_config *c)
{
        return json_object_get(c->yaml.tree, "daemon");
}

const json_t *vql_config_ports(const struct vql_config *c)
{
        return json_object_get(c->yaml.tree, "ports");
}

struct vql_place vql_config_place(const struct vql_config *c, const char *path)
{
        return vql_yaml_find(&c->yaml, path);
}
