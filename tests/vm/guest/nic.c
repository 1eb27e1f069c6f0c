/* SPDX-License-Identifier: BSD-3-Clause */
/* The two ethtool operations that the tests need, so that no guest needs ethtool itself. */
#include "commands.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "net.h"

static int ask(const char *dev, void *command)
{
        struct ifreq r = { .ifr_data = command };
        int s = socket(AF_INET, SOCK_DGRAM, 0), err;

        if (s < 0 || strlen(dev) >= sizeof(r.ifr_name))
                net_die("%s: no such name, or no sockets", dev);
        memcpy(r.ifr_name, dev, strlen(dev) + 1);
        err = ioctl(s, SIOCETHTOOL, &r) < 0 ? errno : 0;
        close(s);
        return err;
}

/* DEV: show; DEV N: use N combined channels. */
int nic_channels(char **args)
{
        struct ethtool_channels c = { .cmd = ETHTOOL_GCHANNELS };
        int err = ask(args[0], &c);

        if (err == 0 && args[1] != NULL) {
                c.cmd = ETHTOOL_SCHANNELS;
                c.combined_count = (uint32_t)net_number(args[1], 1, 1024);
                err = ask(args[0], &c);
        }
        if (err != 0)
                net_die("%s: channels: %s", args[0], strerror(err));
        printf("combined %u max %u\n", c.combined_count, c.max_combined);
        return 0;
}

static const struct offload {
        const char *name;
        uint32_t get, set;
} offloads[] = {
        { "rx-csum", ETHTOOL_GRXCSUM, ETHTOOL_SRXCSUM },
        { "tx-csum", ETHTOOL_GTXCSUM, ETHTOOL_STXCSUM },
        { "tso", ETHTOOL_GTSO, ETHTOOL_STSO },
        { "gso", ETHTOOL_GGSO, ETHTOOL_SGSO },
        { "gro", ETHTOOL_GGRO, ETHTOOL_SGRO },
};

/* DEV: show all; DEV on|off: switch all.  One that cannot be switched is left as it is. */
int nic_offload(char **args)
{
        if (args[1] != NULL && strcmp(args[1], "on") != 0 && strcmp(args[1], "off") != 0)
                net_die("'%s' is neither on nor off", args[1]);
        for (size_t i = 0; i < sizeof(offloads) / sizeof(offloads[0]); i++) {
                struct ethtool_value v = { .cmd = offloads[i].set };
                int err;

                if (args[1] != NULL) {
                        v.data = strcmp(args[1], "on") == 0;
                        ask(args[0], &v);
                }
                v = (struct ethtool_value){ .cmd = offloads[i].get };
                err = ask(args[0], &v);
                if (err != 0)
                        net_die("%s: %s: %s", args[0], offloads[i].name, strerror(err));
                printf("%s %s\n", offloads[i].name, v.data ? "on" : "off");
        }
        return 0;
}
