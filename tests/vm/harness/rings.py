# SPDX-License-Identifier: BSD-3-Clause
"""A guest's rings as they lie in its memory: which buffers are out, and how they came back."""
import struct

from .guest_memory import mapped
from .process import Failed

AVAIL, USED = 1 << 7, 1 << 15       # of a packed ring's descriptor


class Ring:
    """index: 0 receives, 1 sends, and so on, of the only virtio NIC."""

    def __init__(self, vm, index, packed):
        self.vm, self.packed = vm, packed
        nic = next(d["path"] for d in vm.qmp("x-query-virtio") if d["name"] == "virtio-net")
        # Not x-query-virtio-queue-status: it asks the back-end for the position and so stops it.
        status = vm.qmp("x-query-virtio-vhost-queue-status", path=nic, queue=index)
        self.size = status["num"]
        self.desc, self.avail, self.used = (status[f"{part}-phys"]
                                            for part in ("desc", "avail", "used"))

    def outstanding(self):
        """How many buffers the driver made available that did not come back yet."""
        with mapped(self.vm) as memory:
            return (self._packed_outstanding if self.packed else self._split_outstanding)(memory)

    def _packed_outstanding(self, memory):
        """Right as long as no chain has several descriptors in the ring itself."""
        flags = (struct.unpack_from("<H", memory, self.desc + 16 * n + 14)[0]
                 for n in range(self.size))
        return sum(bool(f & AVAIL) != bool(f & USED) for f in flags)

    def _split_outstanding(self, memory):
        """What can still be seen of what came back must be in the order in which it went out:
        one buffer that was lost or returned twice would shift all that follow."""
        available, = struct.unpack_from("<H", memory, self.avail + 2)
        used, = struct.unpack_from("<H", memory, self.used + 2)
        out = (available - used) % 65536
        for back in range(1, self.size - out + 1):
            slot = (used - back) % 65536 % self.size
            head, = struct.unpack_from("<H", memory, self.avail + 4 + 2 * slot)
            returned, = struct.unpack_from("<I", memory, self.used + 4 + 8 * slot)
            if head != returned and back <= used:
                raise Failed(f"{self.vm.name}: slot {slot} of the used ring is {returned},"
                             f" but {head} was made available there")
        return out
