# SPDX-License-Identifier: BSD-3-Clause
"""cppcheck over every C file of the build; suppressions with reasons in cppcheck.supp."""

import json
import pathlib
import re
import subprocess

import tree as t

HERE = pathlib.Path(__file__).resolve().parent
JOBS = 2
SECONDS_MAX = 400
# One configuration, because the build has one.
OPTIONS = ["--enable=warning,performance,portability,style", "--inline-suppr", "--quiet",
           "--std=c11", "--max-configs=1", "--error-exitcode=2",
           "--template={file}:{line}: {message} [{id}]", f"-j{JOBS}",
           f"--suppressions-list={HERE / 'cppcheck.supp'}", f"--library={HERE / 'cppcheck.cfg'}"]
FINDING = re.compile(r"^(.+?):(\d+): (.* \[[\w-]+\])$", re.MULTILINE)


def own_database(tree):
    """compile_commands.json without what is not ours, as cppcheck reads it."""
    commands = []
    for path, entry in sorted(tree.compile_commands().items()):
        # System headers are not parsed: what matters of them is in cppcheck's own libraries.
        command = re.sub(r"\s-(isystem\s*|include\s+)\S+", "", entry["command"])
        commands.append({**entry, "command": command, "file": str(tree.root / path)})
    database = tree.build / "cppcheck_commands.json"
    database.write_text(json.dumps(commands))
    return database, len(commands)


def check(tree, report):
    database, count = own_database(tree)
    report.look(count)
    if not count:
        return
    cache = tree.build / "cppcheck-cache"
    cache.mkdir(exist_ok=True)
    command = ["cppcheck", *OPTIONS, f"--cppcheck-build-dir={cache}", f"--project={database}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tree.root,
                              timeout=SECONDS_MAX)
    except subprocess.TimeoutExpired:
        report.bad("tree", 0, f"cppcheck took more than {SECONDS_MAX} s")
        return
    hits = FINDING.findall(done.stderr)
    for name, line, text in sorted(set(hits)):
        report.bad(name.removeprefix(f"{tree.root}/"), line, text)
    if done.returncode and not hits:
        report.bad("tree", 0, f"cppcheck failed: {(done.stderr or done.stdout).strip()[-400:]}")


def prepare(tree):
    commands = [{"directory": str(tree.build), "file": str(tree.root / f),
                 "command": f"gcc -I{tree.root} -c {tree.root / f}"} for f in tree.files(".c")]
    (tree.build / "compile_commands.json").write_text(json.dumps(commands))


SAMPLES = [
    t.Sample({"lib/a.c": "int f(int a)\n{\n        return a;\n}\n"}),
    t.Sample({"lib/a.c": "int f(int a)\n{\n        int b[2] = { a, a };\n\n"
              "        return b[2];\n}\n"}, "lib/a.c:5: Array 'b[2]' accessed at index 2"),
    t.Sample({"lib/a.c": "int f(int a)\n{\n        int b;\n\n        b = a;\n        return a;\n"
              "}\n"}, "unreadVariable"),
]

if __name__ == "__main__":
    t.run(check, SAMPLES, prepare)
