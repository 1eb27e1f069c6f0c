# SPDX-License-Identifier: BSD-3-Clause
"""The cheapest front-end there is: it connects, sets up one pair of rings, and is idle."""
import array
import os
import socket
import struct

GET_FEATURES, SET_FEATURES, SET_OWNER, SET_MEM_TABLE = 1, 2, 3, 5
SET_VRING_NUM, SET_VRING_ADDR, SET_VRING_BASE = 8, 9, 10
SET_VRING_KICK, SET_VRING_CALL = 12, 13
GET_PROTOCOL_FEATURES, SET_PROTOCOL_FEATURES, SET_VRING_ENABLE = 15, 16, 18
VERSION, NEED_REPLY = 1, 8
PROTOCOL_FEATURES, VERSION_1, REPLY_ACK = 1 << 30, 1 << 32, 1 << 3
RING_SIZE, MEMORY = 256, 1 << 20
USER = 0x7f0000000000           # where the guest's memory would be in our address space


class FrontEnd:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        try:
            self.socket.connect(str(path))
        except OSError:
            self.socket.close()
            raise
        self.memory = os.memfd_create("front-end")
        os.ftruncate(self.memory, MEMORY)
        self.eventfds = []
        self._negotiate()
        for ring in range(2):
            self._start_ring(ring)

    def _send(self, request, body=b"", fds=(), flags=0):
        head = struct.pack("<III", request, VERSION | flags, len(body))
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.socket.sendmsg([head + body], rights)

    def _ask(self, request, body=b"", fds=(), flags=0):
        self._send(request, body, fds, flags)
        answer = self.socket.recv(12 + 8, socket.MSG_WAITALL)
        return struct.unpack("<IIIQ", answer)[3]

    def _tell(self, request, body, fds=()):
        if self._ask(request, body, fds, NEED_REPLY) != 0:
            raise RuntimeError(f"request {request} was refused")

    def _negotiate(self):
        features = self._ask(GET_FEATURES)
        protocol = self._ask(GET_PROTOCOL_FEATURES)
        self._send(SET_PROTOCOL_FEATURES, struct.pack("<Q", protocol & REPLY_ACK))
        self._tell(SET_OWNER, b"")
        self._tell(SET_FEATURES, struct.pack("<Q", features & (PROTOCOL_FEATURES | VERSION_1)))
        region = struct.pack("<IIQQQQ", 1, 0, 0, MEMORY, USER, 0)
        self._tell(SET_MEM_TABLE, region, [self.memory])

    def _start_ring(self, ring):
        at = USER + ring * 0x10000
        self._tell(SET_VRING_NUM, struct.pack("<II", ring, RING_SIZE))
        self._tell(SET_VRING_BASE, struct.pack("<II", ring, 0))
        self._tell(SET_VRING_ADDR, struct.pack("<IIQQQQ", ring, 0, at, at + 0x4000, at + 0x2000,
                                               0))
        for request in (SET_VRING_CALL, SET_VRING_KICK):
            fd = os.eventfd(0)
            self.eventfds.append(fd)
            self._tell(request, struct.pack("<Q", ring), [fd])
        self._tell(SET_VRING_ENABLE, struct.pack("<II", ring, 1))

    def close(self):
        self.socket.close()
        for fd in (self.memory, *self.eventfds):
            os.close(fd)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
