/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_VFIO_PREFLIGHT_H
#define VQLIFT_VFIO_PREFLIGHT_H

/*
 * What a PCI function lacks to be ours, for people: each finding is one sentence and the command
 * that mends it.  Looks at files only, opens no device and changes nothing.
 */

#include <stdint.h>
#include <sys/types.h>

#include "vfio/sysfs.h"

enum vql_vfio_need {
        VQL_NEED_FUNCTION,   /* a PCI function at that address */
        VQL_NEED_MODULE,     /* the kernel's vfio-pci */
        VQL_NEED_IOMMU,      /* an IOMMU group */
        VQL_NEED_DRIVER,     /* the function bound to vfio-pci */
        VQL_NEED_GROUP,      /* nothing else in its group in use by the host */
        VQL_NEED_PERMISSION, /* to open the group's file */
        VQL_NEED_MEMLOCK,    /* RLIMIT_MEMLOCK for the guest's memory */
        VQL_NEED_HUGEPAGES,  /* for speed only */
        VQL_NEEDS,
};

enum { VQL_FINDING_TEXT = 256 };

struct vql_vfio_finding {
        enum vql_vfio_need need;
        bool optional;
        char what[VQL_FINDING_TEXT];
        char mend[VQL_FINDING_TEXT]; /* a command, or what to do where no command can */
};

/* Who asks, and where the host's files are. */
struct vql_vfio_asker {
        const char *dev;   /* "/dev/vfio" */
        const char *sysfs; /* "/sys" */
        uid_t uid;         /* effective ones of the process */
        gid_t gid;
        const gid_t *groups; /* supplementary */
        size_t n_groups;
        bool may_lock_any;     /* CAP_IPC_LOCK */
        bool may_open_any;     /* CAP_DAC_OVERRIDE */
        uint64_t memlock;      /* RLIMIT_MEMLOCK, UINT64_MAX: no limit */
        uint64_t guest_memory; /* bytes that will be pinned; 0: unknown, then 1 GiB is expected */
};

/* Everything about this process but guest_memory, which is 0; `groups` is put in `ret_groups`. */
void vql_vfio_asker_self(struct vql_vfio_asker *ret_asker, gid_t *ret_groups, size_t n_groups);

/* Number of findings; none: the function can be opened. */
size_t vql_vfio_preflight(const struct vql_vfio_asker *who, const char *address,
                          struct vql_vfio_finding ret_findings[VQL_NEEDS]);

#endif
