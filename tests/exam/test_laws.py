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


@pytest.mark.sampled
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("kind", MECHANISMS)
def test_the_law_holds(kind: str, law: Callable[[Pipeline], Iterator[str]]) -> None:
    for subject in drawn(kind, str(SEED)):
        with suppress(InputError):
            assert list(law(subject.pipeline)) == [], subject.said
