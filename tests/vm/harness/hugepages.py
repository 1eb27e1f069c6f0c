# SPDX-License-Identifier: BSD-3-Clause
"""2 MiB hugepages for a while: what was there before is there again after."""
from contextlib import contextmanager
from pathlib import Path

from .process import sh
from .report import Skip

POOL = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")


def pages():
    return int(POOL.read_text())


@contextmanager
def reserve(megabytes):
    """That much more than there is now."""
    if not POOL.exists():
        raise Skip("this kernel has no 2 MiB hugepages")
    before = pages()
    wanted = before + megabytes // 2
    try:
        try:
            POOL.write_text(str(wanted))
        except OSError as error:
            raise Skip(f"no hugepages to be had: {error}") from None
        if pages() < wanted:
            raise Skip(f"the machine has no {megabytes} MiB of hugepages to give")
        yield
    finally:
        if pages() != before:
            POOL.write_text(str(before))


@contextmanager
def hugetlbfs(folder):
    """A hugetlbfs at this new folder."""
    folder.mkdir()
    sh("mount", "-t", "hugetlbfs", "-o", "pagesize=2M", "vqvm", folder)
    try:
        yield folder
    finally:
        sh("umount", folder, check=False)
