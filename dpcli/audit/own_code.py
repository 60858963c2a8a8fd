"""Code of the user's own: which files hold it, its digest, and its functions by name."""

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

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIBRARY_FOLDERS = tuple(
    folder + os.sep for folder in (PACKAGE, *(sysconfig.get_path(name) for name in ("stdlib", "platlib", "purelib")))
)
LIBRARY_FOLDER_NAMES = ("site-packages", "dist-packages")  # folders that hold nothing but libraries, of whichever Python they are
ERRORS_ABOUT_CODE = (ImportError, SyntaxError, NameError)  # whose messages quote names and code, and no data
FAILURES = (Exception, SystemExit)  # sys.exit() in a user's code must not end us, with exit code 0 at that


def user_function(target: str, folders: tuple[str, ...]) -> Callable[..., Any]:
    """Return the function that "package.module:name" names.

    Args:
        folders: Folders of the user's modules. Installed modules of the same name come first: a statistics.py of the user's must not stand
            in for Python's own wherever torch imports that.

    Raises:
        InputError: No such module or function, or the module itself fails while it is imported, when it may read private data: then without
            the words of that.
        Unavailable: It needs an extra.
    """
    module, colon, name = target.partition(":")
    if not colon or not module or not name:
        raise InputError(f"expected module:function, found {target!r}")
    sys.path += [folder for folder in dict.fromkeys(folders) if folder not in sys.path]
    try:
        imported = importlib.import_module(module)
        member = getattr(imported, name, None)
    except FAILURES as error:
        raise unavailable(error) or InputError(f"{target}: cannot be imported: {_import_error_text(error)}") from None
    if not callable(member):
        place = getattr(imported, "__file__", None) or "a module of Python's own"
        raise InputError(
            f"{target}: expected a function, found {'nothing' if member is None else type(member).__name__} in {place}"
        )
    function: Callable[..., Any] = member
    return function


def called(target: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of the user's. Raises InputError for what it raises, so that a bug in it is not taken for one of ours."""
    try:
        return function(*arguments)
    except InputError:
        raise
    except FAILURES as error:
        raise InputError(f"{target}: raised {error_text(error)}") from error


def error_text(error: BaseException) -> str:
    """Return an error's type, and its message if it has one."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def raised_at(error: BaseException) -> str:
    """Return an error's type and its place in the user's code: the last line that is neither installed nor ours."""
    own = [line for line in traceback.extract_tb(error.__traceback__) if is_own_code(line.filename)]
    place = f" at {os.path.basename(own[-1].filename)}, line {own[-1].lineno}" if own else ""
    return f"{type(error).__name__}{place} (its message may quote a private record, and is not shown)"


def own_line() -> str:
    """Return the innermost line of the user's own code that runs now; "" if there is none."""
    frame = sys._getframe(1)
    while frame is not None and not is_own_code(frame.f_code.co_filename):
        frame = frame.f_back  # type: ignore[assignment]
    return f"{os.path.basename(frame.f_code.co_filename)}, line {frame.f_lineno}" if frame is not None else ""


def _import_error_text(error: BaseException) -> str:
    return error_text(error) if isinstance(error, ERRORS_ABOUT_CODE) or not str(error) else raised_at(error)


def module_file(module: str, folders: tuple[str, ...]) -> str | None:
    """Return the file that an import of a module would find, without running it or a package around it; None if it finds none."""
    if module in sys.modules:
        return getattr(sys.modules[module], "__file__", None)
    names, places, spec = module.split("."), [*sys.path, *folders], None
    for depth in range(1, len(names) + 1):
        spec = PathFinder.find_spec(".".join(names[:depth]), places)
        places = list(spec.submodule_search_locations or ()) if spec else []
    return spec.origin if spec else None


def code_files(target: str, folders: tuple[str, ...]) -> dict[str, str]:
    """Return the files of "module:function", by module, as far as the user wrote them.

    Args:
        folders: Searched after sys.path.
    """
    return _source_files(target.partition(":")[0], folders, {})


def digest_of_files(files: Mapping[str, str]) -> str:
    """Return the SHA-256 of files with their names; "" of none."""
    digest = hashlib.sha256()
    for name, file in sorted(files.items()):
        with open(file, "rb") as content:
            digest.update(f"{name}\0{hashlib.file_digest(content, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest() if files else ""


def _source_files(module: str, folders: tuple[str, ...], known: dict[str, str]) -> dict[str, str]:
    """Return the files of a module and of what it imports, by module, as far as the user wrote them."""
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
        for name in _imported_modules(node, package):
            _source_files(name, folders, known)
    return known


def _imported_modules(node: ast.AST, package: str) -> Iterator[str]:
    """Yield the modules that a statement may import, and the packages around them."""
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


def is_own_code(file: str) -> bool:
    """Tell whether a user wrote a file; what was typed in has no file."""
    return not file.startswith("<") and not is_library(file)


def is_library(file: str) -> bool:
    """Tell whether a file is a library's, and no user's.

    It is where it lies in a folder of this Python or of torch, in one on sys.path that is named as such, or in an installer's record.
    """
    folders, files = _libraries_elsewhere(tuple(sys.path))
    return file.startswith((*LIBRARY_FOLDERS, *folders)) or file in files


@lru_cache(maxsize=4)
def _libraries_elsewhere(path: tuple[str, ...]) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return folders and files of libraries that are not where this Python installs."""
    others = [place for place in path if place and not (place + os.sep).startswith(LIBRARY_FOLDERS)]
    named = [place for place in others if os.path.basename(os.path.normpath(place)) in LIBRARY_FOLDER_NAMES]
    files = frozenset(file for place in others if place not in named for file in _installed_files(place))
    return tuple(os.path.normpath(place) + os.sep for place in named) + tuple(_torch_folders()), files


def _installed_files(place: str) -> Iterator[str]:
    """Yield the files that an installer has put there; none of a project that is only pointed to."""
    for distribution in importlib.metadata.distributions(path=[place]):
        for line in (distribution.read_text("RECORD") or "").splitlines():
            yield os.path.normpath(os.path.join(place, line.rsplit(",", 2)[0]))


def _torch_folders() -> Iterator[str]:
    """Return torch's own folder, which may be its source."""
    spec = importlib.util.find_spec("torch")
    return (folder + os.sep for folder in (spec.submodule_search_locations or () if spec else ()))
