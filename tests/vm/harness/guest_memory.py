# SPDX-License-Identifier: BSD-3-Clause
"""The memory of a guest, as the file that QEMU has it in."""
import mmap
import os
from contextlib import contextmanager

from .process import Failed

PAGE, STEP = 4096, 1 << 20


def path_of(vm):
    folder = f"/proc/{vm.process.pid}/fd"
    for fd in os.listdir(folder):
        if os.readlink(f"{folder}/{fd}").startswith("/memfd:memory-backend-memfd"):
            return f"{folder}/{fd}"
    raise Failed(f"{vm.name}: QEMU has no memfd with the guest's memory")


@contextmanager
def mapped(vm):
    """Guest address n is at n, below the hole that a PC has under 4 GiB."""
    with open(path_of(vm), "rb") as f, \
            mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as memory, \
            memoryview(memory) as view:
        yield view


def differing_pages(vm, other):
    """Numbers of the pages that are not the same in both."""
    with mapped(vm) as a, mapped(other) as b:
        if len(a) != len(b):
            raise Failed(f"memory of {len(a)} and of {len(b)} bytes")
        return [page // PAGE
                for at in range(0, len(a), STEP) if a[at:at + STEP] != b[at:at + STEP]
                for page in range(at, min(at + STEP, len(a)), PAGE)
                if a[page:page + PAGE] != b[page:page + PAGE]]
