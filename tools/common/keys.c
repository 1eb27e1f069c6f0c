/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/keys.h"

#include <ctype.h>
#include <string.h>

#include "common/paths.h"
#include "common/printable.h"

/* The library copies paths and names into fields of these sizes. */
enum { NAME_MAX_BYTES = 63, SOCKET_MAX_BYTES = 107, UPLINK_MAX_BYTES = 127 };

static bool is_name(const char *s)
{
        if (!isalnum((unsigned char)s[0]))
                return false;
        for (; *s; s++) {
                if (!isalnum((unsigned char)*s) && !strchr("-_.", *s))
                        return false;
        }
        return true;
}

static bool is_absolute_path(const char *s)
{
        return s[0] == '/' && s[strlen(s) - 1] != '/' && vql_is_printable(s);
}

static bool is_account(const char *s)
{
        return vql_is_printable(s) && !strpbrk(s, ":/ ");
}

static bool is_mode(const char *s)
{
        return strspn(s, "01234567") == strlen(s) && strspn(s, "0") < strlen(s) &&
               (strlen(s) == 3 || s[0] == '0');
}

/* DDDD:BB:DD.F, as lspci -D prints it. */
static bool is_pci_address(const char *s)
{
        static const char form[] = "xxxx:xx:xx.7";

        for (size_t i = 0; i < sizeof(form) - 1; i++) {
                bool fits = form[i] == 'x'   ? isxdigit((unsigned char)s[i]) != 0
                            : form[i] == '7' ? s[i] >= '0' && s[i] <= '7'
                                             : s[i] == form[i];

                if (!fits)
                        return false;
        }
        return true;
}

const struct vql_rule vql_port_name_rule = {
        .type = VQL_RULE_STRING,
        .min = 1,
        .max = NAME_MAX_BYTES,
        .valid = is_name,
        .what = "a name of 1 to 63 letters, digits, '-', '_' and '.', a letter or digit first",
};

static const struct vql_rule socket_rule = {
        .type = VQL_RULE_STRING,
        .min = 2,
        .max = SOCKET_MAX_BYTES,
        .valid = is_absolute_path,
        .what = "an absolute path of at most 107 bytes",
};

static const struct vql_rule mode_rule = {
        .type = VQL_RULE_STRING,
        .min = 3,
        .max = 4,
        .valid = is_mode,
        .what = "permissions in octal, as a string such as \"0660\"",
};

static const struct vql_rule account_number_rule = {
        .type = VQL_RULE_INTEGER,
        .min = 0,
        .max = 4294967294,
};

static const struct vql_rule user_rule = {
        .type = VQL_RULE_STRING,
        .min = 1,
        .max = 255,
        .valid = is_account,
        .what = "the name of a user",
        .otherwise = &account_number_rule,
};

static const struct vql_rule group_rule = {
        .type = VQL_RULE_STRING,
        .min = 1,
        .max = 255,
        .valid = is_account,
        .what = "the name of a group",
        .otherwise = &account_number_rule,
};

static const struct vql_rule role_rule = {
        .type = VQL_RULE_WORD,
        .words = (const char *const[]){ "server", "client", NULL },
};

static const struct vql_rule pairs_rule = {
        .type = VQL_RULE_INTEGER,
        .min = 1,
        .max = 128,
};

static const struct vql_rule uplink_rule = {
        .type = VQL_RULE_STRING,
        .min = 1,
        .max = UPLINK_MAX_BYTES,
        .valid = vql_is_printable,
        .what = "a string of 1 to 127 bytes: loopback, DPDK device arguments, a PCI address or "
                "the name of a device",
};

static const struct vql_rule device_rule = {
        .type = VQL_RULE_STRING,
        .min = 1,
        .max = UPLINK_MAX_BYTES,
        .valid = vql_is_printable,
        .what = "a string of 1 to 127 bytes: a PCI address or sim, and arguments behind a comma",
};

static const struct vql_rule auto_rule = {
        .type = VQL_RULE_WORD,
        .words = (const char *const[]){ "auto", NULL },
};

static const struct vql_rule uplink_queues_rule = {
        .type = VQL_RULE_INTEGER,
        .min = 1,
        .max = 128,
        .otherwise = &auto_rule,
};

static const struct vql_rule mtu_rule = {
        .type = VQL_RULE_INTEGER,
        .min = 68,
        .max = 65535,
        .otherwise = &auto_rule,
};

static const struct vql_rule feature_rule = {
        .type = VQL_RULE_STRING,
        .min = 1,
        .max = 63,
        .what = "the name of a virtio feature",
};

static const struct vql_rule features_rule = {
        .type = VQL_RULE_LIST,
        .min = 0,
        .max = 64,
        .what = "a list of names of virtio features",
        .item = &feature_rule,
};

static const struct vql_rule all_rule = {
        .type = VQL_RULE_WORD,
        .words = (const char *const[]){ "all", NULL },
};

static const struct vql_rule profile_rule = {
        .type = VQL_RULE_LIST,
        .min = 1,
        .max = 64,
        .what = "a list of names of virtio features",
        .item = &feature_rule,
        .otherwise = &all_rule,
};

static const struct vql_rule worker_rule = {
        .type = VQL_RULE_INTEGER,
        .min = 0,
        .max = 127,
        .otherwise = &auto_rule,
};

static const struct vql_rule yes_no_rule = {
        .type = VQL_RULE_WORD,
        .words = (const char *const[]){ "yes", "no", NULL },
};

static const struct vql_key port_keys[] = {
        { "name", &vql_port_name_rule, .required = true, .help = "Name of the port, unique." },
        { "socket", &socket_rule, .required = true,
          .help = "Path of the vhost-user socket. No two ports share one." },
        { "uplink", &uplink_rule,
          .help = "Where the packets go: loopback sends them back, net_tap0,iface=t0 and the like "
                  "are arguments of a DPDK device that is made for the port, 0000:03:00.0 is a "
                  "device that the daemon's key pci names." },
        { "device", &device_rule,
          .help = "Device that serves the rings of the guest itself: the PCI address of a virtio "
                  "network function that is bound to vfio-pci, or sim, a simulated one; arguments "
                  "of its driver follow a comma. With an uplink software takes over when the "
                  "device "
                  "cannot serve, without one the guest waits. A port has an uplink, a device, or "
                  "both." },
        { "role", &role_rule, .fallback = "\"server\"",
          .help = "A server listens on the socket; a client connects to it as soon as it appears "
                  "(QEMU then has server=on)." },
        { "socket-mode", &mode_rule,
          .help = "Permissions of the socket, 0660 without this key. Servers only." },
        { "socket-owner", &user_rule, .help = "Owner of the socket. Servers only." },
        { "socket-group", &group_rule, .help = "Group of the socket. Servers only." },
        { "queue-pairs", &pairs_rule, .fallback = "1",
          .help = "The most queue pairs that the guest may use." },
        { "uplink-queues", &uplink_queues_rule, .fallback = "\"auto\"",
          .help = "Queues of the uplink; auto: as many as the queue pairs and the device allow." },
        { "mtu", &mtu_rule, .fallback = "\"auto\"",
          .help = "MTU to set on the uplink, in bytes; auto: leave it as it is." },
        { "features", &profile_rule, .fallback = "\"all\"",
          .help = "Virtio features to offer to the guest at most, by name, so that all hosts of a "
                  "cluster offer the same; one that cannot be offered is an error. LOG_ALL and "
                  "PROTOCOL_FEATURES are offered in any case." },
        { "features-off", &features_rule, .fallback = "[]",
          .help = "Virtio features not to offer to the guest, by name." },
        { "postcopy", &yes_no_rule, .fallback = "\"no\"",
          .help = "Offer postcopy migration, if the host has userfaultfd. Packets of a guest that "
                  "comes that way wait for its pages, and so do those of other guests of the same "
                  "worker: yes is for front-ends that are trusted." },
        { "worker", &worker_rule, .fallback = "\"auto\"",
          .help = "Index of the worker that serves all queues of the port; auto: spread them." },
        { 0 },
};

const struct vql_rule vql_port_rule = {
        .type = VQL_RULE_MAP,
        .what = "the keys of a port",
        .keys = port_keys,
};

static const struct vql_rule cpu_rule = {
        .type = VQL_RULE_INTEGER,
        .min = 0,
        .max = 1023,
};

static const struct vql_rule cpus_rule = {
        .type = VQL_RULE_LIST,
        .min = 1,
        .max = 128,
        .what = "a list of 1 to 128 CPU numbers",
        .item = &cpu_rule,
};

static const struct vql_rule workers_rule = {
        .type = VQL_RULE_INTEGER,
        .min = 1,
        .max = 128,
        .otherwise = &cpus_rule,
};

static const struct vql_rule memory_rule = {
        .type = VQL_RULE_INTEGER,
        .min = 64,
        .max = 1048576,
};

static const struct vql_rule huge_rule = {
        .type = VQL_RULE_WORD,
        .words = (const char *const[]){ "auto", "no", NULL },
};

static const struct vql_rule pci_address_rule = {
        .type = VQL_RULE_STRING,
        .min = 12,
        .max = 12,
        .valid = is_pci_address,
        .what = "a PCI address with its domain, such as 0000:03:00.0",
};

static const struct vql_rule pci_rule = {
        .type = VQL_RULE_LIST,
        .min = 0,
        .max = 256,
        .what = "a list of PCI addresses",
        .item = &pci_address_rule,
};

static const struct vql_rule none_rule = {
        .type = VQL_RULE_WORD,
        .words = (const char *const[]){ "none", NULL },
};

static const struct vql_rule state_dir_rule = {
        .type = VQL_RULE_STRING,
        .min = 2,
        .max = 255,
        .valid = is_absolute_path,
        .what = "an absolute path of at most 255 bytes",
        .otherwise = &none_rule,
};

static const struct vql_rule log_level_rule = {
        .type = VQL_RULE_WORD,
        .words = (const char *const[]){ "error", "warning", "notice", "info", "debug", NULL },
};

static const struct vql_key daemon_keys[] = {
        { "workers", &workers_rule, .fallback = "1",
          .help = "CPUs to run a packet worker on, one each; or how many workers. A number above 1 "
                  "takes the highest CPUs that the daemon may use; 1 is one worker that is not "
                  "pinned." },
        { "memory", &memory_rule, .fallback = "256", .help = "Packet memory, in MiB." },
        { "huge", &huge_rule, .fallback = "\"auto\"",
          .help = "Hugepages for packet memory: auto takes them if there are some." },
        { "pci", &pci_rule, .fallback = "[]",
          .help = "PCI devices that uplinks may use. The daemon touches no other." },
        { "control", &socket_rule, .fallback = "\"" VQL_DEFAULT_CONTROL "\"",
          .help = "Path of the control socket. Its folder is made if it is not there." },
        { "control-group", &group_rule,
          .help = "Group that may use the control socket, beside its owner; without this key it "
                  "is the daemon's own." },
        { "state-dir", &state_dir_rule, .fallback = "\"" VQL_DEFAULT_STATE_DIR "\"",
          .help = "Folder in which ring positions outlive the daemon; none: they do not." },
        { "standby", &yes_no_rule, .fallback = "\"no\"",
          .help = "Keep a second daemon that takes over at once when the first one ends, however "
                  "it "
                  "does. It has packet memory of its own, so twice the memory is needed. Not "
                  "together with devices in pci." },
        { "log-level", &log_level_rule, .fallback = "\"info\"",
          .help = "The least important lines to log." },
        { 0 },
};

const struct vql_rule vql_daemon_rule = {
        .type = VQL_RULE_MAP,
        .what = "the keys of the daemon",
        .keys = daemon_keys,
};

static const struct vql_rule ports_rule = {
        .type = VQL_RULE_LIST,
        .min = 0,
        .max = 4096,
        .what = "a list of ports",
        .item = &vql_port_rule,
};

static const struct vql_key config_keys[] = {
        { "daemon", &vql_daemon_rule, .fallback = "{}", .help = "Settings of the daemon." },
        { "ports", &ports_rule, .fallback = "[]", .help = "Ports to add at start." },
        { 0 },
};

const struct vql_rule vql_config_rule = {
        .type = VQL_RULE_MAP,
        .what = "the keys daemon and ports",
        .keys = config_keys,
};
