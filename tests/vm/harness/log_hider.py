# SPDX-License-Identifier: BSD-3-Clause
"""Stands between a front-end and a back-end, and gives the back-end another dirty log than the one
that the front-end looks into.  A migration that succeeds all the same proves nothing about the log.
"""
import array
import os
import selectors
import socket
import struct
import threading

from .process import Failed

HEADER, SET_LOG_BASE, MAX_FDS = 12, 6, 8


def receive(end, size):
    """Exactly so many bytes and the descriptors with them; nothing if the other side is gone."""
    data, fds = b"", []
    while len(data) < size:
        part, rights, _, _ = end.recvmsg(size - len(data), socket.CMSG_SPACE(4 * MAX_FDS))
        for level, kind, numbers in rights:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds += array.array("i", numbers[:len(numbers) - len(numbers) % 4])
        if not part:
            break
        data += part
    return data, fds


def send(end, data, fds):
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    sent = end.sendmsg([data], rights)
    end.sendall(data[sent:])
    for fd in fds:
        os.close(fd)


class LogHider:
    """path: where it listens, for one front-end; backend: the socket of the real back-end."""

    def __init__(self, path, backend):
        self.hidden = 0
        self.backend = socket.socket(socket.AF_UNIX)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen(1)
        self.backend_path = str(backend)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        try:
            front, _ = self.listener.accept()
        except OSError:
            return                  # closed before anybody came
        self.backend.connect(self.backend_path)
        with front, selectors.DefaultSelector() as ready:
            ready.register(front, selectors.EVENT_READ, (front, self.backend))
            ready.register(self.backend, selectors.EVENT_READ, (self.backend, front))
            try:
                while all(self._pass(*key.data) for key, _ in ready.select()):
                    pass
            except OSError:
                pass                # one side went away in the middle of a message
        self.backend.close()

    def _pass(self, source, target):
        header, fds = receive(source, HEADER)
        if len(header) < HEADER:
            return False
        request, _, size = struct.unpack("<III", header)
        body, more = receive(source, size) if size else (b"", [])
        if request == SET_LOG_BASE and fds:
            fds = [self._another(fds[0])]
        send(target, header + body, fds + more)
        return True

    def _another(self, fd):
        """A log of the same size that nobody reads."""
        other = os.memfd_create("hidden-log")
        os.ftruncate(other, os.fstat(fd).st_size)
        os.close(fd)
        self.hidden += 1
        return other

    def check_used(self):
        if not self.hidden:
            raise Failed("no dirty log came by, so none was hidden")

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(10)
