"""A linter of the package's English, which project/test_words.py runs on every file of dpcli.

It refuses docstrings that begin with a fragment ("What", "Whether", "Of"), names that name nothing ("found", "here"), messages that do not
say which value was found, and two files with one name.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

FRAGMENT = re.compile(
    r"(What|Whether|Of|Those|Where|Who|Whose|Whom|How|Why|Which|That|This|These|It|Its|They|Their|Same|The same|So|If|As|One|Ones|When|"
    r"In which|By which|For which|From which|To which|None|Not|Also|Else|And|But|Or|Then|There|Here)\b"
)
EMPTY_NAMES = frozenset({"found", "said", "told", "asked", "held", "beside", "whole", "here", "there"})
HIDING = re.compile(r"found (another|something else|others?|none|nothing|no such one)\b")


class Fault(NamedTuple):
    """A place where a rule is broken."""

    path: Path
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


def faults(path: Path) -> Iterator[Fault]:
    """Yield every docstring, name and message of a file that breaks a rule."""
    tree = ast.parse(path.read_text())
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {id(node.body[0].value): ast.get_docstring(node) for node in ast.walk(tree) if _is_documented(node, documented)}  # type: ignore[attr-defined]
    for node in ast.walk(tree):
        if id(node) in docstrings:
            if FRAGMENT.match(docstrings[id(node)] or ""):
                yield Fault(path, node.lineno, "fragment", str(docstrings[id(node)]).splitlines()[0])  # type: ignore[attr-defined]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and HIDING.search(node.value):
            yield Fault(path, node.lineno, "hidden value", node.value)
        for name in _bound(node):
            if name.strip("_") in EMPTY_NAMES:
                yield Fault(path, node.lineno, "empty name", name)  # type: ignore[attr-defined]


def _is_documented(node: ast.AST, documented: tuple[type, ...]) -> bool:
    return isinstance(node, documented) and ast.get_docstring(node) is not None  # type: ignore[arg-type]


def _bound(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node defines: a variable, a parameter, a function or a class."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name


def shared_names(paths: Iterable[Path]) -> dict[str, list[str]]:
    """Return the file names that occur in several folders, with these folders.

    Exempt are plugin.py, and files in the folders commands/ and documents/, which are named like their command.
    """
    folders = defaultdict(list)
    for path in paths:
        if path.stem not in ("__init__", "__main__", "plugin") and path.parent.name not in ("commands", "documents"):
            folders[path.stem].append(str(path.parent))
    return {name: where for name, where in folders.items() if len(where) > 1}
