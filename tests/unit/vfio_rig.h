/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_VFIO_RIG_H
#define TESTS_UNIT_VFIO_RIG_H

/* lib/vfio on the fake of its kernel, with two functions in groups of their own. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fake_vfio.h"
#include "vfio/device.h"

#define ADDRESS       "0000:65:00.2"
#define OTHER_ADDRESS "0000:65:00.3"

struct rig {
        struct fake_vfio fake;
        struct fake_vfio_device *nic, *other;
        struct vql_vfio *vfio;
        struct vql_vfio_device *d, *o;
        struct vql_error e;
};

static inline struct rig *rig_new(void)
{
        struct rig *r = calloc(1, sizeof(*r));
        struct vql_vfio_place place;

        fake_vfio_init(&r->fake);
        r->nic = fake_vfio_add(&r->fake, ADDRESS, 42);
        r->other = fake_vfio_add(&r->fake, OTHER_ADDRESS, 43);
        place = fake_vfio_place(&r->fake);
        assert_int_equal(vql_vfio_new(&place, &r->vfio, NULL), 0);
        return r;
}

static inline void rig_free(struct rig *r)
{
        vql_vfio_device_close(r->o);
        vql_vfio_device_close(r->d);
        vql_vfio_free(r->vfio);
        fake_vfio_fini(&r->fake);
        free(r);
}

/* What does not succeed here prints its sentence. */
static inline void must(const struct rig *r, int ret)
{
        if (ret < 0)
                fail_msg("%d: %s", ret, r->e.text);
}

static inline void rig_open(struct rig *r)
{
        must(r, vql_vfio_device_open(r->vfio, ADDRESS, NULL, &r->d, &r->e));
}

static inline void rig_open_both(struct rig *r)
{
        rig_open(r);
        must(r, vql_vfio_device_open(r->vfio, OTHER_ADDRESS, NULL, &r->o, &r->e));
}

/* A refusal with its errno and words of its sentence. */
static inline void refused(struct rig *r, int ret, int err, const char *words)
{
        if (ret != -err || !strstr(r->e.text, words))
                fail_msg("%d \"%s\", expected %d \"%s\"", ret, r->e.text, -err, words);
        r->e.text[0] = '\0';
}

#endif
