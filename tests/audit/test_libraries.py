"""What is a library's and what a user's own code, wherever either was put."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from tempfile import mkdtemp

import pytest

import dpcli
from dpcli.audit.user_code import is_library, is_own_code

OWN = "job.py"


def layout(folder: Path, record: str | None) -> Path:
    """A library beside a user's own file and the user's own package, with what an installer has left of the library."""
    for name in ("library/__init__.py", "library/inner/part.py", "mine/__init__.py", OWN):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    if record is not None:
        (folder / "library-1.0.dist-info").mkdir()
        (folder / "library-1.0.dist-info/METADATA").write_text("Name: library\nVersion: 1.0\n")
        (folder / "library-1.0.dist-info/RECORD").write_text(record)
    return folder


RECORD = "library/__init__.py,sha256=x,0\nlibrary/inner/part.py,,\nlibrary-1.0.dist-info/RECORD,,\n../../bin/library,,\n"
EDITABLE = "__editable__.library-1.0.pth,sha256=x,20\nlibrary-1.0.dist-info/RECORD,,\n"


@pytest.mark.parametrize(
    ("name", "record", "library", "own"),
    [
        ("other/site-packages", RECORD, True, False),  # nothing in such a folder is a user's own
        ("dist-packages", None, True, False),
        ("target", RECORD, True, True),
        ("target", None, False, True),
        ("target", EDITABLE, False, True),
    ],
)
def test_where_a_library_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, record: str | None, library: bool, own: bool
) -> None:
    folder = layout(Path(mkdtemp(dir=tmp_path), name), record)  # a path that no other test has had
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    assert is_library(str(folder / "library/inner/part.py")) is library
    for file in (OWN, "mine/__init__.py"):
        assert is_own_code(str(folder / file)) is own
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place != str(folder)])
    assert is_own_code(str(folder / "library/inner/part.py"))  # nobody imports it from there


def test_a_project_that_is_developed_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said beside its source lists its own files: they stay the user's."""
    folder = layout(tmp_path / "project", None)
    (folder / "mine.egg-info").mkdir()
    (folder / "mine.egg-info/PKG-INFO").write_text("Name: mine\nVersion: 1.0\n")
    (folder / "mine.egg-info/SOURCES.txt").write_text("mine/__init__.py\n")
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    assert is_own_code(str(folder / "mine/__init__.py"))


def test_pythons_own_ours_and_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_library(dpcli.__file__) and is_library(pytest.__file__) and is_library(importlib.util.__file__)
    assert is_own_code(str(tmp_path / OWN)) and not is_own_code("<string>")
    for file in ("torch/__init__.py", "torch/nn/modules/linear.py", OWN):  # its source, with nothing beside it
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert is_library(str(tmp_path / "torch/nn/modules/linear.py")) and is_own_code(str(tmp_path / OWN))
