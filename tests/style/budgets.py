# SPDX-License-Identifier: BSD-3-Clause
"""Sizes: functions, parameters, files; a table of every module."""

import ast
import collections
import statistics

import csource
import tree as t

FUNCTION_MAX = 80
FUNCTION_MEDIAN = 15
FUNCTION_P90 = 45
PARAMETERS_MAX = 6
FILE_MAX = 600
FILE_MEDIAN = 250
MACRO_MAX = 40
# A median of a handful of functions says nothing.
ENOUGH_FUNCTIONS = 20
PRODUCT = ("lib/", "sw-fallback/", "drivers/", "tools/", "include/")
# path: why it may be longer than FILE_MAX.
LONG_FILES = {}


def module(path):
    parts = path.split("/")[:-1]
    return "/".join(parts[:2]) or "."


class Sizes:
    def __init__(self):
        self.functions, self.parameters, self.files = [], [], {}

    def row(self, name):
        f = sorted(self.functions) or [0]
        longest = max(self.files, key=self.files.get)
        return (f"{name:22} {len(self.files):5} {sum(self.files.values()):6} "
                f"{len(self.functions):5} {statistics.median(f):6g} {p90(f):4} {f[-1]:4} "
                f"{max(self.parameters, default=0):6}  {longest} {self.files[longest]}")


def p90(ordered):
    return ordered[min(len(ordered) - 1, len(ordered) * 9 // 10)]


def measure_c(tree, path, sizes, report):
    text = tree.text(path)
    for f in csource.functions(text):
        sizes.functions.append(f.lines)
        sizes.parameters.append(f.parameters)
        check_function(report, path, f)
    for f in csource.declarations(text):
        check_function(report, path, f)
    for name, line, lines in csource.macros(text):
        if lines > MACRO_MAX:
            report.bad(path, line, f"macro {name} has {lines} lines, expected at most {MACRO_MAX}")


def check_function(report, path, f):
    if f.lines > FUNCTION_MAX:
        report.bad(path, f.first,
                   f"{f.name}() has {f.lines} lines, expected at most {FUNCTION_MAX}")
    if f.parameters > PARAMETERS_MAX:
        report.bad(path, f.first, f"{f.name}() has {f.parameters} parameters, expected at most "
                   f"{PARAMETERS_MAX}: pass a struct")


def measure_python(tree, path, sizes, report):
    for node in ast.walk(ast.parse(tree.text(path))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = node.end_lineno - node.lineno + 1
            sizes.functions.append(lines)
            check_function(report, path, csource.Function(node.name, len(node.args.args),
                                                          node.lineno, node.end_lineno))


def check_module(name, sizes, report):
    if len(sizes.functions) < ENOUGH_FUNCTIONS:
        return
    ordered = sorted(sizes.functions)
    if statistics.median(ordered) > FUNCTION_MEDIAN:
        report.bad(name, 0, f"the median function has {statistics.median(ordered):g} lines, "
                   f"expected at most {FUNCTION_MEDIAN}")
    if p90(ordered) > FUNCTION_P90:
        report.bad(name, 0, f"one function in ten has {p90(ordered)} lines or more, expected at "
                   f"most {FUNCTION_P90}")


def check(tree, report):
    modules = collections.defaultdict(Sizes)
    python = set(tree.python_scripts())
    for path in tree.files(".c", ".h") + sorted(python):
        lines = tree.text(path).count("\n")
        sizes = modules[module(path)]
        sizes.files[path] = lines
        report.look()
        if lines > FILE_MAX and path not in LONG_FILES:
            report.bad(path, lines, f"{lines} lines, expected at most {FILE_MAX}")
        (measure_python if path in python else measure_c)(tree, path, sizes, report)
    product = Sizes()
    for name, sizes in modules.items():
        if name.startswith(PRODUCT):
            check_module(name, sizes, report)
            product.files.update(sizes.files)
            product.functions += sizes.functions
            product.parameters += sizes.parameters
    check_files(product, report)
    if tree.files("meson.build"):
        print_table(modules, product)


def check_files(product, report):
    lengths = [n for path, n in product.files.items() if path.endswith(".c")]
    if lengths and statistics.median(lengths) > FILE_MEDIAN:
        report.bad("product", 0, f"the median .c file has {statistics.median(lengths):g} lines, "
                   f"expected at most {FILE_MEDIAN}")


def print_table(modules, product):
    print(f"{'module':22} files  lines  func median  p90  max params  longest file")
    for name in sorted(modules):
        print(modules[name].row(name))
    if product.files:
        print(product.row("product"))
        tests = sum(sum(s.files.values()) for n, s in modules.items() if n.startswith("tests"))
        share = tests / sum(product.files.values())
        print(f"lines of test for each line of product: {share:.2f}")


def body(lines):
    return "int f(int a)\n{\n" + "        a++;\n" * (lines - 4) + "        return a;\n}\n"


SAMPLES = [
    t.Sample({"lib/x/a.c": body(80)}),
    t.Sample({"lib/x/a.c": body(81)}, "f() has 81 lines"),
    t.Sample({"lib/x/a.c": "/*\n{ */\n#define X {\n" + body(81)}, "a.c:4: f() has 81 lines"),
    t.Sample({"lib/x/a.h": "int g(int a, int (*b)(int, int), int c, int d, int e, int f);\n"}),
    t.Sample({"lib/x/a.h": "int g(int a, int (*b)(int, int), int c, int d, int e, int f,\n"
              "      int h);\n"}, "g() has 7 parameters"),
    t.Sample({"lib/x/a.c": "static int\ng(int a, int b, int c, int d, int e, int f, int h)\n{\n"
              "        return a;\n}\n"}, "g() has 7 parameters"),
    t.Sample({"lib/x/a.c": "/* long */\n" * 601}, "601 lines, expected at most 600"),
    t.Sample({"lib/x/a.c": body(16) * 20}, "median function has 16 lines"),
    t.Sample({"lib/x/a.c": body(5) * 17 + body(46) * 3}, "one function in ten has 46 lines"),
    t.Sample({"lib/x/a.h": "#define M \\\n" + "        x \\\n" * 40 + "        y\n"},
             "macro M has 42 lines"),
    t.Sample({"tests/vm/a.py": "def f():\n" + "    x = 1\n" * 80}, "f() has 81 lines"),
]

if __name__ == "__main__":
    t.run(check, SAMPLES)
