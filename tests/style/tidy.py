# SPDX-License-Identifier: BSD-3-Clause
"""clang-tidy over every C file of the build, with the checks that .clang-tidy gives reasons for.

A file that was clean is not looked at again until what the compiler sees of it, or a configuration,
changes: the build folder holds a mark for each clean one.
"""

import concurrent.futures
import hashlib
import json
import pathlib
import re
import shlex
import shutil
import subprocess

import tree as t

HERE = pathlib.Path(__file__).resolve().parent
JOBS = 2
FILE_SECONDS_MAX = 300
CONFIG = ".clang-tidy"
CONFIGS = (CONFIG, "tests/" + CONFIG)
# The definition of vql_fail() itself is not to be replaced by the header's.
HINTS = "tests/style/analyzer.h"
WITHOUT_HINTS = "lib/base/error.c"
FINDING = re.compile(r"^([^\s:][^:\n]*):(\d+):\d+: (?:warning|error): (.*)$", re.MULTILINE)


def extra(tree, path):
    hints = tree.root / HINTS
    if path == WITHOUT_HINTS or not hints.exists():
        return []
    return ["-I" + str(tree.root / "lib"), "-include", str(hints)]


def flags(entry):
    """Of the compiler, without the file and what it makes."""
    words = [w for w in shlex.split(entry["command"])[1:] if w not in ("-c", "-MD", entry["file"])]
    for option in ("-o", "-MF", "-MQ"):
        if option in words:
            del words[words.index(option):words.index(option) + 2]
    return words


def fingerprint(tree, path, entry):
    """Of all that the outcome depends on, comments (and what they switch off) included."""
    command = ["clang", "-E", "-C", *flags(entry), entry["file"], *extra(tree, path)]
    text = subprocess.run(command, cwd=entry["directory"], capture_output=True, check=False).stdout
    key = hashlib.sha256(text + " ".join(command).encode())
    for config in CONFIGS:
        if (tree.root / config).exists():
            key.update((tree.root / config).read_bytes())
    return key.hexdigest()


def tidy(tree, path, entry):
    """(output, failed) of clang-tidy; nothing for a file that is marked clean."""
    mark = tree.build / "tidy-clean" / fingerprint(tree, path, entry)
    if mark.exists():
        return "", False
    # With a database of commands it would look at a file once for each time that it is compiled.
    command = ["clang-tidy", "--quiet", str(tree.root / path), "--", *flags(entry),
               *extra(tree, path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False,
                              cwd=entry["directory"], timeout=FILE_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        return f"took more than {FILE_SECONDS_MAX} s", True
    if done.returncode:
        return done.stdout or done.stderr, True
    mark.parent.mkdir(exist_ok=True)
    mark.touch()
    return "", False


def report_file(tree, path, outcome, seen, report):
    output, failed = outcome
    hits = FINDING.findall(output)
    for name, line, text in hits:
        inside = (tree.build / name).resolve()
        place = inside.relative_to(tree.root) if inside.is_relative_to(tree.root) else name
        if (place, line, text) not in seen:
            seen.add((place, line, text))
            report.bad(place, line, text)
    if failed and not hits:
        report.bad(path, 1, f"clang-tidy failed: {output.strip()[-400:]}")


def check(tree, report):
    commands, seen = tree.compile_commands(), set()
    # Long ones first, so that the last job is a short one.
    paths = sorted(commands, key=lambda p: ("instances" not in p, p))
    report.look(len(paths))
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        outcomes = pool.map(lambda p: tidy(tree, p, commands[p]), paths)
        for path, outcome in zip(paths, outcomes):
            report_file(tree, path, outcome, seen, report)


def prepare(tree):
    """The sample gets the real configuration and a compile command for each of its C files."""
    for name in (CONFIG, HINTS, "lib/base/error.h"):
        (tree.root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(HERE.parents[1] / name, tree.root / name)
    commands = [{"directory": str(tree.build), "file": str(tree.root / f),
                 "command": f"gcc -std=gnu11 -I{tree.root} -I{tree.root}/lib -c {tree.root / f}"}
                for f in tree.files(".c")]
    (tree.build / "compile_commands.json").write_text(json.dumps(commands))


FAILING = """#include "base/error.h"
static int get(int a, int *ret_b)
{
        if (a > 3)
                return vql_fail(NULL, 22, "%d", a);
        *ret_b = a;
        return 0;
}
int f(int a);
int f(int a)
{
        int b;

        return get(a, &b) < 0 ? -1 : b;
}
"""
SAMPLES = [
    t.Sample({"lib/a.c": "#include <stddef.h>\n" + FAILING}),
    t.Sample({"lib/a.c": "int f(int *a);\nint f(int *a)\n{\n        if (!a)\n"
              "                return *a;\n        return 0;\n}\n"}, "lib/a.c:5: Dereference"),
    t.Sample({"lib/a.h": "static inline long a(int b)\n{\n        return b * b;\n}\n",
              "lib/a.c": "#include \"lib/a.h\"\nlong b(int c);\nlong b(int c)\n{\n"
              "        return a(c);\n}\n"}, "lib/a.h:3: performing an implicit widening"),
    t.Sample({"lib/a.c": "int f(void)\n{\n        return undeclared;\n}\n"}, "undeclared"),
]

if __name__ == "__main__":
    t.run(check, SAMPLES, prepare)
