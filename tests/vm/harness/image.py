# SPDX-License-Identifier: BSD-3-Clause
"""The guest's kernel and its initramfs, made of busybox, kernel modules and vqpeer."""
import glob
import gzip
import lzma
import os
import re
import stat
import subprocess
from pathlib import Path

from .process import Failed, sh

MODULES = ["virtio_pci", "virtio_net"]

# ttyS0 is the kernel's, ttyS1 the shell's.  The first command empties the port's FIFO, so
# nobody may type before the greeting.
INIT = """#!/bin/busybox sh
export PATH=/bin HOME=/
busybox mkdir -p /proc /sys /dev /tmp
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
busybox mount -t devtmpfs dev /dev
busybox mount -t tmpfs -o size=90% tmp /tmp
busybox --install -s /bin
for name in accept_dad router_solicitations; do
    echo 0 >/proc/sys/net/ipv6/conf/default/$name
done
while read -r module; do insmod "/modules/$module"; done </modules/order
ip link set lo up
exec 3<>/dev/ttyS1
stty -F /dev/ttyS1 raw -echo
while :; do
    echo @@ready >&3
    setsid sh /dev/ttyS1 </dev/null >&3 2>&3
done
"""


class Archive:
    """A cpio archive of the "newc" form, as the kernel unpacks it."""

    def __init__(self):
        self.parts = []
        self.inode = 0

    def add(self, name, data=b"", mode=stat.S_IFREG | 0o755):
        self.inode += 1
        path = name.encode() + b"\0"
        fields = [self.inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0]
        head = b"070701" + b"".join(b"%08X" % f for f in fields) + path
        for part in (head, data):
            self.parts.append(part + b"\0" * (-len(part) % 4))

    def add_folder(self, name):
        self.add(name, mode=stat.S_IFDIR | 0o755)

    def add_link(self, name, target):
        self.add(name, target.encode(), stat.S_IFLNK | 0o777)

    def write(self, path):
        self.add("TRAILER!!!", mode=0)
        temporary = path.with_suffix(".new")
        temporary.write_bytes(gzip.compress(b"".join(self.parts), 1))
        temporary.rename(path)


class Kernel:
    """Debian's cloud kernel: the newest one installed, or unpacked below `unpacked`."""

    def __init__(self, unpacked):
        found = []
        for root in ("/", str(unpacked)):
            for image in glob.glob(f"{root}/boot/vmlinuz-*-cloud-*"):
                version = os.path.basename(image).removeprefix("vmlinuz-")
                modules = Path(root, "lib/modules", version)
                if modules.is_dir() and os.access(image, os.R_OK):
                    found.append((numbers(version), Path(image), modules, version))
        if not found:
            raise Failed("no kernel for guests: tools/packages.sh kernel fetches Debian's")
        _, self.image, self.modules, self.version = max(found)

    def module_files(self, names):
        """The files of these modules and of all that they need, in order of loading."""
        root = self.modules.parents[2]
        if not (self.modules / "modules.dep").exists():
            sh("depmod", "-b", root, self.version)
        files = []
        for name in names:
            out = sh("modprobe", "-d", root, "-S", self.version, "--show-depends", name)
            for line in out.splitlines():
                words = line.split()
                if words[0] == "insmod" and words[1] not in files:
                    files.append(words[1])
        return [Path(f) for f in files]


def numbers(version):
    return [int(n) for n in re.findall(r"\d+", version)]


def shared_libraries(program):
    done = subprocess.run(["ldd", program], text=True, capture_output=True)
    return re.findall(r"(/\S+) \(0x", done.stdout)


def libraries(programs):
    """The libraries of all these programs, by their names in the image."""
    found = {os.path.normpath(library) for program in programs
             for library in shared_libraries(program)}
    return {library.lstrip("/"): Path(library) for library in found}


def plain(module):
    """The name and the content of a module that may be compressed."""
    data = module.read_bytes()
    return module.name.removesuffix(".xz"), (
        lzma.decompress(data) if module.suffix == ".xz" else data)


def build_initramfs(kernel, path, programs, modules=MODULES):
    """Write the initramfs to path, unless one is there that is newer than its parts.
    programs: names in the image, and the files; their libraries come along."""
    programs = {"bin/busybox": Path(sh("sh", "-c", "command -v busybox").strip()), **programs}
    modules = kernel.module_files(modules)
    sources = {**programs, **libraries(programs.values())}
    parts = [*sources.values(), Path(__file__), *modules]
    if path.exists() and all(p.stat().st_mtime < path.stat().st_mtime for p in parts):
        return path
    # A file with several names exists once: DPDK takes two copies of a driver for two drivers.
    first = {}
    for name, source in sources.items():
        first.setdefault(os.path.realpath(source), name)
    files = {"init": INIT.encode(),
             **{name: Path(real).read_bytes() for real, name in first.items()}}
    links = {name: "/" + first[os.path.realpath(p)] for name, p in sources.items()
             if name not in files}
    names = []
    for module in modules:
        name, data = plain(module)
        files[f"modules/{name}"] = data
        names.append(name + "\n")
    files["modules/order"] = "".join(names).encode()
    archive = Archive()
    folders = sorted({str(f) for name in (*files, *links) for f in Path(name).parents
                      if str(f) != "."})
    for folder in folders:
        archive.add_folder(folder)
    for name, data in files.items():
        archive.add(name, data)
    for name, target in links.items():
        archive.add_link(name, target)
    archive.write(path)
    return path
