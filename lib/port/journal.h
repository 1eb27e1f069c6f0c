/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_PORT_JOURNAL_H
#define VQLIFT_PORT_JOURNAL_H

/*
 * Ring positions that outlive the connection and the process.  A split ring's position is in guest
 * memory (used->idx); a packed ring's is nowhere but in its device, and a front-end that lost its
 * back-end hands over position 0 for a ring in mid-flight.  So each burst records the position of a
 * packed ring here, in a file per port under the state directory (or in memory only).
 *
 * A record holds for the ring that it was made for: same address, same size, not stopped since.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "virtqueue/cursor.h"

struct vql_journal;

/*
 * Open or create the journal of a port.  dir NULL: in memory.  A file of another version or length
 * is replaced.  -errno of open, ftruncate, mmap.
 */
int vql_journal_open(const char *dir, const char *port, struct vql_journal **ret_journal,
                     struct vql_error *e);
void vql_journal_close(struct vql_journal *j); /* the file stays; NULL is fine */
/* Remove the file, not the journal: the port is about to be deleted for good. */
void vql_journal_forget(struct vql_journal *j);

/* Begin to record ring `index`; returns the word that the datapath keeps (vql_position_word()). */
uint64_t *vql_journal_begin(struct vql_journal *j, uint16_t index, uint64_t desc_uva, uint16_t size,
                            const struct vql_cursor *at);
/* The front-end took the position over (GET_VRING_BASE): the record no longer holds. */
void vql_journal_end(struct vql_journal *j, uint16_t index);
/*
 * The recorded positions of that ring (vql_position_read()): 0, or -ENODATA.  They differ if the
 * process was cut down in a publication; then the ring tells which holds: if the slot at [1] is
 * marked as used, what was being published is visible, and [0] is the position, else [1].
 */
int vql_journal_find(const struct vql_journal *j, uint16_t index, uint64_t desc_uva, uint16_t size,
                     struct vql_cursor ret_cursors[2]);

#endif
