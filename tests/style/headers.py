# SPDX-License-Identifier: BSD-3-Clause
"""Every header compiles alone and twice; public ones also as strict C11 and as C++17."""

import os
import shlex
import subprocess

import csource
import tree as t

WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Wstrict-prototypes", "-Wmissing-prototypes"]
PUBLIC = "include/vqlift/"
# The one public header that may speak of packet buffers.
BURST_API = "include/vqlift/burst.h"
# Their own files include one another from here, too.
OWN_ROOTS = ("tests/", "tools/")
# It drives rings with the test front-end.
BENCH = "tools/vqlift-bench/"
LANGUAGES = {
    "C11": ["gcc", "-x", "c", "-std=c11", "-pedantic"] + WARNINGS,
    "C++17": ["g++", "-x", "c++", "-std=c++17", "-pedantic", "-Wall", "-Wextra", "-Wshadow"],
}


def build_flags(commands, header):
    """Macros of the source file that is nearest, and the include paths of all of them."""
    if not commands:
        return []
    near = max(sorted(commands), key=lambda c: len(os.path.commonprefix([c, header])))
    flags = [w for w in shlex.split(commands[near]["command"]) if w.startswith("-D")]
    paths = {}
    for entry in commands.values():
        words = shlex.split(entry["command"])
        for word, following in zip(words, words[1:] + [""]):
            if word in ("-isystem", "-include"):
                paths[word + following] = [word, following]
            elif word.startswith(("-isystem", "-march")):
                paths[word] = [word]
    return flags + [w for words in paths.values() for w in words]


def compile_alone(tree, command, header):
    """The first line that the compiler has to say, or ""."""
    twice = f'#include "{tree.root / header}"\n' * 2 + "extern int vql_not_empty;\n"
    done = subprocess.run(command + ["-Werror", "-fsyntax-only", "-"], input=twice, text=True,
                          capture_output=True, cwd=tree.root, check=False)
    lines = [line for line in done.stderr.splitlines() if "error:" in line]
    return "" if done.returncode == 0 else (lines or done.stderr.splitlines() or ["failed"])[0]


def check_public(tree, report, header):
    for language, command in LANGUAGES.items():
        wrong = compile_alone(tree, command + ["-Iinclude"], header)
        if wrong and header != BURST_API:
            report.bad(header, 1, f"does not compile alone as {language}: {wrong}")
    for line, _, name in csource.includes(tree.text(header)):
        if name.startswith("rte_") and header != BURST_API:
            report.bad(header, line, f"includes {name}, expected no DPDK header outside "
                       f"{BURST_API}")


def check(tree, report):
    database = tree.build / "compile_commands.json"
    commands = tree.compile_commands() if database.exists() else {}
    for header in tree.files(".h"):
        report.look()
        flags = build_flags(commands, header) + ["-Iinclude", "-Ilib", "-I."]
        if header.startswith(OWN_ROOTS):
            flags.append("-I" + header.split("/")[0])
        if header.startswith(BENCH):
            flags.append("-Itests")
        wrong = compile_alone(tree, ["gcc", "-x", "c", "-std=gnu11"] + WARNINGS + flags, header)
        if wrong:
            report.bad(header, 1, f"does not compile alone and twice as gnu11: {wrong}")
        if header.startswith(PUBLIC):
            check_public(tree, report, header)


def guarded(text):
    return f"#ifndef A_H\n#define A_H\n{text}\n#endif\n"


SAMPLES = [
    t.Sample({"include/vqlift/a.h": guarded("#include <stdint.h>\nextern uint8_t a;")}),
    t.Sample({"lib/x/a.h": guarded("extern uint8_t a;")}, "compile alone and twice as gnu11"),
    t.Sample({"lib/x/a.h": "struct a { int b; };\n"}, "compile alone and twice as gnu11"),
    t.Sample({"lib/x/a.h": guarded("static int f(void) { int a; return 0; }")}, "as gnu11"),
    t.Sample({"include/vqlift/a.h": guarded("extern int new;")}, "alone as C++17"),
    t.Sample({"include/vqlift/a.h": guarded("struct a { struct { int b; } c[0]; };")},
             "alone as C11"),
    t.Sample({"include/vqlift/a.h": guarded("#include <rte_mbuf.h>")}, "includes rte_mbuf.h"),
]

if __name__ == "__main__":
    t.run(check, SAMPLES)
