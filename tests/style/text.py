# SPDX-License-Identifier: BSD-3-Clause
"""Plain text rules of every file: licence line, blanks, tabs, left-over notes, line ends."""

import re

import tree as t

SPDX = "SPDX-License-Identifier: BSD-3-Clause"
CODE = (".c", ".h", ".py", ".sh", ".build", ".map", ".yaml", ".yml")
CODE_NAMES = ("meson_options.txt",)
# In halves, so that this file passes its own rule.
NOTES = r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b"
# pattern: what is wrong.
RULES = {
    r"\t": "a tab, expected spaces",
    r"[ \r]+$": "blanks at the end of the line",
    NOTES: "a note to oneself, expected it done or an issue",
    r"^(<{7}|>{7}|={7})( |$)": "a left-over of a merge",
}
ASCII_ONLY = re.compile(r"[^\x00-\x7f]")


def is_code(tree, path):
    name = path.split("/")[-1]
    return path.endswith(CODE) or name in CODE_NAMES or bool(tree.interpreter(path))


def check_lines(path, text, report):
    for pattern, what in RULES.items():
        for line, _ in t.matches(text, pattern):
            report.bad(path, line, what)
    if text and not text.endswith("\n"):
        report.bad(path, t.line_of(text, len(text)), "no newline at the end of the file")


def check(tree, report):
    for path in tree.files():
        if not tree.is_text(path):
            continue
        report.look()
        text = tree.text(path)
        check_lines(path, text, report)
        if not is_code(tree, path):
            continue
        if SPDX not in "".join(text.splitlines(keepends=True)[:3]):
            report.bad(path, 1, f'expected "{SPDX}" in the first three lines')
        for line, m in t.matches(text, ASCII_ONLY.pattern):
            report.bad(path, line, f"character U+{ord(m.group()):04X}, expected ASCII in code")


LICENCE = f"/* {SPDX} */\n"
SAMPLES = [
    t.Sample({"lib/a.c": LICENCE + "int a; /* /tmp/vq-XXXXXX */\n", "NOTES.md": "Plain.\n"}),
    t.Sample({"lib/a.c": "int a;\n"}, 'a.c:1: expected "SPDX'),
    t.Sample({"tests/x": "#!/bin/bash\ntrue\n"}, 'x:1: expected "SPDX'),
    t.Sample({"lib/a.c": LICENCE + "\tint a;\n"}, "a.c:2: a tab"),
    t.Sample({"README.md": "word \n"}, "README.md:1: blanks"),
    t.Sample({"lib/a.c": LICENCE + "/* TO" + "DO: more */\n"}, "a.c:2: a note to oneself"),
    t.Sample({"lib/a.c": LICENCE + "/* \u00fc */\n"}, "U+00FC"),
    t.Sample({"README.md": "word"}, "no newline at the end"),
    t.Sample({"README.md": "a\n<<<<<<< b\n"}, "README.md:2: a left-over"),
]

if __name__ == "__main__":
    t.run(check, SAMPLES)
