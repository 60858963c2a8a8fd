"""Access to the user's own code: its functions by name, its files and their digest, and its lines in tracebacks.

Commands run functions that users write (models, loaders, mechanisms), named "module:function". `dpcli audit`, training and private
prediction load and call them through this module. *Own code* is what belongs neither to Python nor to an installed package; its digest
tells whether a stored result was made by the same code. The message of an error may quote private data, so an import shows only the
messages of errors about the code itself (ERRORS_ABOUT_CODE), and `raised_at` shows none.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.metadata
import importlib.util
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from importlib.machinery import PathFinder
from typing import Any

from dpcli.base.errors import InputError
from dpcli.base.extras import unavailable

# Folders with code that is not the user's own: dpcli itself, and the libraries of this Python.
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIBRARY_FOLDERS = tuple(
    folder + os.sep for folder in (PACKAGE, *(sysconfig.get_path(name) for name in ("stdlib", "platlib", "purelib")))
)
# Names of folders that contain only libraries, in any installation of Python.
LIBRARY_FOLDER_NAMES = ("site-packages", "dist-packages")
ERRORS_ABOUT_CODE = (ImportError, SyntaxError, NameError)  # errors whose messages quote names and code, but no data
FAILURES = (Exception, SystemExit)  # sys.exit() in a user's code must not end dpcli


def user_function(target: str, folders: tuple[str, ...]) -> Callable[..., Any]:
    """Return the user's function with a given name.

    Args:
        target: Name of the function, as "package.module:name".
        folders: Folders of the user's modules. Installed modules with the same name take precedence, so that torch does not import a user's
            statistics.py instead of Python's module.

    Raises:
        InputError: There is no such module or function, or the import of the module fails. A module may read private data while it is
            imported, so the message does not quote errors that may contain data.
        Unavailable: The module needs an extra that is not installed.
    """
    module, colon, name = target.partition(":")
    if not colon or not module or not name:
        raise InputError(f"expected module:function, found {target!r}")
    sys.path += [folder for folder in dict.fromkeys(folders) if folder not in sys.path]
    try:
        imported = importlib.import_module(module)
        member = getattr(imported, name, None)
    except FAILURES as error:  # `unavailable` returns an error only if an extra is missing
        raise unavailable(error) or InputError(f"{target}: cannot be imported: {_import_error_text(error)}") from None
    if not callable(member):
        place = getattr(imported, "__file__", None) or "a built-in module"
        actual = "nothing" if member is None else type(member).__name__
        raise InputError(f"{target}: expected a function, found {actual} in {place}")
    function: Callable[..., Any] = member
    return function


def call_user_code(target: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a user's function and return its result.

    Raises InputError if the function raised an error. The error is converted, so that it is not reported as a bug in dpcli.
    """
    try:
        return function(*arguments)
    except InputError:
        raise
    except FAILURES as error:
        raise InputError(f"{target}: raised {error_text(error)}") from error


def error_text(error: BaseException) -> str:
    """Return the type of an error and, if it has one, its message."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def raised_at(error: BaseException) -> str:
    """Return the type of an error and its innermost line in the user's own code. The message is left out."""
    lines = [line for line in traceback.extract_tb(error.__traceback__) if is_own_code(line.filename)]
    place = f" at {os.path.basename(lines[-1].filename)}, line {lines[-1].lineno}" if lines else ""
    return f"{type(error).__name__}{place} (its message may quote a private record, and is not shown)"


def own_line() -> str:
    """Return the innermost line of the user's own code on the current call stack; "" if there is none."""
    frame = sys._getframe(1)
    while frame is not None and not is_own_code(frame.f_code.co_filename):
        frame = frame.f_back  # type: ignore[assignment]
    return f"{os.path.basename(frame.f_code.co_filename)}, line {frame.f_lineno}" if frame is not None else ""


def _import_error_text(error: BaseException) -> str:
    """Return an error of an import in words. The message is left out if it may quote data."""
    return error_text(error) if isinstance(error, ERRORS_ABOUT_CODE) or not str(error) else raised_at(error)


def module_file(module: str, folders: tuple[str, ...]) -> str | None:
    """Return the file that an import of a module would load; None if there is none. No module and no package is executed."""
    if module in sys.modules:
        return getattr(sys.modules[module], "__file__", None)
    search_path, spec = [*sys.path, *folders], None
    for name in _with_packages(module):
        spec = PathFinder.find_spec(name, search_path)
        search_path = list(spec.submodule_search_locations or ()) if spec else []
    return spec.origin if spec else None


def _with_packages(module: str) -> list[str]:
    """Return the names of the packages of a module, from the outermost, and its own: "a.b.c" -> ["a", "a.b", "a.b.c"]."""
    parts = module.split(".")
    return [".".join(parts[:depth]) for depth in range(1, len(parts) + 1)]


def code_files(target: str, folders: tuple[str, ...]) -> dict[str, str]:
    """Return the user's own files that a function ("module:function") needs, by module. The folders are searched after sys.path."""
    return _source_files(target.partition(":")[0], folders, {})


def digest_of_files(files: Mapping[str, str]) -> str:
    """Return a SHA-256 digest of the names and contents of files; "" if there are none."""
    digest = hashlib.sha256()
    for name, file in sorted(files.items()):
        with open(file, "rb") as content:
            digest.update(f"{name}\0{hashlib.file_digest(content, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest() if files else ""


def _source_files(module: str, folders: tuple[str, ...], known: dict[str, str]) -> dict[str, str]:
    """Add the user's own files of a module, and of the modules that it imports, to `known`, by module. Return `known`."""
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
        return known  # an import of the module will report the error
    package = module if os.path.basename(file) == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree):
        for name in _imported_modules(node, package):
            _source_files(name, folders, known)
    return known


def _imported_modules(node: ast.AST, package: str) -> Iterator[str]:
    """Yield the names of the modules that a statement may import, and of their packages."""
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        base_parts: list[str] = []
        if node.level:  # a relative import: level 1 is the package itself, and level 2 the package around it
            package_parts = package.split(".")
            base_parts = package_parts[: len(package_parts) - node.level + 1]
        if node.module:
            base_parts = [*base_parts, *node.module.split(".")]
        base = ".".join(filter(None, base_parts))
        names = [base, *(f"{base}.{alias.name}" if base else alias.name for alias in node.names)]
    for name in filter(None, names):
        yield from _with_packages(name)


def is_own_code(file: str) -> bool:
    """Return whether a file belongs to the user's own code. Code from a prompt has no file, and does not count."""
    return not file.startswith("<") and not is_library(file)


def is_library(file: str) -> bool:
    """Return whether a file belongs to a library.

    Such a file lies in a library folder of this Python or of torch, or in a folder on sys.path with a name in LIBRARY_FOLDER_NAMES, or the
    record of an installer lists it.
    """
    folders, files = _libraries_elsewhere(tuple(sys.path))
    return file.startswith((*LIBRARY_FOLDERS, *folders)) or file in files


@lru_cache(maxsize=4)
def _libraries_elsewhere(path: tuple[str, ...]) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the folders and files of libraries that lie outside the folders into which this Python installs libraries."""
    library_folders = list(_torch_folders())
    files: set[str] = set()
    for folder in path:
        if not folder or (folder + os.sep).startswith(LIBRARY_FOLDERS):
            continue
        if os.path.basename(os.path.normpath(folder)) in LIBRARY_FOLDER_NAMES:
            library_folders.append(os.path.normpath(folder) + os.sep)
        else:
            files.update(_installed_files(folder))
    return tuple(library_folders), frozenset(files)


def _installed_files(folder: str) -> Iterator[str]:
    """Yield the files that an installer has copied into a folder. An editable install adds none of the project's files."""
    for distribution in importlib.metadata.distributions(path=[folder]):
        for line in (distribution.read_text("RECORD") or "").splitlines():
            path, *_hash_and_size = line.rsplit(",", 2)
            yield os.path.normpath(os.path.join(folder, path))


def _torch_folders() -> Iterator[str]:
    """Yield the folders of the torch package. It may be a source tree, which lies outside all folders of libraries."""
    spec = importlib.util.find_spec("torch")
    if spec is not None:
        yield from (folder + os.sep for folder in spec.submodule_search_locations or ())
