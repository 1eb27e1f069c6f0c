# SPDX-License-Identifier: BSD-3-Clause
"""A guest's root shell on a serial port that is a Unix socket."""
import re
import socket
import time

from .process import Failed, wait_for

GREETING = rb"@@ready\r?\n"


class Console:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        wait_for(f"console {path}", lambda: self.socket.connect_ex(str(path)) == 0, 30)
        self.received = b""
        self.marks = 0

    def close(self):
        self.socket.close()

    def expect(self, pattern, timeout):
        """Take everything up to and with the pattern; return the match and what came before."""
        end = time.monotonic() + timeout
        while True:
            match = re.search(pattern, self.received)
            if match:
                before = self.received[:match.start()]
                self.received = self.received[match.end():]
                return match, before.decode(errors="replace")
            left = end - time.monotonic()
            if left <= 0:
                raise Failed(f"guest: no {pattern!r} within {timeout} s: "
                             f"{self.received[-800:].decode(errors='replace')}")
            self.socket.settimeout(left)
            try:
                chunk = self.socket.recv(65536)
            except TimeoutError:
                continue
            if not chunk:
                raise Failed("guest: the console is closed")
            self.received += chunk

    def send(self, text):
        self.socket.settimeout(30)
        self.socket.sendall(text.encode())

    def start(self, command):
        """Give the command without waiting; finish() takes the mark that this returns."""
        self.marks += 1
        # The shell puts the mark together, so that an echo of the command does not hold it.
        self.send(f"{command}\nprintf '\\n@%s:%d@\\n' 'm{self.marks}' $?\n")
        return f"@m{self.marks}:"

    def finish(self, mark, timeout=60):
        match, before = self.expect(re.escape(mark.encode()) + rb"(\d+)@\r?\n", timeout)
        return int(match[1]), before.replace("\r", "").strip()

    def attempt(self, command, timeout=60):
        return self.finish(self.start(command), timeout)

    def run(self, command, timeout=60):
        code, text = self.attempt(command, timeout)
        if code:
            raise Failed(f"guest: {command}: exit code {code}\n{text}")
        return text
