"""Tests of the views of mechanisms in generated files, with extreme numbers: a number or a refusal, and no contradiction between two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np
import pytest

from dpcli.base.errors import DpcliError, NotRepresentable
from dpcli.base.registry import MECHANISMS
from dpcli.exam.examine import undetected_view
from dpcli.exam.subjects import SEED, Subject, drawn
from dpcli.exam.views import VIEWS, contradictions
from dpcli.file.pipeline.read import parse
from dpcli.file.pipeline.resolve import resolve
from dpcli.file.toml.write import toml_text
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.numerics.work import allowance
from tests.cases import of_each
from tests.random_commands import Files

FILES = 20  # in each of the parts
SCALES = ((-300.0, 300.0), (-12.0, 12.0))  # exponents of the numbers in a file
DELTAS = (0.0, 5e-324, 1e-300, 1e-30, 1e-6, 0.3, 1.0 - 1e-16)
AT = np.array([-50.0, -1.0, 0.0, 1e-300, 1e-5, 0.3, 2.0, 700.0, 1e10])
Z = np.array([1e-12, 1e-3, 0.5, 1.0, 7.0, 100.0, 1e6])
CELLS = 3e6


def views(mechanism: Mechanism) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every question to a mechanism, answered with numbers >= 0."""
    for delta in DELTAS:
        yield f"approx_dp({delta})", lambda delta=delta: mechanism.approx_dp(delta)
    for name in ("zcdp", "gdp", "delta_floor"):
        yield name, getattr(mechanism, name)
    yield "rdp", lambda: mechanism.rdp(Z + 1.0)
    with suppress(NotRepresentable), allowance(CELLS):
        for loss in mechanism.losses():
            yield f"cgf of {loss}", lambda loss=loss: loss.cgf(Z)
            yield f"tails of {loss}", lambda loss=loss: np.exp(np.concatenate(loss.tails(AT)))
            yield f"tilted {loss}", lambda loss=loss: float(loss.tilted(0.7) is None)


@pytest.mark.sampled(0, 2)
@pytest.mark.parametrize("part", range(8))
def test_every_view_is_a_number_or_a_refusal(part: int) -> None:
    for k in range(FILES):
        drawing = Files(Random(f"{SEED}/{part}/{k}"))
        drawing.scale = SCALES[k % 2]
        text = toml_text(drawing.document())
        with suppress(DpcliError):
            for charge in resolve(parse(text.encode(), "a.toml")):
                examine(charge.mechanism, text)


def examine(mechanism: Mechanism, text: str) -> None:
    for name, view in views(mechanism):
        with suppress(NotRepresentable), allowance(CELLS), np.errstate(all="ignore"):
            found = np.asarray(view())
            assert not np.isnan(found).any(), (name, mechanism, text)
            assert (found >= 0.0).all(), (name, mechanism, text)


def mechanisms(kind: str, seed: str) -> Iterator[tuple[Mechanism, Subject]]:
    """Yield the mechanisms of a type under each adjacency and scheme that its keys allow."""
    yield from ((mechanism, subject) for subject in drawn(kind, seed) for mechanism, _ in subject.steps)


@pytest.mark.parametrize("kind", MECHANISMS)
def test_no_view_contradicts_another(kind: str) -> None:
    for mechanism, subject in mechanisms(kind, str(SEED)):
        assert list(contradictions(mechanism)) == [], subject.source


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", MECHANISMS)
@of_each("view", VIEWS)
def test_a_view_that_is_a_tenth_is_seen(kind: str, view: str) -> None:
    """For mechanisms that attain their pair; the others are compared with an enumeration, and may be too large by any amount."""
    claiming = [m for m, _ in mechanisms(kind, "0") if m.attained() and not m.is_composition]
    assert not undetected_view(claiming, view)
