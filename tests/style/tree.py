# SPDX-License-Identifier: BSD-3-Clause
"""What the checkers share: the project's files, findings, self-tests and the outcome.

A checker is a function check(tree, report).  run() first tries it on samples, good and bad ones,
and then on the tree; a checker that misses a bad sample, or that finds nothing to look at, fails.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

# What a person would call a source file of this project, by suffix or by first line.
C_SUFFIXES = (".c", ".h")
SKIPPED = ("tests/fuzz/corpus/",)


class Tree:
    """The files that a commit would hold, and the build folder that belongs to them."""

    def __init__(self, root, build=None):
        self.root = pathlib.Path(root).resolve()
        self.build = pathlib.Path(build).resolve() if build else None
        self._files = None

    def files(self, *suffixes, under=""):
        """Paths relative to the root, sorted; all of them without a suffix given."""
        if self._files is None:
            self._files = self._list()
        return [f for f in self._files
                if f.startswith(under) and (not suffixes or f.endswith(suffixes))]

    def _list(self):
        found = self._list_git()
        if found is None:
            found = [str(p.relative_to(self.root)) for p in self.root.rglob("*")
                     if not p.relative_to(self.root).parts[0].startswith(("build", ".git"))]
        return sorted(f for f in set(found)
                      if not f.startswith(SKIPPED) and (self.root / f).is_file())

    def _list_git(self):
        """None outside a checkout (a release tarball, a sample)."""
        if not (self.root / ".git").exists():
            return None
        # A test run by sudo reads a checkout that belongs to somebody else.
        command = ["git", "-c", "safe.directory=*", "-C", str(self.root), "ls-files", "-z",
                   "--cached", "--others", "--exclude-standard"]
        out = subprocess.run(command, capture_output=True, check=True).stdout
        return [f for f in out.decode().split("\0") if f]

    def text(self, path):
        return (self.root / path).read_text(encoding="utf-8", errors="replace")

    def is_text(self, path):
        return b"\0" not in (self.root / path).read_bytes()[:4096]

    def interpreter(self, path):
        """"bash", "python3", ... of a script's first line, or ""."""
        first = self.text(path).partition("\n")[0]
        return first.split("/")[-1].split()[-1] if first.startswith("#!") else ""

    def shell_scripts(self):
        return [f for f in self.files() if f.endswith(".sh") or
                (self.is_text(f) and self.interpreter(f) in ("bash", "sh"))]

    def python_scripts(self):
        return [f for f in self.files() if f.endswith(".py") or
                (self.is_text(f) and self.interpreter(f).startswith("python"))]

    def compile_commands(self):
        """{path: command} for the project's own C files, each once."""
        commands = {}
        for entry in json.loads((self.build / "compile_commands.json").read_text()):
            path = (pathlib.Path(entry["directory"]) / entry["file"]).resolve()
            inside = path.is_relative_to(self.root) and not path.is_relative_to(self.build)
            if inside and path.suffix == ".c" and path.exists():
                commands.setdefault(str(path.relative_to(self.root)), entry)
        return commands


class Report:
    def __init__(self):
        self.findings = []
        self.looked = 0

    def look(self, count=1):
        self.looked += count

    def bad(self, path, line, text):
        self.findings.append(f"{path}:{line}: {text}")


class Sample:
    """A small tree.  `expect` is part of the one finding it must give; None: it must give none."""

    def __init__(self, files, expect=None):
        self.files = files
        self.expect = expect

    def wrong(self, check, prepare):
        with tempfile.TemporaryDirectory(prefix="vqlift-style-") as folder:
            root, build = pathlib.Path(folder) / "tree", pathlib.Path(folder) / "out"
            build.mkdir()
            for name, text in self.files.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
                path.chmod(0o755 if text.startswith("#!") else 0o644)
            tree, report = Tree(root, build), Report()
            if prepare:
                prepare(tree)
            check(tree, report)
        if self.expect is None:
            return f"a good sample was refused: {report.findings}" if report.findings else ""
        if not any(self.expect in f for f in report.findings):
            return f"a bad sample was not found ({self.expect!r}); findings: {report.findings}"
        return ""


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def matches(text, pattern):
    """(line, match) of every hit."""
    for m in re.finditer(pattern, text, re.MULTILINE):
        yield line_of(text, m.start()), m


def run(check, samples, prepare=None):
    """Entry point of a checker: SCRIPT ROOT BUILD."""
    if len(sys.argv) != 3:
        sys.exit(f"usage: {sys.argv[0]} SOURCE_ROOT BUILD_ROOT")
    if not any(s.expect for s in samples):
        sys.exit("self-test: there is no bad sample")
    for sample in samples:
        wrong = sample.wrong(check, prepare)
        if wrong:
            sys.exit(f"self-test: {wrong}")
    report = Report()
    check(Tree(sys.argv[1], sys.argv[2]), report)
    for finding in report.findings:
        print(finding)
    print(f"{len(samples)} samples, {report.looked} looked at, {len(report.findings)} wrong")
    if not report.looked:
        sys.exit("nothing to look at: the checker or the tree is broken")
    sys.exit(1 if report.findings else 0)
