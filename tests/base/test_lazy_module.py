"""Tests of base/lazy.py: a module loads once, when it is first read, and every thread sees it completely loaded."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

from dpcli.base.lazy import lazy

SLOW = """
import time
from pathlib import Path
import {name} as itself
with open(Path(__file__).with_suffix(".log"), "a") as log:
    log.write("loaded\\n")
early = 1
assert itself.early == 1
time.sleep(0.2)
late = 2
def __getattr__(name):
    return name.upper()
"""


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    name = f"slow_{abs(hash(request.node.name))}"
    (tmp_path / f"{name}.py").write_text(SLOW.format(name=name))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path / f"{name}.py"


def test_threads_that_read_first_find_all_of_it(slow: Path) -> None:
    module, found, start = lazy(slow.stem), [], threading.Barrier(8)
    assert lazy(slow.stem) is module and not slow.with_suffix(".log").exists()

    def read(one: int) -> None:
        start.wait()
        try:
            found.append((module.late, module.early, module.other) if one % 2 else (__import__(slow.stem).late, 1, "OTHER"))
        except AttributeError as error:
            found.append(error)

    threads = [threading.Thread(target=read, args=(one,)) for one in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [(2, 1, "OTHER")] * 8
    assert slow.with_suffix(".log").read_text() == "loaded\n" and type(module) is ModuleType


def test_what_fails_to_load_says_so_each_time(slow: Path) -> None:
    slow.write_text("raise ImportError('a library is missing')")
    module = lazy(slow.stem)
    for _ in range(2):
        with pytest.raises(ImportError, match="a library is missing"):
            module.anything  # noqa: B018
    del sys.modules[slow.stem]
    with pytest.raises(ModuleNotFoundError):
        lazy("no_such_module_anywhere")
