/* SPDX-License-Identifier: BSD-3-Clause */
#include "vfio/plan.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

/* The piece in `t` that is the same as that of n entries from `first` on, which is in another
 * table. */
static bool has_piece(const struct vql_vfio_table *t, const struct vql_vfio_entry *first, size_t n)
{
        const struct vql_vfio_entry *mine = vql_vfio_table_find(t, first->map.iova);

        /* Entries are only ever joined when they are new, so equal ends have equal insides. */
        return mine && !mine->joined && mine->id == first->id &&
               vql_vfio_table_piece(t, (size_t)(mine - t->entries)) == n &&
               mine[n - 1].id == first[n - 1].id;
}

static uint64_t piece_len(const struct vql_vfio_entry *first, size_t n)
{
        return first[n - 1].map.iova - first->map.iova + first[n - 1].map.len;
}

static uint64_t piece_last(const struct vql_vfio_entry *first, size_t n)
{
        return first->map.iova + (piece_len(first, n) - 1);
}

/* Does a piece that goes, that is one of `from` that `to` has not, lie where this one comes? */
static bool must_wait(const struct vql_vfio_table *from, const struct vql_vfio_table *to,
                      const struct vql_vfio_entry *first, size_t n)
{
        for (size_t i = 0, pn; i < from->n; i += pn) {
                const struct vql_vfio_entry *p = &from->entries[i];

                pn = vql_vfio_table_piece(from, i);
                if (p->map.iova <= piece_last(first, n) && piece_last(p, pn) >= first->map.iova &&
                    !has_piece(to, p, pn))
                        return true;
        }
        return false;
}

static void add_unmaps(struct vql_vfio_plan *p, const struct vql_vfio_table *from,
                       const struct vql_vfio_table *to)
{
        for (size_t i = 0, n; i < from->n; i += n) {
                struct vql_vfio_entry *first = &from->entries[i];

                n = vql_vfio_table_piece(from, i);
                if (!has_piece(to, first, n))
                        p->steps[p->n++] = (struct vql_vfio_step){ VQL_STEP_UNMAP, first, n };
        }
}

static void add_maps(struct vql_vfio_plan *p, const struct vql_vfio_table *from,
                     const struct vql_vfio_table *to, bool waiting)
{
        for (size_t i = 0, n; i < to->n; i += n) {
                struct vql_vfio_entry *first = &to->entries[i];

                n = vql_vfio_table_piece(to, i);
                if (!has_piece(from, first, n) && must_wait(from, to, first, n) == waiting)
                        p->steps[p->n++] = (struct vql_vfio_step){ VQL_STEP_MAP, first, n };
        }
}

int vql_vfio_plan_make(const struct vql_vfio_table *from, const struct vql_vfio_table *to,
                       enum vql_vfio_order order, struct vql_vfio_plan *ret_plan)
{
        struct vql_vfio_plan p = { calloc(from->n + to->n + 1, sizeof(*p.steps)), 0, 0 };

        if (!p.steps)
                return -ENOMEM;
        if (order == VQL_PLAN_COME_FIRST)
                add_maps(&p, from, to, false);
        add_unmaps(&p, from, to);
        add_maps(&p, from, to, true);
        if (order == VQL_PLAN_GO_FIRST)
                add_maps(&p, from, to, false);
        *ret_plan = p;
        return 0;
}

void vql_vfio_plan_free(struct vql_vfio_plan *p)
{
        free(p->steps);
        *p = (struct vql_vfio_plan){ 0 };
}

/* The devices that added a piece need not all be there any more, so its entries may have other
 * addresses here than when they were joined. */
int vql_vfio_plan_map(struct vql_vfio_container *c, struct vql_vfio_entry *first, size_t n,
                      struct vql_error *e)
{
        for (size_t i = 0, run; i < n; i += run) {
                struct vql_vfio_map m = first[i].map;
                int ret;

                for (run = 1; i + run < n; run++) {
                        if (!vql_vfio_entry_follows(&first[i + run - 1], &first[i + run]))
                                break;
                        m.len += first[i + run].map.len;
                }
                first[i].joined = false;
                ret = vql_vfio_container_map(c, &m, e);
                if (ret == 0)
                        continue;
                if (i && vql_vfio_container_unmap(c, first->map.iova, piece_len(first, i), e) < 0)
                        return -ENOTRECOVERABLE;
                return ret;
        }
        return 0;
}

static int unmap(struct vql_vfio_container *c, const struct vql_vfio_step *s, struct vql_error *e)
{
        return vql_vfio_container_unmap(c, s->first->map.iova, piece_len(s->first, s->n), e);
}

static int lose(struct vql_vfio_container *c, const struct vql_error *why, struct vql_error *e)
{
        c->state = VQL_CONTAINER_LOST;
        return vql_fail(e, ENOTRECOVERABLE,
                        "%.160s; what is mapped is uncertain until the device is closed",
                        why->text);
}

int vql_vfio_plan_undo(struct vql_vfio_plan *p, struct vql_vfio_container *c, struct vql_error *e)
{
        while (p->done) {
                const struct vql_vfio_step *s = &p->steps[--p->done];
                struct vql_error why = { "" };
                int ret = s->kind == VQL_STEP_MAP ? unmap(c, s, &why)
                                                  : vql_vfio_plan_map(c, s->first, s->n, &why);

                if (ret < 0)
                        return lose(c, &why, e);
        }
        return 0;
}

int vql_vfio_plan_run(struct vql_vfio_plan *p, struct vql_vfio_container *c, struct vql_error *e)
{
        struct vql_error why = { "" };
        int ret = 0;

        for (p->done = 0; p->done < p->n; p->done++) {
                const struct vql_vfio_step *s = &p->steps[p->done];

                ret = s->kind == VQL_STEP_MAP ? vql_vfio_plan_map(c, s->first, s->n, &why)
                                              : unmap(c, s, &why);
                if (ret < 0)
                        break;
        }
        if (ret == -ENOTRECOVERABLE)
                return lose(c, &why, e);
        if (ret < 0 && vql_vfio_plan_undo(p, c, e) < 0)
                return -ENOTRECOVERABLE;
        return ret < 0 ? vql_fail(e, -ret, "%s", why.text) : 0;
}
