"""How many lines each function of a source file has, by Python's parser and by a small scanner of C and C++.

The scanner knows braces, not the language: what stands before a brace says whether it opens a scope (a namespace, a
class), a function, or the values of a variable. A function inside a function, a lambda too, counts as part of it.
"""

from __future__ import annotations

import ast
import re

#: (name, first line, number of lines)
Function = tuple[str, int, int]

_SKIPPED = re.compile(
    r"""//(?:[^\n\\]|\\.|\\\n)* | /\*.*?\*/                     # comments
      | R"(?P<delimiter>[^\s()\\]{0,16})\(.*?\)(?P=delimiter)"  # raw strings
      | "(?:[^"\\\n]|\\.|\\\n)*" | (?<![0-9A-Fa-f])'(?:[^'\\\n]|\\.)+'
      | ^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*                          # preprocessor lines""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_TEMPLATE = re.compile(r"\btemplate\s*<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>")
_ATTRIBUTE = re.compile(r"\[\[.*?\]\]|\b(?:alignas|__attribute__|decltype|noexcept)\s*\((?:[^()]|\([^()]*\))*\)")
_SCOPE = re.compile(r"\b(?:namespace|class|struct|union|enum)\b[^()]*$|\bextern\s*$")
_BODY = re.compile(
    r"\)\s*(?:(?:const|volatile|noexcept|override|final|mutable|try|&&?)\s*)*(?:->[^;{}]*)?(?::[^:].*)?$", re.DOTALL
)
_MEMBER = re.compile(r"\)[^;]*?[^:]:[^:].*[\w>]\s*$", re.DOTALL)
_NAME = re.compile(r"([~\w:]+|operator[^\w\s]+)\s*\(")


def python_functions(text: str) -> list[Function]:
    """Functions and methods, inner ones too."""
    return [
        (node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def cpp_functions(text: str) -> list[Function]:
    """Functions and methods that have a body, and lambdas that are a variable's value."""
    text = _SKIPPED.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    functions: list[Function] = []
    position = head = 0  # `head` is where what the next brace belongs to begins
    while (brace := _next(text, position)) >= 0:
        position = brace + 1
        if text[brace] != "{":
            head = position
            continue
        before = _ATTRIBUTE.sub(" ", _TEMPLATE.sub(" ", text[head:brace]))
        if _SCOPE.search(before):
            head = position
        elif before.count("(") > before.count(")") or _MEMBER.search(before):
            position = _end(
                text, brace
            )  # an argument, or a member's value in a constructor's list: what it is of goes on
        else:
            position = _end(text, brace)
            if _BODY.search(before):
                begin = head + len(text[head:brace]) - len(text[head:brace].lstrip())
                names = _NAME.findall(before)
                first = text.count("\n", 0, begin) + 1
                functions.append((names[0] if names else "lambda", first, text.count("\n", begin, position) + 1))
                head = position
    return functions


def _next(text: str, position: int) -> int:
    """The next brace, semicolon or end of a label of access; -1 at the end."""
    found = re.compile(r"[{};]|(?<=\bpublic):|(?<=\bprivate):|(?<=\bprotected):").search(text, position)
    return found.start() if found else -1


def _end(text: str, brace: int) -> int:
    """Just after the brace that closes this one."""
    depth = 0
    for found in re.compile(r"[{}]").finditer(text, brace):
        depth += 1 if found[0] == "{" else -1
        if depth == 0:
            return found.end()
    return len(text)
