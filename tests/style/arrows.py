# SPDX-License-Identifier: BSD-3-Clause
"""Who may know whom: the arrows of doc/architecture.md, held by looking at each #include."""

import posixpath

import csource
import tree as t

LIBRARY = ["lib/base", "lib/memory", "lib/virtqueue", "lib/vhost_user", "lib/vfio", "lib/port"]
PUBLIC = "include/vqlift"
# module: the modules it may include beside itself.  The longest name that fits a path counts.
ARROWS = {
    "lib/base": [],
    "lib/memory": ["lib/base"],
    "lib/virtqueue": ["lib/base", "lib/memory"],
    "lib/vhost_user": ["lib/base", "lib/memory", "lib/virtqueue"],
    "lib/vfio": ["lib/base", "lib/memory", "lib/virtqueue"],
    "lib/port": LIBRARY + ["sw-fallback", "drivers/drivers.h", PUBLIC],
    "sw-fallback": ["lib/base", "lib/memory", "lib/virtqueue"],
    "drivers": ["include/vqlift/driver.h", "lib/base", "lib/vfio", "lib/virtqueue"],
    PUBLIC: [],
    "tools": [PUBLIC],
    # It compares us with DPDK's own vhost library, both driven by the test front-end, and the
    # datapath with parts of itself, for which it chooses instances.
    "tools/vqlift-bench": LIBRARY + ["sw-fallback", PUBLIC, "tests/frontend"],
    "tests": LIBRARY + ["sw-fallback", "drivers", "tools", PUBLIC],
}
# These read bytes and memory; whoever moves packets is above or beside them.
WITHOUT_DPDK = ("lib/base", "lib/memory", "lib/virtqueue", "lib/vhost_user", PUBLIC, "tools")
BURST_API = "include/vqlift/burst.h"
INCLUDE_DIRECTORIES = ("include", "lib", "")
# Where else their quoted includes begin.
MORE_DIRECTORIES = {"tests": ("tests", "tools"), "tools": ("tools",),
                    "tools/vqlift-bench": ("tools", "tests")}


def module(path):
    fitting = [m for m in ARROWS if path == m or path.startswith(m + "/")]
    return max(fitting, key=len, default=None)


def resolve(files, path, name):
    """The file of this tree that an #include names, or None for one of somebody else's."""
    more = MORE_DIRECTORIES.get(module(path), ())
    for folder in (posixpath.dirname(path), *INCLUDE_DIRECTORIES, *more):
        candidate = posixpath.normpath(posixpath.join(folder, name))
        if candidate in files:
            return candidate
    return None


def allowed(path, target):
    return module(path) == module(target) or any(
        target == a or target.startswith(a + "/") for a in ARROWS[module(path)])


def check_include(files, path, include, report):
    line, quote, name = include
    target = resolve(files, path, name)
    if target is None:
        if quote == '"':
            report.bad(path, line, f'"{name}" is not in the tree, expected <{name}>')
        if name.startswith("rte_") and path != BURST_API and module(path) in WITHOUT_DPDK:
            report.bad(path, line, f"{module(path)} includes DPDK's {name}, expected none of it")
    elif not allowed(path, target):
        known = ", ".join(ARROWS[module(path)]) or "nobody"
        report.bad(path, line, f"{module(path)} includes {target}, expected it to know {known}")


def check(tree, report):
    files = set(tree.files(".h"))
    for path in tree.files(".c", ".h"):
        if module(path) is None:
            report.bad(path, 1, "belongs to no module of tests/style/arrows.py")
            continue
        for include in csource.includes(tree.text(path)):
            report.look()
            check_include(files, path, include, report)


HEADERS = {"lib/base/e.h": "", "lib/port/p.h": "", "include/vqlift/vqlift.h": "",
           "sw-fallback/w.h": "", "tools/vqliftd/own.h": "", "lib/virtqueue/q.h": ""}


def sample(path, include, expect=None):
    return t.Sample({**HEADERS, path: "/* #include <rte_no.h> */\n#include " + include + "\n"},
                    expect)


SAMPLES = [
    sample("lib/memory/m.c", '"base/e.h"'),
    sample("lib/port/p.c", '"sw-fallback/w.h"'),
    sample("tools/vqliftd/d.c", '"own.h"'),
    sample("tools/vqliftd/d.c", "<vqlift/vqlift.h>"),
    sample("tests/unit/u.c", '"port/p.h"'),
    sample("lib/base/b.c", '"virtqueue/q.h"', "b.c:2: lib/base includes lib/virtqueue/q.h"),
    sample("sw-fallback/s.c", '"port/p.h"', "expected it to know lib/base, lib/memory"),
    sample("sw-fallback/s.c", '"../lib/port/p.h"', "includes lib/port/p.h"),
    sample("tools/vqliftd/d.c", '"base/e.h"', "tools includes lib/base/e.h"),
    sample("tools/vqliftd/d.c", "<rte_mbuf.h>", "includes DPDK's rte_mbuf.h"),
    sample("lib/base/b.c", '"gone.h"', '"gone.h" is not in the tree'),
    sample("elsewhere/b.c", "<stdio.h>", "belongs to no module"),
]

if __name__ == "__main__":
    t.run(check, SAMPLES)
