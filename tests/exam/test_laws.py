"""The laws, for every registered type, sampling scheme and adjacency."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from dpcli.errors import InputError
from dpcli.pipeline.model import Pipeline
from dpcli.registry import MECHANISMS
from tests.exam.laws import LAWS
from tests.exam.subjects import SEED, drawn

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


Law = Callable[[Pipeline], Iterator[str]]


def in_turn(kind: str) -> Law:
    return LAWS[list(MECHANISMS).index(kind) % len(LAWS)]


@pytest.mark.parametrize(
    ("kind", "laws"),
    [
        *(pytest.param(kind, (in_turn(kind),)) for kind in MECHANISMS),
        *(
            pytest.param(kind, tuple(law for law in LAWS if law is not in_turn(kind)), marks=pytest.mark.long)
            for kind in MECHANISMS
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(law.__name__ for law in value),
)
def test_the_laws_hold(kind: str, laws: tuple[Law, ...]) -> None:
    for subject in drawn(kind, str(SEED)):
        for law in laws:
            with suppress(InputError):
                assert list(law(subject.pipeline)) == [], (law.__name__, subject.said)
