"""The laws, for every registered type, sampling scheme and adjacency."""

from __future__ import annotations

from contextlib import suppress

import pytest

from dpcli.base.errors import InputError
from dpcli.base.registry import MECHANISMS
from dpcli.exam.examine import lawless
from dpcli.exam.mechanism_laws import LAWS
from dpcli.exam.subjects import SEED, drawn
from tests.cases import every

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


PARTS = [*every(6, MECHANISMS, begin=3), *every(1, MECHANISMS, pytest.mark.long)]


@pytest.mark.sampled(8, 6)
@pytest.mark.parametrize(("kind", "part"), PARTS)
def test_a_law_holds(kind: str, part: slice) -> None:
    """One of the laws for each pipeline, in turn."""
    asked = [(subject, LAWS[k % len(LAWS)]) for k, subject in enumerate(drawn(kind, str(SEED)), list(MECHANISMS).index(kind))]
    for subject, law in asked[part]:
        with suppress(InputError):
            assert list(law(subject.pipeline)) == [], (law.__name__, subject.source)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", MECHANISMS)
def test_all_laws_hold(kind: str) -> None:
    for subject in drawn(kind, str(SEED)):
        assert list(lawless(subject.pipeline)) == [], subject.source
