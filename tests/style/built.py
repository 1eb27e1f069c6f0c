# SPDX-License-Identifier: BSD-3-Clause
"""Every C file belongs to a target of the build: a forgotten one is neither tested nor checked."""

import json

import tree as t

# Built elsewhere: by libFuzzer's build, and for the guest that the vm suite boots.
ELSEWHERE = ("tests/fuzz/", "tests/vm/")


def check(tree, report):
    commands = tree.compile_commands()
    for path in tree.files(".c"):
        if path.startswith(ELSEWHERE):
            continue
        report.look()
        if path not in commands:
            report.bad(path, 1, "is in no meson.build, expected it in the list of its folder")


def prepare(tree):
    entry = {"directory": str(tree.build), "file": str(tree.root / "lib/a.c"), "command": "gcc"}
    (tree.build / "compile_commands.json").write_text(json.dumps([entry]))


SAMPLES = [
    t.Sample({"lib/a.c": "int a;\n", "tests/fuzz/f.c": "int b;\n"}),
    t.Sample({"lib/a.c": "int a;\n", "lib/b.c": "int b;\n"}, "lib/b.c:1: is in no meson.build"),
]

if __name__ == "__main__":
    t.run(check, SAMPLES, prepare)
