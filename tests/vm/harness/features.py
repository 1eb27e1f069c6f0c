# SPDX-License-Identifier: BSD-3-Clause
"""Which features a NIC's options stand for, so that no row tests something else than it says."""
from .process import Failed

# QEMU's option: feature bit, whether it is on unless said otherwise.
OPTIONS = {
    "csum": (0, True), "guest_csum": (1, True),
    "guest_tso4": (7, True), "guest_tso6": (8, True), "guest_ecn": (9, True),
    "host_tso4": (11, True), "host_tso6": (12, True), "host_ecn": (13, True),
    "mrg_rxbuf": (15, True), "mq": (22, False),
    "indirect_desc": (28, True), "event_idx": (29, True), "packed": (34, False),
}
VERSION_1 = 32

OFFLOADS_OFF = {name: False for name in OPTIONS
                if name.startswith(("csum", "guest_", "host_"))} | {
                    "gso": False, "guest_ufo": False, "host_ufo": False}


def check(guest_bits, nic):
    """guest_bits: the text of a virtio device's sysfs file "features", bit 0 first."""
    legacy = nic.get("disable-modern", False)
    expected = {bit: nic.get(name, default) for name, (bit, default) in OPTIONS.items()}
    expected[VERSION_1] = not legacy
    wrong = [f"{bit} is {guest_bits[bit]}" for bit, on in expected.items()
             if guest_bits[bit] != ("1" if on else "0")]
    if wrong:
        raise Failed(f"features of the guest: {guest_bits}; bit " + ", bit ".join(wrong))
