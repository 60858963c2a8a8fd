"""Which files are Python's, ours or an installed library's; all others are a user's own code, which is looked at more closely."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Iterator
from functools import lru_cache

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDERS = tuple(folder + os.sep for folder in (PACKAGE, *(sysconfig.get_path(name) for name in ("stdlib", "platlib", "purelib"))))
NAMES = ("site-packages", "dist-packages")  # folders that hold nothing but libraries, of whichever Python they are


def is_library(file: str) -> bool:
    """Whether a library has the file: by the folders of this Python, by a folder of such a name on sys.path, by the record that an
    installer left of a library on sys.path, or because torch is imported from there."""
    folders, files = _elsewhere(tuple(sys.path))
    return file.startswith((*FOLDERS, *folders)) or file in files


def is_own_code(file: str) -> bool:
    """Whether a user wrote it; what was typed in has no file."""
    return not file.startswith("<") and not is_library(file)


@lru_cache(maxsize=4)
def _elsewhere(path: tuple[str, ...]) -> tuple[tuple[str, ...], frozenset[str]]:
    """Folders of libraries, and files of them, that are not where this Python installs."""
    others = [place for place in path if place and not (place + os.sep).startswith(FOLDERS)]
    named = [place for place in others if os.path.basename(os.path.normpath(place)) in NAMES]
    files = frozenset(file for place in others if place not in named for file in _recorded(place))
    return tuple(os.path.normpath(place) + os.sep for place in named) + tuple(_torch()), files


def _recorded(place: str) -> Iterator[str]:
    """Files that an installer has put there; of a project that is only pointed to from there none."""
    for distribution in importlib.metadata.distributions(path=[place]):
        for line in (distribution.read_text("RECORD") or "").splitlines():
            yield os.path.normpath(os.path.join(place, line.rsplit(",", 2)[0]))


def _torch() -> Iterator[str]:
    """torch's own folder, which may be its source."""
    found = importlib.util.find_spec("torch")
    return (folder + os.sep for folder in (found.submodule_search_locations or () if found else ()))
