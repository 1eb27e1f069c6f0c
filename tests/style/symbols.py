# SPDX-License-Identifier: BSD-3-Clause
"""What the libraries export: the map's list, which is the public headers' list, and no more."""

import re
import subprocess

import csource
import tree as t

MAP = "lib/vqlift.map"
SHARED = "libvqlift.so"
STATIC = "libvqlift-core.a"
PREFIX = "vql_"
# Declared for programs that are built with the tree (drivers), not for strangers.
INTERNAL_HEADERS = ("include/vqlift/driver.h",)


def map_names(text):
    """{name: line} of the global part of a version script."""
    names = {}
    text = csource.strip(text)
    for block in re.finditer(r"global:(.*?)(?:local:|\})", text, re.DOTALL):
        for m in re.finditer(r"([\w*]+)\s*;", block.group(1)):
            names[m.group(1)] = t.line_of(text, block.start(1) + m.start())
    return names


def declared(tree):
    """{name: (header, line)} of the functions of the public headers."""
    names = {}
    for header in tree.files(".h", under="include/vqlift/"):
        if header not in INTERNAL_HEADERS:
            for f in csource.declarations(tree.text(header)):
                names[f.name] = header, f.first
    return names


def nm(*arguments):
    """Names of defined symbols; the version that a shared library adds is cut off."""
    out = subprocess.run(["nm", "--defined-only", "--format=posix", *map(str, arguments)],
                         capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in out.splitlines()]
    return {r[0].split("@")[0] for r in rows if len(r) > 1 and r[1] != "A"}


def check(tree, report):
    in_map, in_headers = map_names(tree.text(MAP)), declared(tree)
    exported, archived = nm("-D", tree.build / SHARED), nm("-g", tree.build / STATIC)
    report.look(len(in_map) + len(in_headers) + len(archived))
    for name, (header, line) in in_headers.items():
        if name not in in_map:
            report.bad(header, line, f"{name}() is declared, expected a line in {MAP}")
        if name not in exported:
            report.bad(header, line, f"{name}() is declared, but {SHARED} does not export it")
    for name, line in in_map.items():
        if name not in in_headers:
            report.bad(MAP, line, f"{name} is in no header of include/vqlift")
    for name in sorted(exported - set(in_map)):
        report.bad(SHARED, 0, f"exports {name}, which is not in {MAP}")
    for name in sorted(archived):
        if not name.startswith(PREFIX):
            report.bad(STATIC, 0, f"{name} is visible to others, expected static or {PREFIX}*")


def build(tree):
    """A library of the sample, made the way that the build makes the real one."""
    out, obj = tree.build, tree.build / "a.o"
    subprocess.run(["gcc", "-fPIC", "-c", tree.root / "lib/a.c", "-o", obj], check=True)
    subprocess.run(["ar", "rc", out / STATIC, obj], check=True)
    subprocess.run(["gcc", "-shared", obj, "-o", out / SHARED,
                    f"-Wl,--version-script={tree.root / MAP}"], check=True)


def sample(code="int vql_a(void) { return 1; }\n", exported="vql_a;", header="int vql_a(void);\n"):
    return {"lib/a.c": code, MAP: "V_1 {\nglobal:\n" + exported + "\nlocal:\n *;\n};\n",
            "include/vqlift/a.h": header}


SAMPLES = [
    t.Sample(sample()),
    t.Sample(sample(header="typedef void vql_fn(int a);\n/* vql_b(int) */\nint vql_a(void);\n")),
    t.Sample(sample(header="int vql_a(void);\nint *vql_b(int a,\n int b);\n"),
             "a.h:2: vql_b() is declared, expected a line"),
    t.Sample(sample(exported="vql_a; vql_b;", header="int vql_a(void);\nint vql_b(void);\n"),
             "does not export it"),
    t.Sample(sample(exported="vql_a; vql_b;"), "vql_b is in no header"),
    t.Sample(sample("int vql_a(void) { return 1; }\nint vql_z(void) { return 1; }\n",
                    "vql_a; vql_*;"), "exports vql_z"),
    t.Sample(sample("int vql_a(void) { return 1; }\nint helper(void) { return 1; }\n"),
             "helper is visible to others"),
]

if __name__ == "__main__":
    t.run(check, SAMPLES, build)
