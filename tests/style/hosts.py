# SPDX-License-Identifier: BSD-3-Clause
"""No names of package servers, and no paths of the machine that somebody develops on.

Servers differ from place to place, so no list of them is here: an address may only lead to one of
the documents below, and a bare host name may not look like a package server's.
"""

import re

import tree as t

DOCUMENTS = ("keepachangelog.com", "semver.org", "www.kernel.org", "docs.oasis-open.org",
             "www.qemu.org", "doc.dpdk.org", "spdx.org", "127.0.0.1", "localhost", "example.org",
             "json-schema.org", "www.jsonrpc.org", "www.w3.org")
URL = re.compile(r"\b(?:https?|ftp|git|ssh)://(?:[^/\s@]+@)?([\w.-]+)")
SERVER = re.compile(r"\b(?:deb|apt|registry|repo|proxy|mirrors?|archive|snapshot|security|pypi|npm|"
                    r"crates|rubygems|ftp|dl|download)(?:\.[a-z0-9-]+)+\.(?:org|com|io|net|dev)\b",
                    re.IGNORECASE)
MACHINE = re.compile(r"(?<![\w.$}/-])/(?:home|Users|work|workspace|root/\w)(?:/[\w.-]+)+")


def findings(text, root):
    for m in URL.finditer(text):
        if m.group(1) not in DOCUMENTS:
            yield m.start(), f"address of {m.group(1)}, expected one of the documents in hosts.py"
    for m in SERVER.finditer(text):
        yield m.start(), f"{m.group()} looks like a package server"
    for m in MACHINE.finditer(text):
        yield m.start(), f"{m.group()} is a path of somebody's machine"
    if root in text:
        yield text.index(root), f"{root} is this checkout's place"


def check(tree, report):
    for path in tree.files():
        if tree.is_text(path):
            report.look()
            text = tree.text(path)
            for at, what in findings(text, str(tree.root)):
                report.bad(path, t.line_of(text, at), what)


# In halves, so that this file passes its own rule.
SAMPLES = [
    t.Sample({"a.md": "https://semver.org /usr/lib/a, $HOME/a, /root.\n"}),
    t.Sample({"a.md": "\nhttps:" + "//files.example.com/a.tar.gz\n"}, "a.md:2: address of files."),
    t.Sample({"a.sh": "host=deb" + ".example.org\n"}, "looks like a package server"),
    t.Sample({"a.py": "x = '/ho" + "me/jo/src/vqlift'\n"}, "path of somebody's machine"),
    t.Sample({"a.py": "x = '/wo" + "rk/main'\n"}, "path of somebody's machine"),
]

if __name__ == "__main__":
    t.run(check, SAMPLES)
