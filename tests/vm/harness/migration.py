# SPDX-License-Identifier: BSD-3-Clause
"""Two hosts on one machine, and a guest that moves between them:

    QEMU - vqliftd - tap eth0 -.
                                bridge - far end's addresses
    QEMU - vqliftd - tap eth1 -'
"""
from .daemon import Daemon
from .log_hider import LogHider
from .machine import MAC, Memory, migrating_qemu, nic_options, vhost_user_arguments
from .network import configure
from .process import Failed, wait_for
from .report import Skip

FAST, SLOW = 1 << 34, 1 << 20           # bytes a second
DEFAULT_LIMIT_MS = 300
OVER = ("completed", "failed", "cancelled")
PAGEFAULT = 8                           # protocol feature


class Host:
    """A daemon with one port, and at times a QEMU."""

    def __init__(self, rig, n, queues, keys):
        self.rig, self.n, self.vm = rig, n, None
        folder = rig.folder / f"host{n}"
        folder.mkdir()
        self.port = rig.port(n, **{"queue-pairs": queues, **keys})
        self.daemon = rig.enter_context(Daemon(folder, rig.host, rig.place.build, [self.port]))
        rig.daemons.append(self.daemon)
        rig.far.adopt(f"eth{n}", rig.host)
        rig.far.run(f"ip link set eth{n} master br0 up")
        self.watcher = rig.enter_context(rig.far.process(
            [rig.place.vqpeer, "announcements", f"eth{n}"], rig.folder / f"announcements{n}.log"))
        self.watcher.wait_output("watching")

    def announcements(self, kind):
        return self.watcher.output().count(f"{kind} {MAC}")


class Pair:
    """nic: options of the guest's card.  hide_log: from the back-ends, as a control."""

    def __init__(self, rig, nic, queues=1, hide_log=False, postcopy=False):
        self.rig, self.queues, self.hide_log = rig, queues, hide_log
        self.memory = Memory(mb=128)
        self.capabilities = [{"capability": "postcopy-ram", "state": True}] if postcopy else []
        port_keys = {"postcopy": "yes"} if postcopy else {}
        self.program = migrating_qemu(rig.place.build / "qemu")
        self.nic = nic_options({"vectors": 2 * queues + 2, "mq": queues > 1, **nic})
        rig.far.run("ip link add br0 type bridge stp_state 0 mcast_snooping 0")
        self.here, self.there = (Host(rig, n, queues, port_keys) for n in range(2))
        configure(rig.far.run, "br0", 1, 1500)
        self.boots = 0
        self.guest = None
        self.hiders = []

    def _socket(self, host):
        if not self.hide_log:
            return host.port["socket"]
        path = self.rig.folder / f"hidden{self.boots}.sock"
        self.hiders.append(self.rig.enter_context(LogHider(path, host.port["socket"])))
        return path

    def _start(self, host, *arguments):
        self.boots += 1
        host.vm = self.rig.vm(
            f"guest{host.n}-{self.boots}", memory=self.memory, cpus=self.queues,
            program=self.program,
            arguments=[*vhost_user_arguments(self._socket(host), self.nic, self.queues),
                       *arguments])
        return host.vm

    def boot(self):
        vm = self._start(self.here).wait_ready()
        self.guest = self.rig.guest(vm)
        self.guest.configure()
        self.guest.serve()
        self.guest.wait_path()
        return self.guest

    @property
    def uri(self):
        return f"unix:{self.rig.folder}/migration"

    def expect(self, paused=False):
        """Start the QEMU that the guest will move to."""
        vm = self._start(self.there, "-incoming", "defer", *(["-S"] if paused else []))
        self._set_capabilities(vm)
        vm.qmp("migrate-incoming", uri=self.uri)
        return vm

    def _set_capabilities(self, vm):
        if self.capabilities:
            vm.qmp("migrate-set-capabilities", capabilities=self.capabilities)

    def begin(self, bandwidth=FAST, limit_ms=DEFAULT_LIMIT_MS):
        self._set_capabilities(self.here.vm)
        self.set_speed(bandwidth, limit_ms)
        self.here.vm.qmp("migrate", uri=self.uri)

    def set_speed(self, bandwidth, limit_ms=DEFAULT_LIMIT_MS):
        self.here.vm.qmp("migrate-set-parameters", max_bandwidth=bandwidth,
                         downtime_limit=limit_ms)

    def progress(self):
        return self.here.vm.qmp("query-migrate")

    def wait_pass(self, number):
        """Until the log was read that many times, with the guest still here."""
        def reached():
            q = self.progress()
            if q["status"] in OVER:
                raise Failed(f"the migration is over too soon: {q}")
            return q.get("ram", {}).get("dirty-sync-count", 0) >= number
        wait_for(f"pass {number} of the migration", reached, 120)

    def wait_moved(self, size):
        wait_for(f"{size} bytes of memory moved",
                 lambda: self.progress().get("ram", {}).get("transferred", 0) > size, 60)

    def need_postcopy(self):
        for host in (self.here, self.there):
            port = host.daemon.port(host.port["name"])
            if PAGEFAULT not in port["protocol-features-offered"]:
                raise Skip("the daemon finds no userfaultfd on this host")

    def wait_over(self, expected="completed"):
        q = wait_for("end of the migration",
                     lambda: (q := self.progress())["status"] in OVER and q, 120)
        if q["status"] != expected:
            raise Failed(f"the migration is {q['status']}: {q}\n"
                         f"{self.there.vm.process.output()[-1500:]}")
        return q

    def wait_arrived(self, state="running"):
        wait_for(f"the guest is {state} on the other side",
                 lambda: self.there.vm.qmp("query-status")["status"] == state, 60, 0.01)

    def change_over(self):
        """The guest is there now: what was there is here, and the old QEMU ends."""
        self.here.vm.stop()
        self.here.daemon.wait_state(self.here.port["name"], "waiting")
        self.here.vm = None
        self.here, self.there = self.there, self.here
        self.guest.vm = self.here.vm

    def cancel(self):
        """An attempt that ends while memory is being copied and the log is in use."""
        self.expect()
        self.begin(SLOW)
        self.wait_pass(1)
        self.wait_moved(SLOW // 4)
        self.here.vm.qmp("migrate_cancel")
        self.wait_over("cancelled")
        self.there.vm.stop()
        self.there.daemon.wait_state(self.there.port["name"], "waiting")
        self.there.vm = None


def announced(host, kind, before):
    wait_for(f"{kind} announcement at eth{host.n}",
             lambda: host.announcements(kind) > before, 30)
