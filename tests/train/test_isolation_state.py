"""Wherever a forward counts its calls, the comparison of all that it reaches sees it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra train is not installed")

from torch import Tensor  # noqa: E402

from dpcli.errors import InputError  # noqa: E402
from dpcli.train.isolation.state import state  # noqa: E402
from tests.train import mixing_models as models  # noqa: E402

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


def going() -> Iterator[int]:
    yield from range(1000)


def through(counter: Iterator[Any]) -> Callable[[], Any]:
    return lambda: next(counter)


def octets() -> Callable[[], None]:
    found = bytearray(1)

    def count() -> None:
        found[0] += 1

    return count


def of_a_module() -> None:
    models.TALLY += 1  # type: ignore[attr-defined]


COUNTERS: dict[str, Callable[[], Callable[[], Any]]] = {
    "slots": Slots,
    "slots of the base": Several,
    "a set": exchanged,
    "bytes": octets,
    "itertools.count": lambda: through(itertools.count()),
    "itertools.cycle": lambda: through(itertools.cycle([0, 0, 1])),
    "a list's iterator": lambda: through(iter([0] * 100)),
    "a generator": lambda: through(going()),
    "another module's global": lambda: of_a_module,
}


class Counting(models.Net):
    def __init__(self, count: Callable[[], Any]) -> None:
        super().__init__()
        self.count = count

    def done(self, x: Tensor) -> Tensor:
        self.count()
        return x


@pytest.mark.parametrize("name", COUNTERS)
def test_a_count_of_calls_is_seen(name: str) -> None:
    model = Counting(COUNTERS[name]())
    before = state(model, models.loss)
    before.require_same(state(model, models.loss))
    model(torch.zeros(2, models.WIDTH))
    with pytest.raises(InputError, match="that training leaves alone"):
        before.require_same(state(model, models.loss))
