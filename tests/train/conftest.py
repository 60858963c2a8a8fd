"""Fixtures of all tests of training: one thread, a folder of the test's own, and results that most runs would compute again.

The digits are read once, and the isolation of the same program is checked once.
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
    """Several tests may run at once, and sums on several threads may round differently."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder of the test, which is empty."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session", autouse=True)
def _digits_read_once() -> Iterator[None]:
    """Nobody writes into what was read: it is copied into another number format first."""
    from dpcli.train.tasks import array_files as arrays

    read = cache(arrays.digits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "digits", lambda path: read("digits"))
        yield


@pytest.fixture(autouse=True)
def _tasks_followed_once(request: pytest.FixtureRequest) -> Iterator[None]:
    """Programs of dpcli's own tasks are followed once, but where the engine or the isolation is what is tested."""
    if request.path.parent.name == "engine" or "isolation" in request.path.name:
        yield
        return
    with following_once():
        yield


@pytest.fixture
def followed_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of what comes after the isolation: the one program of a test is followed once, however many engines are made of it, and
    that of a `configuration` once in all tests that ask for this."""
    from dpcli.train.engine import opacus, per_example
    from dpcli.train.isolation.rehearsal import check_isolation

    params = getattr(getattr(request.node, "callspec", None), "params", {})
    configuration: Any = params.get("configuration")
    of = (request.path.name, params["name"]) if "name" in params else getattr(configuration, "name", None)
    found: dict[Key, Program] = {} if of is None else _of_configurations

    def once(model: Any, loss: Any, draw: Any) -> Program:
        key = (of, next(model.parameters()).dtype, model.training)
        if key not in found:
            found[key] = check_isolation(model, loss, draw)
        return found[key]

    monkeypatch.setattr(per_example, "check_isolation", once)
    monkeypatch.setattr(opacus, "check_isolation", once)


OURS = ("torch", "dpcli", "transformers", "peft")

_found: dict[Any, tuple[Program, tuple[int, ...]]] = {}


def key(model: Any, loss: Any, draw: Callable[[int], Any]) -> tuple[object, ...] | None:
    """What a program is: None where some of it is the user's or a test's, of which nothing is remembered."""
    from torch.utils._pytree import tree_leaves

    given = ()
    while isinstance(loss, partial):
        given, loss = (*given, repr(loss.args), repr(loss.keywords)), loss.func
    written = [getattr(loss, "__module__", ""), *(type(module).__module__ for module in model.modules())]
    if any(module.partition(".")[0] not in OURS for module in written) or getattr(loss, "__closure__", ()) is not None:
        return None  # a closure may hold a function of the user's
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
    """Inside, no such program is followed again; as many records are drawn as if it were, so that a seed means the same each time."""
    from dpcli.train.engine import per_example

    check_isolation = per_example.check_isolation

    def once(model: Any, loss: Any, draw: Callable[[int], Any]) -> Program:
        program = key(model, loss, draw)
        if program is None:
            return check_isolation(model, loss, draw)
        if program in _found:
            answer, counts = _found[program]
            for count in counts:
                draw(count)
            return answer
        drawn: list[int] = []

        def counted(count: int) -> Any:
            drawn.append(count)
            return draw(count)

        answer = check_isolation(model, loss, counted)
        _found[program] = answer, tuple(drawn)
        return answer

    with mock.patch.object(per_example, "check_isolation", once):
        yield
