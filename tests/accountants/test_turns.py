"""Who is asked when work is short: a dear question to one accountant does not silence another that answers it cheaply."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpcli.accounting import account
from dpcli.mechanisms.laplace import Laplace
from dpcli.mechanisms.poisson import PoissonReplaced, PoissonSampled
from dpcli.numerics import work
from dpcli.pipeline.model import Pipeline
from tests.strategies import entry, pipeline

AMOUNTS = 1000
DEAR = {
    "a draw of many amounts": pipeline(
        entry(
            "gaussian-mixture",
            steps=100,
            rate=0.01,
            sensitivities=tuple(1.0 + 0.001 * k for k in range(AMOUNTS)),
            probabilities=(1.0 / AMOUNTS,) * AMOUNTS,
            sigma=1.0,
        )
    ),
    "many different samples": pipeline(
        *(
            entry("laplace" if k % 2 else "gaussian", f"m{k}", 3, 0.001 + 1e-5 * k, noise_multiplier=5.0 + 0.01 * k)
            for k in range(120)
        )
    ),
}


@pytest.mark.parametrize("name", DEAR)
def test_what_is_answered_alone_is_answered_beside_the_others(name: str) -> None:
    dear: Pipeline = replace(DEAR[name], budget=None)
    together = account(dear).upper  # asked first: what has been computed is remembered
    alone = [account(dear, [asked]).upper for asked in ("zcdp", "moments", "rdp")]
    assert together <= min(alone) * (1.0 + 1e-12)


@pytest.mark.parametrize("kind", [PoissonSampled, PoissonReplaced])
def test_an_expansion_is_counted_and_made_once(kind: type[PoissonSampled] | type[PoissonReplaced]) -> None:
    """The moments at integer orders are the same whatever order is asked for."""
    sampled, cells = kind(Laplace(0.123456789), 0.0123), []
    for order in (1.5, 2.5, 40.0):
        with work.allowance(1e9):
            left = work._left.get()
            assert left is not None
            sampled.rdp(np.array([order]))
            cells.append(1e9 - left[0])
    assert cells[0] >= 1e4
    assert cells[1:] == [0.0, 0.0]
