/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_kvargs.h>
#include <rte_pci.h>

#include "sw-fallback/uplink_impl.h"

enum { SPEC_BYTES = 512, TEXT_BYTES = 64, QPAIRS_MAX = 16 };

/* "name" or "name,key=value,..." */
struct spec {
        char device[VQL_UPLINK_NAME];
        char args[SPEC_BYTES];
};

static bool is_driver(const struct spec *s, const char *driver)
{
        size_t n = strlen(driver);

        return strncmp(s->device, driver, n) == 0 &&
               strspn(s->device + n, "0123456789") == strlen(s->device + n);
}

static int parse_spec(const char *text, struct spec *s, struct vql_error *e)
{
        size_t n = strcspn(text, ",");
        struct rte_pci_addr pci;

        if (n == 0 || n >= sizeof(s->device) || strlen(text) >= sizeof(s->args))
                return vql_fail(e, EINVAL,
                                "uplink '%.80s': expected \"loopback\", or a device name of 1 to "
                                "%zu characters, with arguments after a comma",
                                text, sizeof(s->device) - 1);
        memcpy(s->device, text, n);
        s->device[n] = '\0';
        snprintf(s->args, sizeof(s->args), "%s", text[n] ? text + n + 1 : "");
        /* One spelling for one device: DPDK knows 00:05.0 as 0000:00:05.0. */
        if (rte_pci_addr_parse(s->device, &pci) == 0)
                rte_pci_device_name(&pci, s->device, sizeof(s->device));
        return 0;
}

/* The value of an argument.  0, -ENOENT without it, -EINVAL if the arguments are no list. */
static int get_arg(const struct spec *s, const char *key, char *ret_value, size_t n)
{
        struct rte_kvargs *list = rte_kvargs_parse(s->args, NULL);
        const char *value;

        if (!list)
                return -EINVAL;
        value = rte_kvargs_get(list, key);
        if (value)
                snprintf(ret_value, n, "%s", value);
        rte_kvargs_free(list);
        return value ? 0 : -ENOENT;
}

/* Drivers report most failures as -1 and a line in DPDK's log; say beforehand what can be known. */
static int check_interface(const struct spec *s, const char *interface, struct vql_error *e)
{
        if (is_driver(s, "net_af_packet") || is_driver(s, "net_af_xdp")) {
                if (!interface[0])
                        return vql_fail(e, ENODEV,
                                        "uplink %s: which interface? expected iface=NAME",
                                        s->device);
                if (!if_nametoindex(interface))
                        return vql_fail(e, ENODEV, "uplink %s: no network interface '%s'",
                                        s->device, interface);
        }
        if (is_driver(s, "net_tap")) {
                if (strlen(interface) >= IFNAMSIZ)
                        return vql_fail(e, ENODEV,
                                        "uplink %s: interface name '%s' is longer than %d letters",
                                        s->device, interface, IFNAMSIZ - 1);
                if (access("/dev/net/tun", R_OK | W_OK) < 0)
                        return vql_fail(e, ENODEV, "uplink %s: cannot use /dev/net/tun: %s",
                                        s->device, strerror(errno));
        }
        return 0;
}

static int check_args(const struct spec *s, char *ret_interface, size_t n, struct vql_error *e)
{
        int rc = get_arg(s, "iface", ret_interface, n);

        if (rc == -EINVAL)
                return vql_fail(e, ENODEV,
                                "uplink %s: arguments '%s', expected key=value,key=value",
                                s->device, s->args);
        return check_interface(s, ret_interface, e);
}

/* DPDK has one socket per queue pair here, and one pair if it is not told otherwise. */
static void add_qpairs(struct spec *s, uint16_t queues)
{
        size_t used = strlen(s->args);
        char value[TEXT_BYTES];

        if (queues > 1 && is_driver(s, "net_af_packet") &&
            get_arg(s, "qpairs", value, sizeof(value)) == -ENOENT)
                snprintf(s->args + used, sizeof(s->args) - used, "%sqpairs=%d", used ? "," : "",
                         RTE_MIN(queues, QPAIRS_MAX));
}

static int explain_probe(const struct spec *s, int rc, const char *interface, struct vql_error *e)
{
        struct rte_pci_addr pci;

        if (rte_pci_addr_parse(s->device, &pci) == 0)
                return vql_fail(e, ENODEV,
                                "uplink %s: DPDK cannot use this PCI device: %s (is it there, "
                                "bound to vfio-pci, and in the list of PCI addresses to use?)",
                                s->device, strerror(-rc));
        if (rc == -EFAULT)
                return vql_fail(e, ENODEV,
                                "uplink %s: DPDK has no driver of this name; expected, for "
                                "example, net_tap0, net_af_packet0, net_null0 or a PCI address",
                                s->device);
        if (is_driver(s, "net_tap") && interface[0] && if_nametoindex(interface))
                return vql_fail(e, ENODEV,
                                "uplink %s: interface '%s' is there already and is not a tap with "
                                "queues to spare",
                                s->device, interface);
        return vql_fail(e, ENODEV,
                        "uplink %s: its driver refused it, arguments '%s' (%s); DPDK's log says "
                        "more",
                        s->device, s->args, rc == -1 ? "no reason given" : strerror(-rc));
}

/* net_tap ignores all arguments if one of them is unknown to it: look at what was made. */
static int check_made(const struct spec *s, uint16_t port, const char *interface,
                      struct vql_error *e)
{
        struct rte_eth_dev_info info;
        char made[IF_NAMESIZE] = "";

        if (!is_driver(s, "net_tap") || !interface[0] || strchr(interface, '%') ||
            rte_eth_dev_info_get(port, &info) < 0 || !if_indextoname(info.if_index, made) ||
            strcmp(made, interface) == 0)
                return 0;
        return vql_fail(e, ENODEV,
                        "uplink %s: its driver did not understand the arguments '%s' (it made "
                        "interface '%s')",
                        s->device, s->args, made);
}

static void remove_device(uint16_t port, const struct vql_log *log)
{
        struct rte_eth_dev_info info;
        char name[RTE_ETH_NAME_MAX_LEN] = "?";
        int rc = rte_eth_dev_info_get(port, &info);

        rte_eth_dev_get_name_by_port(port, name);
        if (rc == 0)
                rc = rte_eth_dev_close(port);
        if (rc == 0)
                rc = rte_dev_remove(info.device);
        if (rc < 0)
                vql_log(log, LOG_WARNING, "uplink %s: DPDK did not remove it: %s", name,
                        strerror(-rc));
}

static int probe(struct vql_uplink *u, struct spec *s, const struct vql_uplink_params *params,
                 struct vql_error *e)
{
        char devargs[SPEC_BYTES + VQL_UPLINK_NAME];
        int rc = check_args(s, u->interface, sizeof(u->interface), e);

        if (rc < 0)
                return rc;
        if (rte_eth_dev_count_total() >= RTE_MAX_ETHPORTS)
                return vql_fail(e, ENODEV,
                                "uplink %s: this DPDK has room for %d devices, and all are taken",
                                s->device, RTE_MAX_ETHPORTS);
        add_qpairs(s, params->queues);
        snprintf(devargs, sizeof(devargs), "%s%s%s", s->device, s->args[0] ? "," : "", s->args);
        rc = rte_dev_probe(devargs);
        if (rc < 0)
                return explain_probe(s, rc, u->interface, e);
        if (rte_eth_dev_get_port_by_name(s->device, &u->port_id) < 0) {
                rte_eal_hotplug_remove("vdev", s->device);
                return vql_fail(e, ENODEV, "uplink %s: DPDK took it, but it is no Ethernet device",
                                s->device);
        }
        rc = check_made(s, u->port_id, u->interface, e);
        if (rc < 0)
                remove_device(u->port_id, params->log);
        return rc;
}

/* Mark the ethdev as used by this port, which nobody else may do then. */
static int take(struct vql_uplink *u, const char *port_name, struct vql_error *e)
{
        struct rte_eth_dev_owner owner = { .id = RTE_ETH_DEV_NO_OWNER }, other = { 0 };
        int rc = rte_eth_dev_owner_new(&owner.id);

        snprintf(owner.name, sizeof(owner.name), "%s", port_name);
        if (rc == 0)
                rc = rte_eth_dev_owner_set(u->port_id, &owner);
        if (rc == 0) {
                u->owner = owner.id;
                return 0;
        }
        rte_eth_dev_owner_get(u->port_id, &other);
        return vql_fail(e, EBUSY, "uplink %s: in use by '%s'", u->device, other.name);
}

static int find_or_make(struct vql_uplink *u, const struct vql_uplink_params *params,
                        struct vql_error *e)
{
        struct spec s = { 0 };
        int rc = parse_spec(params->spec, &s, e);
        if (rc < 0)
                return rc;
        if (rte_eth_dev_get_port_by_name(s.device, &u->port_id) < 0) {
                u->created = true;
                return probe(u, &s, params, e);
        }
        u->created = false;
        snprintf(u->device, sizeof(u->device), "%s", s.device);
        if (s.args[0])
                return vql_fail(e, EBUSY,
                                "uplink %s: a device of this name is there already; choose "
                                "another number, or give no arguments to use it as it is",
                                s.device);
        return 0;
}

int vql_uplink_attach(struct vql_uplink *u, const struct vql_uplink_params *params,
                      struct vql_error *e)
{
        int rc = find_or_make(u, params, e);

        if (rc < 0)
                return rc;
        rte_eth_dev_get_name_by_port(u->port_id, u->device);
        rc = take(u, params->name, e);
        if (rc < 0) {
                if (u->created)
                        remove_device(u->port_id, params->log);
                return rc;
        }
        u->state = VQL_UPLINK_ATTACHED;
        return 0;
}

void vql_uplink_detach(struct vql_uplink *u)
{
        if (u->state != VQL_UPLINK_ATTACHED)
                return;
        rte_eth_dev_owner_unset(u->port_id, u->owner);
        if (u->created)
                remove_device(u->port_id, u->log);
        u->state = VQL_UPLINK_NONE;
}
