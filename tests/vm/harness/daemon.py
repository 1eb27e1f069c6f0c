# SPDX-License-Identifier: BSD-3-Clause
"""vqliftd with a configuration of its own, and the vqlift command that talks to it."""
import json
import os
import signal
import socket
import struct
from pathlib import Path

from .process import Failed, Process, sh, wait_for


def yaml(value, indent=0):
    """Enough of YAML for a configuration: maps, lists and JSON's scalars."""
    pad = " " * indent
    if isinstance(value, dict):
        lines = []
        for key, inner in value.items():
            if isinstance(inner, (dict, list)) and inner:
                lines += [f"{pad}{key}:", yaml(inner, indent + 2)]
            else:
                lines.append(f"{pad}{key}: {json.dumps(inner)}")
        return "\n".join(lines)
    lines = []
    for inner in value:
        if isinstance(inner, dict):
            text = yaml(inner, indent + 2)
            lines.append(f"{pad}- {text[indent + 2:]}")
        else:
            lines.append(f"{pad}- {json.dumps(inner)}")
    return "\n".join(lines)


class Daemon:
    """ports and settings are the keys of the configuration file."""

    def __init__(self, folder, netns, build, ports, **settings):
        self.folder, self.netns, self.build = folder, netns, Path(build)
        self.control = folder / "control"
        self.file = folder / "vqliftd.yaml"
        self.ports = ports
        self.settings = {"control": str(self.control), "state-dir": str(folder / "state"),
                         "huge": "no",
                         "log-level": os.environ.get("VQVM_LOG_LEVEL", "info"), **settings}
        (folder / "state").mkdir(exist_ok=True)
        self.process = None
        self.start()

    def start(self):
        self.file.write_text(yaml({"daemon": self.settings, "ports": self.ports}) + "\n")
        self.process = self.netns.process([self.build / "tools/vqliftd/vqliftd", "-c", self.file],
                                          self.folder / "vqliftd.log")
        wait_for("vqliftd serves its control socket", self._answers, 60)

    def _answers(self):
        if not self.process.alive():
            raise Failed(f"vqliftd ended: {self.process.output()[-2000:]}")
        try:
            return self.ask("show", "version")
        except Failed:
            return None

    def ask(self, *words):
        """The answer of the command line tool, as JSON."""
        return json.loads(sh(self.build / "tools/vqlift/vqlift", "-j", "-s", self.control, *words))

    def add(self, port):
        """While the daemon runs: it forgets the port when it ends."""
        options = [word for key, value in port.items() if key != "name"
                   for word in (f"--{key}", value)]
        self.ask("port", "add", port["name"], *options)
        self.ports.append(port)

    def delete(self, port):
        self.ask("port", "del", port["name"])
        self.ports.remove(port)

    def port(self, name):
        return self.ask("port", "show", name)

    def packets(self, name):
        """Packets so far, of each ring."""
        rings = self.ask("stats", name)[0]["rings"]
        return [r["counters"]["packets"] for r in rings]

    def check_rings_used(self, name, queues):
        """Packets went over every ring, so that no pair was tested only by name."""
        packets = self.packets(name)
        if len(packets) != 2 * queues or 0 in packets:
            raise Failed(f"packets of the rings: {packets}, expected some on {2 * queues}")

    def wait_state(self, name, *states, timeout=60):
        return wait_for(f"port {name} is {' or '.join(states)}",
                        lambda: self.port(name)["state"] in states, timeout)

    def serving(self):
        """The process that serves the control socket, None while there is none: with a standby it
        is not the one that we started."""
        with socket.socket(socket.AF_UNIX) as peer:
            if peer.connect_ex(str(self.control)):
                return None
            return struct.unpack("iII", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED,
                                                        12))[0]

    def wait_standby(self):
        """It waits for its turn."""
        pid = self.process.pid
        serving = self.serving()

        def ready():
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            waiting = [child for child in children if int(child) != serving]
            return waiting and f"daemon {waiting[0]} is ready" in self.process.output()

        wait_for("the standby is ready", ready, step=0.01)

    def stop(self, number=signal.SIGTERM):
        code = self.process.stop(number)
        if number == signal.SIGTERM and code != 0:
            raise Failed(f"vqliftd ended with {code}: {self.process.output()[-2000:]}")

    def counts(self):
        """Open files and mappings."""
        pid = self.process.pid
        maps = Path(f"/proc/{pid}/maps").read_text().count("\n")
        return {"fds": len(os.listdir(f"/proc/{pid}/fd")), "maps": maps}

    def rss_kib(self):
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        raise Failed("no VmRSS")

    def cpu_seconds(self):
        # Behind the name in parentheses; utime and stime are fields 14 and 15.
        stat = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.process.stop()
