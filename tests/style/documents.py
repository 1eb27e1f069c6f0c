# SPDX-License-Identifier: BSD-3-Clause
"""What the documents name is there: commands, paths, links, options, verbs of the CLI, headings."""

import os
import pathlib
import re
import shlex
import subprocess
import tempfile

import tree as t

# Programs of the system that a document may call; all others have to be in the tree.
SYSTEM = {"apt-get", "cd", "chmod", "chown", "clang-format", "dmesg", "echo", "ethtool", "export",
          "gdb", "git", "grep", "id", "install", "ip", "journalctl", "ls", "man", "meson", "mkdir",
          "modprobe", "mount", "ninja", "ping", "qemu-system-x86_64", "setcap", "socat", "ss",
          "stat", "sudo",
          "sysctl", "systemctl", "tcpdump", "tee", "useradd", "usermod", "virsh"}
# Programs that the build makes: name and where in the build folder.
BUILT = {"vqliftd": "tools/vqliftd/vqliftd", "vqlift": "tools/vqlift/vqlift",
         "vqlift-bench": "tools/vqlift-bench/vqlift-bench"}
NEEDED = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "LICENSE",
          "doc/architecture.md", "doc/operators-guide.md")
FIRST_COMMANDS = ["sudo tools/demo", "sudo tests/run"]
PATHS = re.compile(r"`((?:include|lib|sw-fallback|drivers|tools|tests|doc)/[\w./-]*[\w/])`")
LINKS = re.compile(r"\]\(([^)#\s]+)(?:#[\w-]+)?\)")
YAML = re.compile(r"^```yaml\n([\s\S]*?)^```$", re.MULTILINE)
# A line by itself is that of a port.
PORT = "ports:\n  - name: x\n    socket: /run/x.sock\n    "
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(text):
    """(line, words) of every command of the shell blocks; a backslash joins lines."""
    for block in BLOCK.finditer(text):
        line = t.line_of(text, block.start(1))
        for command in re.split(r"(?<!\\)\n", block.group(1)):
            words = shlex.split(command.replace("\\\n", " "), comments=True)
            if words:
                yield line, words
            line += command.count("\n") + 1


def program(words):
    """The word that is run: without sudo, variables and options of sudo."""
    rest = [w for w in words if not re.fullmatch(r"\w+=.*", w)]
    if rest and rest[0] == "sudo":
        rest = rest[1:]
    return (rest[0], rest[1:]) if rest else ("true", [])


def help_text(tree, name):
    binary = tree.build / BUILT[name]
    if not binary.exists():
        return None
    done = subprocess.run([str(binary), "--help"], capture_output=True, text=True, check=False,
                          timeout=20)
    return done.stdout + done.stderr


def verbs(text):
    """The commands that a program's help lists, as lists of their fixed words."""
    listed = re.search(r"^Commands:\n((?:  .*\n)*)", text, re.MULTILINE)
    lines = re.findall(r"^  (\S.*)$", listed.group(1), re.MULTILINE) if listed else []
    return [re.match(r"(?:[a-z]+ ?)*", line).group().split() for line in lines]


def check_built(tree, name, arguments, say):
    text = help_text(tree, name)
    if text is None:
        say(f"{name} is not built")
        return
    for word in arguments:
        option = word.split("=")[0]
        if option.startswith("-") and not re.search(rf"(?<![\w-]){option}(?![\w-])", text):
            say(f"{name} --help knows no {option}")
    words = [w for w in arguments if re.fullmatch(r"[a-z]\S*", w)]
    known = verbs(text)
    if known and words and not any(words[:len(v)] == v for v in known):
        say(f"{name} --help knows no {' '.join(words)}")


def check_command(tree, words, say):
    name, arguments = program(words)
    if "/" in name and not name.startswith(("/", "build/")):
        if not os.access(tree.root / name, os.X_OK):
            say(f"{name} is not there or not executable")
        return
    base = name.split("/")[-1]
    if base in BUILT:
        check_built(tree, base, arguments, say)
    elif base not in SYSTEM:
        say(f"{name} is neither in the tree nor among the programs of the system")
    if base == "meson":
        check_meson_options(tree, arguments, say)


def check_meson_options(tree, arguments, say):
    own = tree.text("meson_options.txt") if "meson_options.txt" in tree.files() else ""
    for word in arguments:
        m = re.match(r"-D(\w+)=", word)
        if m and not m.group(1).startswith("b_") and f"option('{m.group(1)}'" not in own:
            say(f"meson_options.txt has no {m.group(1)}")


def check_configuration(tree, text, say):
    """The daemon itself must accept it."""
    binary = tree.build / BUILT["vqliftd"]
    if not binary.exists():
        say("vqliftd is not built")
        return
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text if text.startswith(("daemon:", "ports:", "#")) else PORT + text)
        file.flush()
        done = subprocess.run([str(binary), "-t", "-c", file.name], capture_output=True, text=True,
                              check=False, timeout=20)
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines() or ["no reason given"]
        say(f"vqliftd -t refuses this: {said[-1]}")


def check_document(tree, path, report):
    text = tree.text(path)
    folder = pathlib.PurePosixPath(path).parent
    for line, m in t.matches(text, PATHS.pattern):
        if not (tree.root / m.group(1)).exists():
            report.bad(path, line, f"{m.group(1)} is not in the tree")
    for line, m in t.matches(text, LINKS.pattern):
        if "://" not in m.group(1) and not (tree.root / folder / m.group(1)).exists():
            report.bad(path, line, f"the link to {m.group(1)} leads nowhere")
    for line, m in t.matches(text, YAML.pattern):
        check_configuration(tree, m.group(1), lambda what, n=line: report.bad(path, n, what))
    for line, words in commands(text):
        report.look()
        check_command(tree, words, lambda what, n=line: report.bad(path, n, what))


def check(tree, report):
    for path in NEEDED:
        if path not in tree.files():
            report.bad(path, 0, "is not there")
    for path in tree.files(".md"):
        report.look()
        check_document(tree, path, report)
    for path in tree.files(".yaml", under="doc/"):
        report.look()
        check_configuration(tree, tree.text(path), lambda what, f=path: report.bad(f, 1, what))
    if "README.md" in tree.files():
        first = [" ".join(words) for _, words in commands(tree.text("README.md"))][:2]
        if first != FIRST_COMMANDS:
            report.bad("README.md", 1, f"the first commands are {first}, expected {FIRST_COMMANDS}")


def prepare(tree):
    """A CLI with the verbs `port add`, and an option -j; a daemon that likes all but `wrong`."""
    cli = tree.build / BUILT["vqlift"]
    cli.parent.mkdir(parents=True)
    cli.write_text("#!/bin/sh\necho 'Commands:\n  port add NAME   Add.\nOptions:\n  -j'\n")
    cli.chmod(0o755)
    if "daemon" in tree.files():
        daemon = tree.build / BUILT["vqliftd"]
        daemon.parent.mkdir(parents=True)
        daemon.write_text("#!/bin/sh\n! grep wrong $3\n")
        daemon.chmod(0o755)


SCRIPT = "#!/bin/sh\n"
README = "# vqlift\n```sh\nsudo tools/demo\nsudo tests/run\n```\n"


def sample(more="", expect=None, first=README, **other):
    files = {name: "x\n" for name in NEEDED}
    files.update(other)
    files.update({"tools/demo": SCRIPT, "tests/run": SCRIPT, "README.md": first + more})
    return t.Sample(files, expect)


def shell(command):
    return f"```sh\n{command}\n```\n"


SAMPLES = [
    sample(shell("vqlift -j port \\\n    add vm1 # more\nA=1 meson setup -Db_lto=true build") +
           "`doc/architecture.md` [x](SECURITY.md)\n"),
    sample(first="# x\n" + shell("sudo tests/run"), expect="expected ['sudo tools/demo'"),
    sample(shell("tests/walk"), "README.md:7: tests/walk is not there"),
    sample(shell("ls\nvqlift port sub"), "README.md:8: vqlift --help knows no port sub"),
    sample(shell("vqlift -x"), "knows no -x"),
    sample(shell("vqliftd"), "vqliftd is not built"),
    sample(shell("frobnicate"), "frobnicate is neither"),
    sample(shell("meson setup build -Dnone=true"), "meson_options.txt has no none"),
    sample("`lib/none.c`\n", "README.md:6: lib/none.c is not in the tree"),
    sample("```yaml\nuplink: right\n```\n", daemon="x\n"),
    sample("```yaml\nuplink: wrong\n```\n", "README.md:6: vqliftd -t refuses", daemon="x\n"),
    sample("[x](none.md)\n", "the link to none.md leads nowhere"),
]

if __name__ == "__main__":
    t.run(check, SAMPLES, prepare)
