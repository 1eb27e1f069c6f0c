# SPDX-License-Identifier: BSD-3-Clause
"""Functions that this project does not call, each with the place it concerns and the reason."""

import re

import csource
import tree as t

DATAPATH = ("lib/", "sw-fallback/", "drivers/")
LIBRARY = DATAPATH + ("include/",)
DAEMON = DATAPATH + ("tools/vqliftd/",)
EVERYWHERE = ("",)


class Rule:
    def __init__(self, where, names, expected):
        self.where, self.expected = where, expected
        self.pattern = re.compile(rf"\b({names})\s*\(")


# A rule with a word that is not a call (a macro, a type) ends its pattern itself.
class Word(Rule):
    def __init__(self, where, words, expected):
        super().__init__(where, words, expected)
        self.pattern = re.compile(rf"\b({words})\b")


RULES = [
    Rule(DAEMON, r"sleep|usleep|nanosleep|clock_nanosleep|thrd_sleep|rte_delay_\w+",
         "an event with a deadline"),
    Rule(DATAPATH, r"assert|RTE_ASSERT|RTE_VERIFY|abort|exit|_exit|_Exit|rte_exit|rte_panic",
         "an error that the caller sees; static_assert for what the compiler knows"),
    Rule(DAEMON, r"getenv|secure_getenv|setenv|putenv", "a parameter or the configuration"),
    Rule(EVERYWHERE, r"strcpy|strcat|stpcpy|sprintf|vsprintf|gets|strtok|alloca|tmpnam|mktemp",
         "a bounded or re-entrant function"),
    Rule(EVERYWHERE, r"atoi|atol|atoll|atof", "strtoul and a check of all it reports"),
    Rule(LIBRARY + ("tools/",), r"system|popen", "posix_spawn without a shell, or none at all"),
    Rule(LIBRARY, r"printf|puts|perror|fputs|putchar", "vql_log() or vql_fail()"),
    Word(EVERYWHERE, r"rte_atomic(16|32|64|128)_\w+|rte_smp_[rw]?mb|rte_atomic_thread_fence",
         "C11 atomics: DPDK has deprecated these"),
    Word(EVERYWHERE, r"__rte_packed|__rte_weak|RTE_FUNC_PTR_OR_\w+|rte_ctrl_thread_create|"
         r"rte_thread_setname|ALLOW_EXPERIMENTAL_API", "what every DPDK from 22.11 on has"),
    Word(DATAPATH + ("include/", "tools/vqliftd/", "tools/vqlift/", "tests/"), r"rte_vhost_\w+",
         "our own vhost-user"),
]
ORACLE = "tests/func/oracle_peer.c"
# (path, word): why it is right there.
ALLOWED = {
    **{(ORACLE, f"rte_vhost_{name}"): "DPDK's vhost library is what we are compared with"
       for name in ("device_ops", "driver_register", "driver_callback_register", "driver_start",
                    "driver_unregister", "enable_guest_notification", "enqueue_burst",
                    "dequeue_burst")},
    ("tools/vqliftd/logger.c", "getenv"): "systemd says by JOURNAL_STREAM where lines go",
}
PRIVATE_HEADERS = re.compile(r"(_driver|_pmd|_private)\.h$")


def check(tree, report):
    for path in tree.files(".c", ".h"):
        report.look()
        text = tree.text(path)
        code = csource.strip(text)
        for rule in RULES:
            if path.startswith(rule.where):
                for line, m in t.matches(code, rule.pattern.pattern):
                    if (path, m.group(1)) not in ALLOWED:
                        report.bad(path, line, f"{m.group(1)}, expected {rule.expected}")
        for line, _, name in csource.includes(text):
            if name.startswith("rte_") and PRIVATE_HEADERS.search(name):
                report.bad(path, line, f"{name} is for DPDK's own drivers, expected public headers")


SAMPLES = [
    t.Sample({"lib/a.c": "/* sleep(1) */\nstatic_assert(1, \"assert(0)\");\nvql_printf(e);\n",
              "tests/a.c": "assert(a); usleep(1); printf(b);\n"}),
    t.Sample({"lib/a.c": "int a;\nvoid f(void) { usleep(1); }\n"}, "a.c:2: usleep, expected an"),
    t.Sample({"tools/vqliftd/a.c": "sleep (1);\n"}, "a.c:1: sleep"),
    t.Sample({"sw-fallback/a.c": "assert(a);\n"}, "a.c:1: assert"),
    t.Sample({"lib/a.c": "x = getenv(\"A\");\n"}, "a.c:1: getenv"),
    t.Sample({"tests/a.c": "strcpy(a, b);\n"}, "a.c:1: strcpy"),
    t.Sample({"tools/vqlift/a.c": "n = atoi(a);\n"}, "a.c:1: atoi"),
    t.Sample({"lib/a.c": "printf(a);\n"}, "a.c:1: printf"),
    t.Sample({"lib/a.c": "rte_smp_wmb();\n"}, "a.c:1: rte_smp_wmb"),
    t.Sample({"lib/a.c": "struct a {} __rte_packed;\n"}, "a.c:1: __rte_packed"),
    t.Sample({"lib/a.c": "#include <rte_bus_pci_driver.h>\n"}, "for DPDK's own drivers"),
    t.Sample({"tests/a.c": "rte_vhost_driver_start(a);\n"}, "a.c:1: rte_vhost"),
]

if __name__ == "__main__":
    t.run(check, SAMPLES)
