"""How often intervals held the truth, against how often they should."""

from __future__ import annotations

from collections.abc import Sequence

from scipy import stats

SURE = 1e-9
MANY = 10_000  # repetitions from which on 94 to 96 % are asked of 95 %


def covered(hits: Sequence[object], confidence: float, wider: float = 0.0) -> None:
    """Within what chance allows once in 10^9 of the confidence; `wider`: by how much an honest one may be above."""
    count, held = len(hits), sum(map(bool, hits))
    law = stats.binom(count, confidence)
    assert law.cdf(held) > SURE
    assert stats.binom.sf(held - 1, count, min(confidence + 0.005 + wider, 1.0)) > SURE  # half a percent for the lattice
    if count >= MANY:
        assert confidence - 0.01 <= held / count <= confidence + 0.01 + wider
