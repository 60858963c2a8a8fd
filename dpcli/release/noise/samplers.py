"""Draws of noise on integers, by OpenDP's integer samplers alone.

OpenDP's modules are imported one by one: its prelude takes eight times as long (2.0 s and 141 MB instead of 0.25 s and 47 MB).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache, singledispatch
from typing import TYPE_CHECKING

from dpcli.base.errors import InternalError, Unavailable
from dpcli.base.extras import require
from dpcli.release.noise.laws import DiscreteGaussianLaw, DiscreteLaplaceLaw, NoiseLaw

if TYPE_CHECKING:
    from opendp.mod import Measurement

# Before it, division of rationals was wrong and the discrete samplers were biased: opendp issue 2638.
FIRST_UNBIASED = (0, 14, 2)
INT64_MAX = 2**63 - 1  # of OpenDP's integers
BATCH = 65_536  # draws at once, so that memory is bounded


def noisy(values: Sequence[int], law: NoiseLaw) -> list[int]:
    """Return each value plus its own independent draw of this law.

    The noise is drawn on zeros and added in Python, so that values may have any size. OpenDP clamps its results to 64 bits, and clamped
    noise would show the value beneath it. With the scales that a law allows that has a probability below e^-8000, and such a draw is
    refused whatever the values are.

    Priced by: discrete-laplace with `scale`, or discrete-gaussian with `sigma`, and the sensitivity of `values` as one vector.

    Args:
        values: Exact whole numbers, of any size.
        law: Law of the noise, in the same units.

    Raises:
        Unavailable: OpenDP is not installed, or its samplers are known to be biased.
    """
    return [value + draw for value, draw in zip(values, draws(len(values), law), strict=True)]


def draws(count: int, law: NoiseLaw) -> list[int]:
    """Return independent draws of a law."""
    sampler = measurement(law)
    drawn: list[int] = []
    while len(drawn) < count:
        drawn += sampler([0] * min(BATCH, count - len(drawn)))
    if any(abs(draw) >= INT64_MAX for draw in drawn):
        raise InternalError("a draw of the noise passed 64 bits, which does not happen: nothing was released")
    return drawn


@singledispatch
def measurement(law: NoiseLaw) -> Measurement:
    """Return OpenDP's mechanism for this law, on vectors of integers."""
    raise InternalError(f"no sampler for {type(law).__name__}")


@measurement.register(DiscreteLaplaceLaw)
@lru_cache(maxsize=8)
def _laplace(law: DiscreteLaplaceLaw) -> Measurement:
    require_samplers()
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_laplace
    from opendp.metrics import l1_distance

    return make_laplace(vector_domain(atom_domain(T="i64")), l1_distance(T="i64"), scale=law.scale)


@measurement.register(DiscreteGaussianLaw)
@lru_cache(maxsize=8)
def _gaussian(law: DiscreteGaussianLaw) -> Measurement:
    require_samplers()
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance

    return make_gaussian(vector_domain(atom_domain(T="i64")), l2_distance(T="f64"), scale=law.sigma)


@cache
def require_samplers() -> None:
    """Enable OpenDP's samplers, once. Raises Unavailable if OpenDP is absent or biased."""
    require("opendp")
    from importlib.metadata import version

    check_version(version("opendp"))
    from opendp.mod import enable_features

    enable_features("contrib")


def check_version(version: str) -> None:
    """Raise Unavailable for a version whose samplers are known to be biased, or that has no number."""
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    if numbers < FIRST_UNBIASED:
        raise Unavailable(f"expected opendp 0.14.2 or later, found {version}: its noise is biased; pip install -U 'dpcli[release]'")
