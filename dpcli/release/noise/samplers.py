"""Noise on integers, drawn by OpenDP's integer samplers and by nothing else.

The narrow modules of OpenDP are imported, not its prelude, which costs about eight times as much (0.25 s and 47 MB against 2.0 s and 141 MB
of the same machine).
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
FIRST = (0, 14, 2)
LIMIT = 2**63 - 1  # of OpenDP's integers
BATCH = 65_536  # draws at once: memory is bounded whatever is asked


def noisy(values: Sequence[int], law: NoiseLaw) -> list[int]:
    """Each value plus its own independent draw of this law.

    The noise is drawn on zeros and added in Python, so that no value is too large and none is cut off. OpenDP cuts its result off at 64
    bits. Noise that has been cut off would show the value beneath it; with the scales that a law allows its probability is below e^-8000,
    and such a draw is refused whatever the values are.

    Args:
        values: exact whole numbers, of any size.
        law: of the noise, in the same units.

    Raises:
        Unavailable: OpenDP is not installed, or its samplers are known to be biased.

    Priced by: discrete-laplace with `scale`, or discrete-gaussian with `sigma`, and the sensitivity of `values` as one vector.
    """
    return [value + draw for value, draw in zip(values, draws(len(values), law), strict=True)]


def draws(count: int, law: NoiseLaw) -> list[int]:
    """Independent draws of a law."""
    sampler = measurement(law)
    drawn: list[int] = []
    while len(drawn) < count:
        drawn += sampler([0] * min(BATCH, count - len(drawn)))
    if any(abs(draw) >= LIMIT for draw in drawn):
        raise InternalError("a draw of the noise passed 64 bits, which does not happen: nothing was released")
    return drawn


@singledispatch
def measurement(law: NoiseLaw) -> Measurement:
    """OpenDP's own mechanism for this law, on vectors of integers: its privacy map says what it costs at a sensitivity."""
    raise InternalError(f"no sampler for {type(law).__name__}")


@measurement.register(DiscreteLaplaceLaw)
@lru_cache(maxsize=8)
def _laplace(law: DiscreteLaplaceLaw) -> Measurement:
    contributed()
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_laplace
    from opendp.metrics import l1_distance

    return make_laplace(vector_domain(atom_domain(T="i64")), l1_distance(T="i64"), scale=law.scale)


@measurement.register(DiscreteGaussianLaw)
@lru_cache(maxsize=8)
def _gaussian(law: DiscreteGaussianLaw) -> Measurement:
    contributed()
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance

    return make_gaussian(vector_domain(atom_domain(T="i64")), l2_distance(T="f64"), scale=law.sigma)


@cache
def contributed() -> None:
    """Enable the samplers, once; Unavailable where OpenDP is absent or biased."""
    require("opendp")
    from importlib.metadata import version

    check_version(version("opendp"))
    from opendp.mod import enable_features

    enable_features("contrib")


def check_version(version: str) -> None:
    """Refuse versions whose samplers are known to be biased, and those that do not say which they are."""
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    if numbers < FIRST:
        raise Unavailable(f"expected opendp 0.14.2 or later, found {version}: its noise is biased; pip install -U 'dpcli[release]'")
