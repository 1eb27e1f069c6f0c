# SPDX-License-Identifier: BSD-3-Clause
"""Copied code: runs of tokens that occur twice in the product, in lines and per cent."""

import collections
import re

import csource
import tree as t

RUN = 60  # tokens: about seven lines
PERCENT_MAX = 2.0
PRODUCT = ("lib/", "sw-fallback/", "drivers/", "tools/")
_TOKEN = re.compile(r'""|\w+|[^\w\s]')


def tokens(text):
    """[(token, line)]; names and numbers count as they are: a renamed copy is another function."""
    code = csource.strip_directives(csource.strip(text))
    line, at, found = 1, 0, []
    for m in _TOKEN.finditer(code):
        line += code.count("\n", at, m.start())
        at = m.start()
        found.append((m.group(), line))
    return found


def copies(sources):
    """Runs of tokens that occur more than once: [(place, place)], and the lines they cover."""
    places = collections.defaultdict(list)
    for path, stream in sources.items():
        words = [w for w, _ in stream]
        for i in range(len(words) - RUN + 1):
            places[hash(tuple(words[i:i + RUN]))].append((path, i))
    covered, pairs = collections.defaultdict(set), []
    for hits in places.values():
        if len(hits) < 2:
            continue
        for path, i in hits:
            covered[path].update(line for _, line in sources[path][i:i + RUN])
        pairs.append(hits[:2])
    return pairs, covered


def first_of_each(pairs, sources):
    """One pair of places for each copied stretch rather than one for each token of it."""
    last = None
    for (path_a, a), (path_b, b) in sorted(pairs):
        if last != (path_a, a - 1, path_b, b - 1):
            yield path_a, sources[path_a][a][1], path_b, sources[path_b][b][1]
        last = path_a, a, path_b, b


def check(tree, report):
    paths = [p for p in tree.files(".c", ".h") if p.startswith(PRODUCT)]
    sources = {p: tokens(tree.text(p)) for p in paths}
    report.look(len(paths))
    pairs, covered = copies(sources)
    total = sum(len({line for _, line in stream}) for stream in sources.values())
    doubled = sum(len(lines) for lines in covered.values())
    percent = 100.0 * doubled / total if total else 0.0
    seen = list(first_of_each(pairs, sources))
    if tree.files("meson.build"):
        print(f"{doubled} of {total} lines with code are copies: {percent:.1f} %")
        for path_a, line_a, path_b, line_b in seen:
            print(f"  {path_a}:{line_a} and {path_b}:{line_b}")
    if percent > PERCENT_MAX:
        path, line, other, other_line = seen[0]
        report.bad(path, line, f"{percent:.1f} % of the code is copied (here from {other}:"
                   f"{other_line}), expected at most {PERCENT_MAX} %")


def lines_of(names):
    return "".join(f"        {n} = call_{n}({n}, 1);\n" for n in names)


COPIED = lines_of("abcdefghij")
OTHER = lines_of(f"x{i}" for i in range(1200))
SAMPLES = [
    t.Sample({"lib/x/a.c": COPIED, "lib/y/b.c": OTHER + COPIED}),
    t.Sample({"lib/x/a.c": COPIED, "lib/y/b.c": "/* moved */\n" + COPIED}, "lib/y/b.c:2"),
    t.Sample({"lib/x/a.c": COPIED + "int q;\n" + COPIED}, "lib/x/a.c:12"),
]

if __name__ == "__main__":
    t.run(check, SAMPLES)
