"""What a run is made of beside the numbers of its file: the user's Python and the files that its table names, by content."""

from __future__ import annotations

import ast
import hashlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

from dpcli.audit.libraries import is_own_code
from dpcli.audit.user_code import module_file
from dpcli.train.plan.sources import FUNCTION

SOURCES = ("data", "public", "model", "tokenizer", "loss", "metric", "canary")  # keys that may name code, a file or a folder


def made_of(table: Mapping[str, Any], path: str) -> dict[str, str]:
    """SHA-256 by key. Not to be shown: those of private files tell whoever knows all other records of the one that is left.

    Of a function: the source of its module and of all modules of the user's own that it imports, none of which is run. Of a file or a
    folder: its content. What functions read while they run is not in it. table: of the file at `path`.
    """
    named = {key: table[key] for key in SOURCES if isinstance(table.get(key), str)}
    return {key: found for key, value in named.items() if (found := _digest(value, os.path.dirname(os.path.abspath(path))))}


def _digest(value: str, folder: str) -> str:
    if FUNCTION.holds(value):
        files = sorted(_sources(value.partition(":")[0], (folder, os.getcwd()), {}).items())
    else:
        place = os.path.join(folder, value)
        files = [("", place)] if os.path.isfile(place) else sorted(_inside(place))
    found = hashlib.sha256()
    for name, file in files:
        with open(file, "rb") as content:
            found.update(f"{name}\0{hashlib.file_digest(content, 'sha256').hexdigest()}\n".encode())
    return found.hexdigest() if files else ""


def _inside(folder: str) -> Iterator[tuple[str, str]]:
    """Files of a folder, by their paths in it."""
    for place, _, names in os.walk(folder):
        yield from ((os.path.relpath(os.path.join(place, name), folder), os.path.join(place, name)) for name in names)


def _sources(module: str, folders: tuple[str, ...], known: dict[str, str]) -> dict[str, str]:
    """Files of a module and of what it imports, by module, as far as the user wrote them."""
    file = module_file(module, folders) if module not in known else None
    if file is None or not os.path.isfile(file) or not is_own_code(file):
        return known
    known[module] = file
    if not file.endswith(".py"):
        return known
    with open(file, "rb") as source:
        text = source.read()
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return known  # which whoever imports it is told
    package = module if os.path.basename(file) == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree):
        for name in _imported(node, package):
            _sources(name, folders, known)
    return known


def _imported(node: ast.AST, package: str) -> Iterator[str]:
    """Modules that a statement may import, the packages around them among them."""
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
        base = ".".join(part for part in (*above, node.module or "") if part)
        names = [base, *(f"{base}.{alias.name}" if base else alias.name for alias in node.names)]
    for name in filter(None, names):
        parts = name.split(".")
        yield from (".".join(parts[:depth]) for depth in range(1, len(parts) + 1))
