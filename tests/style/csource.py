# SPDX-License-Identifier: BSD-3-Clause
"""Reading C without a compiler: enough for functions, declarations and includes of clean code."""

import re

_TOKENS = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL)
_DIRECTIVE = re.compile(r"^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
_INCLUDE = re.compile(r"""^[ \t]*\#[ \t]*include[ \t]*(["<])([^">]+)[">]""", re.MULTILINE)
# Words that stand before a parenthesis and name no function.
_NOT_NAMES = {"__attribute__", "_Alignas", "static_assert", "_Static_assert", "typeof",
              "__typeof__", "defined", "_Atomic", "if", "for", "while", "switch", "sizeof"}


def _keep_lines(match, text=""):
    return text + "\n" * match.group().count("\n")


def strip(text):
    """Without comments and the contents of strings; every line stays where it was."""
    def blank(m):
        return _keep_lines(m, '""' if m.group()[0] == '"' else "0" if m.group()[0] == "'" else " ")
    return _TOKENS.sub(blank, text)


def strip_directives(stripped):
    return _DIRECTIVE.sub(_keep_lines, stripped)


def includes(text):
    """(line, '"' or '<', name); an #include inside a comment does not count."""
    comments = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
    text = comments.sub(_keep_lines, text)
    for m in _INCLUDE.finditer(text):
        yield text.count("\n", 0, m.start()) + 1, m.group(1), m.group(2)


class Function:
    def __init__(self, name, parameters, first, last):
        self.name, self.parameters, self.first, self.last = name, parameters, first, last

    @property
    def lines(self):
        """From the signature to the closing brace, both included."""
        return self.last - self.first + 1


def _close(text, start):
    """Offset of the parenthesis that closes the one at `start`."""
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return i
    return len(text)


def _count_parameters(inside):
    if inside.strip() in ("", "void"):
        return 0
    depth, commas = 0, 0
    for ch in inside:
        depth += (ch in "([{") - (ch in ")]}")
        commas += ch == "," and depth == 0
    return commas + 1


def _signature(head):
    """(name, parameters, offset of the name) of a declarator, or None."""
    found, at = None, 0
    for m in iter(lambda: re.compile(r"(\w+)\s*\(").search(head, at), None):
        end = _close(head, m.end() - 1)
        if m.group(1) not in _NOT_NAMES:
            found = m.group(1), _count_parameters(head[m.end():end]), m.start()
        at = end + 1
    return found


def _top_level(code):
    """(head, offset of head, body end or None) of each definition or declaration at file scope."""
    depth, start, head = 0, 0, None
    for i, ch in enumerate(code):
        if ch == "{":
            if depth == 0:
                head = code[start:i]
                if re.fullmatch(r'\s*extern\s*""\s*', head):
                    start = i + 1
                    continue
            depth += 1
        elif ch == "}":
            depth = max(depth - 1, 0)
            if depth == 0 and head is not None and head.rstrip().endswith(")"):
                yield head, start, i
                start, head = i + 1, None
        elif ch == ";" and depth == 0:
            yield code[start:i], start, None
            start, head = i + 1, None


def functions(text):
    code = strip_directives(strip(text))
    for head, start, end in _top_level(code):
        signature = _signature(head)
        if end is None or not signature or "=" in head.split("(")[0]:
            continue
        # The signature begins after the last empty line; above that are macros without semicolon.
        begin = head.rfind("\n\n", 0, signature[2]) + 1
        begin += len(head[begin:]) - len(head[begin:].lstrip())
        yield Function(signature[0], signature[1],
                       code.count("\n", 0, start + begin) + 1, code.count("\n", 0, end) + 1)


def declarations(text):
    """Prototypes of functions (not of function types, nor of pointers to functions)."""
    code = strip_directives(strip(text))
    for head, start, end in _top_level(code):
        head_text = head.lstrip(" \n}")
        signature = _signature(head_text)
        if end is not None or not signature or re.match(r"typedef|static", head_text):
            continue
        if re.search(r"\(\s*\*", head_text.split("(")[0] + "(" + head_text.partition("(")[2][:1]):
            continue
        line = code.count("\n", 0, start + len(head) - len(head.lstrip(" \n}"))) + 1
        yield Function(signature[0], signature[1], line, line)


def macros(text):
    """(name, line, number of lines) of every macro definition."""
    code = strip(text)
    for m in _DIRECTIVE.finditer(code):
        define = re.match(r"\s*\#\s*define\s+(\w+)", m.group())
        if define:
            yield define.group(1), code.count("\n", 0, m.start()) + 1, m.group().count("\n") + 1
