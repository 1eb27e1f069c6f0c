# SPDX-License-Identifier: BSD-3-Clause
"""QEMU's control socket."""
import json
import socket

from .process import Failed, wait_for


class Qmp:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        wait_for(f"QMP {path}", lambda: self.socket.connect_ex(str(path)) == 0, 30)
        # A QEMU that waits for its back-end answers nothing.
        self.socket.settimeout(60)
        self.stream = self.socket.makefile("rw")
        self.events = []
        self._receive()
        self("qmp_capabilities")

    def close(self):
        self.socket.close()

    def _receive(self):
        line = self.stream.readline()
        if not line:
            raise Failed("QMP: closed")
        return json.loads(line)

    def __call__(self, command, **arguments):
        names = {k.replace("_", "-"): v for k, v in arguments.items()}
        self.stream.write(json.dumps({"execute": command, "arguments": names}) + "\n")
        self.stream.flush()
        while True:
            answer = self._receive()
            if "event" in answer:
                self.events.append(answer)
            elif "error" in answer:
                raise Failed(f"QMP {command}: {answer['error']['desc']}")
            else:
                return answer["return"]

    def wait_event(self, name, **data):
        """Take the first event of that name whose data holds these."""
        while True:
            for event in self.events:
                if event["event"] == name and data.items() <= event.get("data", {}).items():
                    self.events.remove(event)
                    return event
            answer = self._receive()
            if "event" in answer:
                self.events.append(answer)
