# SPDX-License-Identifier: BSD-3-Clause
"""2 MiB hugepages for one case: what was there before is there again after."""
from pathlib import Path

from .process import sh
from .report import Skip

POOL = Path("/sys/kernel/mm/hugepages/hugepages-2048kB")


class Hugepages:
    """megabytes more free pages than now, and a hugetlbfs of its own at `folder`."""

    def __init__(self, megabytes, folder):
        self.folder = folder
        if not POOL.exists():
            raise Skip("this kernel has no 2 MiB hugepages")
        self.before = read("nr_hugepages")
        wanted = self.before + megabytes // 2
        write(wanted)
        if read("nr_hugepages") < wanted:
            write(self.before)
            raise Skip(f"the machine has no {megabytes} MiB of hugepages to give")
        folder.mkdir()
        sh("mount", "-t", "hugetlbfs", "-o", "pagesize=2M", "vqvm", folder)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        sh("umount", self.folder, check=False)
        write(self.before)


def read(name):
    return int((POOL / name).read_text())


def write(count):
    (POOL / "nr_hugepages").write_text(str(count))
