# SPDX-License-Identifier: BSD-3-Clause
"""No mutable variables of file scope (or static ones in functions) in the library."""

import re
import subprocess

import tree as t

STATIC = "libvqlift-core.a"
WRITABLE = re.compile(r"\.(data|bss|tdata|tbss)(?!\.rel\.ro)|\*COM\*")
# object:symbol, without the number that the compiler appends to function-local ones: why.
ALLOWED = {
    "port_device_state.c:crc32_alg": "which instructions this CPU has; DPDK's header defines it",
    "memory_sigbus.c:guard": "signals and their handlers belong to the process",
    "uplink.c:control": "a lock: DPDK's devices and their numbers belong to the process",
}


def symbols(archive):
    """(object, symbol, section) of every object that the archive defines."""
    out = subprocess.run(["nm", "--defined-only", "--format=sysv", str(archive)],
                         capture_output=True, text=True, check=True).stdout
    member = ""
    for line in out.splitlines():
        start = re.match(r"Symbols from .*\[(.*)\]:", line)
        if start:
            member = start.group(1).split("/")[-1].split("_", 1)[-1]
        columns = [c.strip() for c in line.split("|")]
        if len(columns) == 7 and columns[0] != "Name":
            yield member, re.sub(r"\.\d+$", "", columns[0]), columns[6]


def object_name(member):
    """meson calls the object of lib/memory/sigbus.c memory_sigbus.c.o."""
    return member.removesuffix(".o")


def check(tree, report):
    used = set()
    for member, name, section in symbols(tree.build / STATIC):
        report.look()
        key = f"{object_name(member)}:{name}"
        if not WRITABLE.match(section):
            continue
        used.add(key)
        if key not in ALLOWED:
            report.bad(object_name(member), 0, f"{name} is in {section}, expected no mutable "
                       "variables: hang it off a context")
    if tree.files("meson.build"):
        for key in sorted(set(ALLOWED) - used):
            report.bad("tests/style/globals.py", 0, f"{key} is allowed but not there any more")


def build(tree):
    subprocess.run(["gcc", "-fPIC", "-c", tree.root / "a.c", "-o", tree.build / "x_a.c.o"],
                   check=True)
    subprocess.run(["ar", "rc", tree.build / STATIC, tree.build / "x_a.c.o"], check=True)


SAMPLES = [
    t.Sample({"a.c": "int f(void);\nstatic const char *const n[] = { \"a\" };\n"
              "const char *const *g(void);\nconst char *const *g(void) { return n; }\n"}),
    t.Sample({"a.c": "static int n;\nint f(void) { return n++; }\n"}, "a.c:0: n is in .bss"),
    t.Sample({"a.c": "int f(void) { static int once = 1; return once++; }\n"}, "once is in .data"),
    t.Sample({"a.c": "static const char *n[] = { \"a\" };\nvoid f(void) { n[0]++; }\n"},
             "n is in .data"),
    t.Sample({"a.c": "static __thread int n;\nint f(void) { return n++; }\n"}, "n is in .tbss"),
]

if __name__ == "__main__":
    t.run(check, SAMPLES, build)
