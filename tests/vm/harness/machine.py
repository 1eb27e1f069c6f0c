# SPDX-License-Identifier: BSD-3-Clause
"""A QEMU machine under TCG, its shell and its control socket."""
import os
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from .console import GREETING, Console
from .process import Failed, Process, sh
from .qmp import Qmp
from .report import Skip

QEMU = "qemu-system-x86_64"
MAC = "52:54:00:12:34:56"

# Older ones under TCG corrupt the memory of a busy guest that migrates, whatever its NIC is.
MIGRATES_WELL = 10

BACKENDS = {
    "memfd": "memory-backend-memfd,id=ram,share=on,size={mb}M",
    "memfd-huge": "memory-backend-memfd,id=ram,share=on,hugetlb=on,hugetlbsize=2M,size={mb}M",
    # A folder, in which QEMU makes a file that is gone when it ends: hugetlbfs, or any other.
    "file": "memory-backend-file,id=ram,share=on,mem-path={folder},size={mb}M",
}


@dataclass(frozen=True)
class Memory:
    """slots: for modules that are plugged later, each of them and all of them at most max_mb."""
    kind: str = "memfd"
    mb: int = 256
    folder: Path = None
    slots: int = 0
    max_mb: int = 2048

    def arguments(self):
        hot_plug = f",slots={self.slots},maxmem={self.max_mb}M" if self.slots else ""
        return ["-m", f"{self.mb}M{hot_plug}", "-object",
                BACKENDS[self.kind].format(mb=self.mb, folder=self.folder)]


def migrating_qemu(unpacked):
    """A QEMU that is new enough to migrate guests: installed, or unpacked in that folder."""
    for program in (QEMU, unpacked / QEMU):
        if program == QEMU or os.access(program, os.X_OK):
            version = re.search(r"version (\d+)", sh(program, "--version"))
            if int(version[1]) >= MIGRATES_WELL:
                return program
    why_not = unpacked / "why-not"
    why = why_not.read_text().strip() if why_not.exists() else "tools/packages.sh qemu fetches it"
    raise Skip(f"no QEMU {MIGRATES_WELL} or newer: {why}")


def nic_options(options, netdev="net0", bus=None, rom="", mac=MAC):
    """virtio-net with these options.  QEMU 7.2 under TCG dies when a guest enables MSI-X on a
    vhost-user device, so the device has none."""
    fixed = {"driver": "virtio-net-pci", "id": f"nic-{netdev}", "netdev": netdev, "mac": mac,
             "vectors": 0}
    if rom is not None:
        fixed["romfile"] = rom
    if bus:
        fixed["bus"] = bus
    return {**fixed, **options}


def words(driver_options):
    """The options as -device takes them."""
    rest = {k: v for k, v in driver_options.items() if k != "driver"}
    def text(value):
        return {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value
    return ",".join([driver_options["driver"], *(f"{k}={text(v)}" for k, v in rest.items())])


class Vm:
    """boot: (kernel, initramfs), or None for firmware alone; append: more for the kernel's
    command line."""

    def __init__(self, name, folder, boot, arguments=(), *, memory=Memory(), cpus=1,
                 reboots=False, program=QEMU, append="", netns=None):
        self.name = name
        self.started = time.monotonic()
        self.console = self.qmp = None
        console, qmp = folder / f"{name}.console", folder / f"{name}.qmp"
        for path in (console, qmp):
            path.unlink(missing_ok=True)
        argv = [program, "-nodefaults", "-no-user-config", "-display", "none",
                "-machine", "q35,memory-backend=ram", "-accel", "tcg,thread=multi",
                "-cpu", "max", "-smp", cpus, *memory.arguments(),
                "-serial", f"file:{folder}/{name}.dmesg",
                "-chardev", f"socket,id=shell,path={console},server=on,wait=off",
                "-serial", "chardev:shell", "-qmp", f"unix:{qmp},server=on,wait=off"]
        if not reboots:
            argv += ["-no-reboot"]
        if boot:
            kernel, initramfs = boot
            argv += ["-kernel", kernel, "-initrd", initramfs, "-append",
                     f"console=ttyS0 panic=-1 quiet memhp_default_state=online {append}"]
        self.process = Process([*argv, *arguments], folder / f"{name}.qemu.log", netns)
        try:
            self.console = Console(console)
            self.qmp = Qmp(qmp)
        except Failed as error:
            self.kill()
            raise Failed(f"{error}\n{self.process.output()[-1500:]}") from None

    def wait_ready(self, timeout=180):
        self.console.expect(GREETING, timeout)
        return self

    def seconds(self):
        return time.monotonic() - self.started

    def kill(self):
        """As an out-of-memory killer would do it."""
        self.process.popen.kill()
        self.process.popen.wait()
        self._close()

    def stop(self):
        if self.process.alive() and self.qmp:
            try:
                self.qmp("quit")
                self.process.popen.wait(20)
            except (Failed, OSError, subprocess.TimeoutExpired):
                pass
        self.process.stop()
        self._close()

    def _close(self):
        for end in (self.console, self.qmp):
            if end:
                end.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.stop()


def vhost_user_arguments(socket, nic, queues=1, server=False, reconnect=False,
                         reconnect_ms=None):
    """The command line for a NIC on a vhost-user socket; server: QEMU listens."""
    chardev = f"socket,id=vu,path={socket}"
    if server:
        chardev += ",server=on,wait=off"
    if reconnect:
        chardev += ",reconnect=1"
    if reconnect_ms:
        chardev += f",reconnect-ms={reconnect_ms}"
    return ["-chardev", chardev, "-netdev", f"vhost-user,id=net0,chardev=vu,queues={queues}",
            "-device", words(nic)]
