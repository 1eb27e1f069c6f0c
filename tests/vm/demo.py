# SPDX-License-Identifier: BSD-3-Clause
"""The second half of tools/demo: what happens once everything is built."""
import hashlib
import os
import signal
import sys
import time
from pathlib import Path

from harness.machine import nic_options, vhost_user_arguments
from harness.network import FAR4
from harness.process import Failed, sh
from harness.report import Report
from harness.rig import Place, Rig

FILE_MB = 50
PORT = 5001
GUEST4 = "10.9.0.2"


def say(step, text):
    print(f"[{step}/6] {text}", flush=True)


def detail(text):
    print("      " + text.rstrip().replace("\n", "\n      "), flush=True)


def start_daemon(rig):
    say(3, f"vqliftd, with a tap in the network namespace {rig.far.name}")
    port = rig.port()
    daemon = rig.daemon(port)
    detail(daemon.file.read_text())
    return port, daemon


def boot(rig, port):
    say(4, "a guest: QEMU without KVM, Debian's kernel, an initramfs made just now")
    arguments = vhost_user_arguments(port["socket"], nic_options({}))
    detail(" ".join(str(a) for a in arguments))
    vm = rig.vm(arguments=arguments).wait_ready()
    guest = rig.guest(vm)
    guest.configure()
    guest.wait_path()
    detail(f"the guest is up after {vm.seconds():.1f} s")
    return vm


def ping(vm):
    say(5, f"ping, and a file of {FILE_MB} MB both ways")
    detail(vm.console.run(f"ping -c 3 -i 0.2 {FAR4}"))


def compare(what, start, here, there):
    if here != there:
        raise Failed(f"{what}: sha256 {here} here, {there} there")
    detail(f"{what}: {FILE_MB} MB in {time.monotonic() - start:.1f} s with both checksums,"
           f" sha256 {here[:16]}... on both sides")


def guest_sum(vm, path):
    return vm.console.run(f"sha256sum {path}", 120).split()[0]


def move_files(rig, vm):
    vqpeer = rig.place.vqpeer
    content = os.urandom(FILE_MB * 1000 * 1000)
    (rig.folder / "down").write_bytes(content)
    start = time.monotonic()
    mark = vm.console.start(f"vqpeer recv-file {PORT} /tmp/down")
    rig.far.run(f"{vqpeer} send-file {GUEST4} {PORT} {rig.folder}/down")
    vm.console.finish(mark)
    compare("to the guest", start, hashlib.sha256(content).hexdigest(),
            guest_sum(vm, "/tmp/down"))

    vm.console.run(f"rm /tmp/down; head -c {FILE_MB}000000 /dev/urandom >/tmp/up", 120)
    start = time.monotonic()
    receiver = rig.far.process([vqpeer, "recv-file", PORT, rig.folder / "up"],
                               rig.folder / "recv-file.log")
    vm.console.run(f"vqpeer send-file {FAR4} {PORT} /tmp/up", 120)
    receiver.finish()
    received = hashlib.sha256((rig.folder / "up").read_bytes()).hexdigest()
    compare("from the guest", start, received, guest_sum(vm, "/tmp/up"))


def show_state(daemon):
    say(6, "what the daemon says")
    for words in (["port", "show"], ["stats"]):
        detail("$ vqlift " + " ".join(words))
        detail(sh(daemon.build / "tools/vqlift/vqlift", "-s", daemon.control, *words))


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("demo: stopped"))
    signal.signal(signal.SIGHUP, lambda *_: sys.exit("demo: stopped"))
    build = Path(sys.argv[1]).resolve()
    start = time.monotonic()
    try:
        report = Report(build / "vm-logs")
        with Rig(Place(build, report.logs).prepare(), report) as rig:
            rig.open(inside=True)
            port, daemon = start_daemon(rig)
            vm = boot(rig, port)
            ping(vm)
            move_files(rig, vm)
            show_state(daemon)
    except Failed as failure:
        sys.exit(f"demo: {failure}")
    except KeyboardInterrupt:
        sys.exit("demo: stopped")
    print(f"done in {time.monotonic() - start:.0f} s; the guest, the daemon and the namespaces"
          " are gone again")


if __name__ == "__main__":
    main()
