"""The comparison of state (train/isolation/kept_state.py) detects a forward that counts its calls, wherever it keeps the count."""

from __future__ import annotations

import array
import functools
import io
import itertools
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from dpcli.audit import own_code as user_code
from dpcli.base.errors import InputError
from dpcli.train.isolation.kept_state import reachable_state
from tests.cases import require_each
from tests.train.isolation import mixing_models as models

models.TALLY = 0  # type: ignore[attr-defined]


class Slots:
    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1


class Several(Slots):
    """The place is the base's."""

    __slots__ = ()


def exchanged() -> Callable[[], None]:
    """A set of always one."""
    found = {0}

    def count() -> None:
        found.add(found.pop() + 1)

    return count


def through(counter: Iterator[Any]) -> Callable[[], Any]:
    return lambda: next(counter)


def octets() -> Callable[[], None]:
    found = bytearray(1)

    def count() -> None:
        found[0] += 1

    return count


def of_a_module() -> None:
    models.TALLY += 1  # type: ignore[attr-defined]


def an_array() -> Callable[[], None]:
    found = array.array("l", [0])

    def count() -> None:
        found[0] += 1

    return count


def of_the_thread() -> Callable[[], None]:
    found = threading.local()
    found.calls = 0

    def count() -> None:
        found.calls += 1

    return count


COUNTERS: dict[str, Callable[[], Callable[[], Any]]] = {
    "slots": Slots,
    "slots of the base": Several,
    "a set": exchanged,
    "bytes": octets,
    "itertools.count": lambda: through(itertools.count()),
    "itertools.cycle": lambda: through(itertools.cycle([0, 0, 1])),
    "a list's iterator": lambda: through(iter([0] * 100)),
    "another module's global": lambda: of_a_module,
    "an array": an_array,
    "a thread's own": of_the_thread,
    "a buffer of bytes": lambda: through(io.BytesIO(b"0" * 100)),
    "random.Random": lambda: random.Random(1).random,
    "numpy's Generator": lambda: numpy.random.default_rng(1).random,
    "numpy's RandomState": lambda: numpy.random.RandomState(1).rand,
    "torch's Generator": lambda: functools.partial(torch.rand, 1, generator=torch.Generator()),
    "torch's seed": lambda: lambda: torch.manual_seed(torch.initial_seed() + 1),
}


class Counting(models.Net):
    def __init__(self, count: Callable[[], Any]) -> None:
        super().__init__()
        self.count = count

    def done(self, x: Tensor) -> Tensor:
        self.count()
        return x


def test_a_count_of_calls_is_seen() -> None:
    def check(name: str) -> None:
        model = Counting(COUNTERS[name]())
        before = reachable_state(model, models.loss)
        before.require_same(reachable_state(model, models.loss))
        model(torch.zeros(2, models.WIDTH))
        with pytest.raises(InputError, match="that training does not change"):
            before.require_same(reachable_state(model, models.loss))

    require_each(COUNTERS, check)


def test_a_hook_on_every_module_is_looked_into() -> None:
    model, calls = models.Net(), [0]

    def count(*unused: Any) -> None:
        calls[0] += 1

    handle = torch.nn.modules.module.register_module_forward_hook(count)
    try:
        before = reachable_state(model, models.loss)
        model(torch.zeros(2, models.WIDTH))
        with pytest.raises(InputError, match="that training does not change"):
            before.require_same(reachable_state(model, models.loss))
    finally:
        handle.remove()


def test_the_systems_random_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="found the operating system's; draw them with torch"):
        reachable_state(Counting(random.SystemRandom().random), models.loss)


class Recomputed(models.Net):
    """What torch compiles of its own checkpoint on the way is torch's."""

    def done(self, x: Tensor) -> Tensor:
        return checkpoint(torch.tanh, x, use_reentrant=False)


def test_libraries_may_be_in_folders_of_another_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under PYTHONPATH, or where a virtual environment sees the system's packages: their own state is not the user's, whose is seen."""
    monkeypatch.setattr(user_code, "LIBRARY_FOLDERS", tuple(one for one in user_code.LIBRARY_FOLDERS if "site-packages" not in one))
    user_code._libraries_elsewhere.cache_clear()
    try:
        model = Recomputed()
        before = reachable_state(model, models.loss)
        monkeypatch.setattr(checkpoint, "compiled", True, raising=False)
        before.require_same(reachable_state(model, models.loss))
        counting = Counting(Slots())
        before = reachable_state(counting, models.loss)
        counting(torch.zeros(2, models.WIDTH))
        with pytest.raises(InputError, match="that training does not change"):
            before.require_same(reachable_state(counting, models.loss))
    finally:
        user_code._libraries_elsewhere.cache_clear()
