"""Fixtures of all tests of training: one thread, an empty folder for each test, and caches of slow results.

The data set of digits is read once. *Isolation* is the check that a model does not mix the records of a batch; it follows the program,
which is the model with its loss, through one step. The result for an equal program is cached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

if TYPE_CHECKING:
    from dpcli.train.isolation.traced_program import Program

Key = tuple[object, ...]
_of_configurations: dict[Key, Program] = {}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """Use one thread, as several tests may run at once, and sums on several threads may round differently."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an empty folder the working directory, and return it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session", autouse=True)
def _digits_read_once() -> Iterator[None]:
    """Read the digits once for all tests. This is safe, as dpcli copies them before it changes them."""
    from dpcli.train.tasks import array_files as arrays

    read = cache(arrays.digits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "digits", lambda path: read("digits"))
        yield


@pytest.fixture(autouse=True)
def _isolation_of_tasks_cached(request: pytest.FixtureRequest) -> Iterator[None]:
    """Cache the isolation of programs of dpcli's own tasks, except in tests of the engine or of the isolation."""
    if request.path.parent.name == "engine" or "isolation" in request.path.name:
        yield
        return
    with following_once():
        yield


@pytest.fixture
def followed_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the isolation of the test's only program once, however many engines the test makes of it.

    The result for a parameter `configuration` or `name` is shared by all tests that use this fixture. It is for tests of later stages.
    """
    from dpcli.train.engine import opacus, per_example
    from dpcli.train.isolation.rehearsal import check_isolation

    params = getattr(getattr(request.node, "callspec", None), "params", {})
    configuration: Any = params.get("configuration")
    of = (request.path.name, params["name"]) if "name" in params else getattr(configuration, "name", None)
    programs: dict[Key, Program] = {} if of is None else _of_configurations

    def once(model: Any, loss: Any, draw: Any) -> Program:
        key = (of, next(model.parameters()).dtype, model.training)
        if key not in programs:
            programs[key] = check_isolation(model, loss, draw)
        return programs[key]

    monkeypatch.setattr(per_example, "check_isolation", once)
    monkeypatch.setattr(opacus, "check_isolation", once)


CACHEABLE = ("torch", "dpcli", "transformers", "peft")  # packages whose programs are the same in every test

_programs: dict[Any, tuple[Program, tuple[int, ...]]] = {}


def key(model: Any, loss: Any, draw: Callable[[int], Any]) -> tuple[object, ...] | None:
    """Return the key of a program in the cache; None if a part of it is a user's or a test's code, which is not cached."""
    from torch.utils._pytree import tree_leaves

    given = ()
    while isinstance(loss, partial):
        given, loss = (*given, repr(loss.args), repr(loss.keywords)), loss.func
    written = [getattr(loss, "__module__", ""), *(type(module).__module__ for module in model.modules())]
    if any(module.partition(".")[0] not in CACHEABLE for module in written) or getattr(loss, "__closure__", ()) is not None:
        return None  # a closure may contain a user's function
    parameters = tuple((name, p.shape, p.dtype, p.requires_grad) for name, p in model.named_parameters())
    leaves = tuple((leaf.shape[1:], leaf.dtype) for leaf in tree_leaves(draw(1)))
    return (
        repr(model),
        str(getattr(model, "config", "")),
        model.training,
        parameters,
        loss.__module__,
        loss.__qualname__,
        given,
        leaves,
    )


@contextmanager
def following_once() -> Iterator[None]:
    """Cache the isolation of programs within this context. A cached check still draws its records, so that later draws do not change."""
    from dpcli.train.engine import per_example

    check_isolation = per_example.check_isolation

    def once(model: Any, loss: Any, draw: Callable[[int], Any]) -> Program:
        program = key(model, loss, draw)
        if program is None:
            return check_isolation(model, loss, draw)
        if program in _programs:
            answer, counts = _programs[program]
            for count in counts:
                draw(count)
            return answer
        drawn: list[int] = []

        def counted(count: int) -> Any:
            drawn.append(count)
            return draw(count)

        answer = check_isolation(model, loss, counted)
        _programs[program] = answer, tuple(drawn)
        return answer

    with mock.patch.object(per_example, "check_isolation", once):
        yield
