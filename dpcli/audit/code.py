"""A function's code, by content: the source of its module and of all modules of the user's own that it imports, none of which is run."""

from __future__ import annotations

import ast
import hashlib
import os
from collections.abc import Iterator, Mapping

from dpcli.audit.libraries import is_own_code
from dpcli.audit.user_code import module_file


def code_files(target: str, folders: tuple[str, ...]) -> dict[str, str]:
    """Of "module:function" the files, by module, as far as the user wrote them. folders: where they are looked for beside sys.path."""
    return _sources(target.partition(":")[0], folders, {})


def digest_of_files(files: Mapping[str, str]) -> str:
    """SHA-256 of files with their names; "" of none."""
    found = hashlib.sha256()
    for name, file in sorted(files.items()):
        with open(file, "rb") as content:
            found.update(f"{name}\0{hashlib.file_digest(content, 'sha256').hexdigest()}\n".encode())
    return found.hexdigest() if files else ""


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
