# SPDX-License-Identifier: BSD-3-Clause
"""Every configuration that a document shows is one that vqliftd takes."""

import re
import subprocess
import tempfile

import tree as t

DAEMON = "tools/vqliftd/vqliftd"
# A file of its own, or a block of a document or of a manual page.
BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PORT = "ports:\n- name: a\n  socket: /a\n"
MAN_BLOCK = re.compile(r"^\.EX\n((?:daemon|ports):.*?)^\.EE$", re.MULTILINE | re.DOTALL)


def examples(tree):
    """(path, line, text) of each configuration."""
    for path in tree.files(".yaml", under="doc/examples/"):
        yield path, 1, tree.text(path)
    for suffix, pattern in ((".md", BLOCK), (".5", MAN_BLOCK)):
        for path in tree.files(suffix):
            text = tree.text(path)
            for block in pattern.finditer(text):
                yield path, t.line_of(text, block.start(1)), block.group(1).replace("\\-", "-")


def complete(text):
    """A block that begins with an uplink shows keys of a port."""
    if not text.startswith("uplink:"):
        return text
    return PORT + "".join(f"  {line}\n" for line in text.splitlines())


def check(tree, report):
    for path, line, text in examples(tree):
        report.look()
        with tempfile.NamedTemporaryFile("w", prefix="vqlift-style-", suffix=".yaml") as file:
            file.write(complete(text))
            file.flush()
            done = subprocess.run([tree.build / DAEMON, "-t", "-c", file.name], text=True,
                                  capture_output=True, check=False, timeout=60)
            if done.returncode:
                why = done.stderr.replace(file.name + ":", "line ").strip()
                report.bad(path, line, f"is refused: {why}")


def prepare(tree):
    """A daemon that takes files with the word good."""
    daemon = tree.build / DAEMON
    daemon.parent.mkdir(parents=True)
    daemon.write_text("#!/bin/sh\ngrep -q good \"$3\" || { echo not good >&2; exit 1; }\n")
    daemon.chmod(0o755)


SAMPLES = [
    t.Sample({"README.md": "# x\n```yaml\ngood: 1\n```\n"}),
    t.Sample({"README.md": "# x\n```yaml\nuplink: good\n```\n"}),
    t.Sample({"README.md": "# x\n```yaml\nbad: 1\n```\n"}, "README.md:3: is refused: not good"),
    t.Sample({"doc/a.5": ".EX\nports: good\n.EE\n"}),
    t.Sample({"doc/a.5": ".TH\n.EX\nports:\n\\- bad\n.EE\n"}, "doc/a.5:3: is refused"),
    t.Sample({"doc/examples/a.yaml": "bad\n"}, "doc/examples/a.yaml:1: is refused"),
]

if __name__ == "__main__":
    t.run(check, SAMPLES, prepare)
