"""Samplers of integer noise. All noise is drawn by OpenDP's integer samplers, with the randomness of the operating system.

A *law* is a distribution of noise (laws.py). Noise on a number comes from here; a choice with noise is in selection.py. OpenDP's modules
are imported one by one, which takes 0.25 s and 47 MB. OpenDP's prelude would take 2.0 s and 141 MB.
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

# In earlier versions the division of rationals was wrong, so the discrete samplers were biased (opendp issue 2638).
FIRST_UNBIASED = (0, 14, 2)
INT64_MAX = 2**63 - 1  # largest of OpenDP's integers
BATCH = 65_536  # largest number of draws at a time, to bound the memory


def noisy(values: Sequence[int], law: NoiseLaw) -> list[int]:
    """Return each value plus an independent draw of the noise, in the same units.

    OpenDP clamps its results to 64 bits, and a clamped sum would reveal the value. So OpenDP adds the noise to zeros, and Python adds the
    values, which may have any size. A draw that reaches the limit of 64 bits is refused whatever the values are. With the scales that a
    law allows, its probability is below e^-8000.

    Priced by: discrete-laplace with `scale`, or discrete-gaussian with `sigma`, and the sensitivity of `values` as one vector.

    Raises:
        Unavailable: OpenDP is not installed, or its version has biased samplers.
        InternalError: A draw reached the limit of 64 bits.
    """
    return [value + draw for value, draw in zip(values, draws(len(values), law), strict=True)]


def draws(count: int, law: NoiseLaw) -> list[int]:
    """Return a number of independent draws of a law. Raises Unavailable and InternalError as `noisy` does."""
    add_noise_to = measurement(law)
    drawn: list[int] = []
    while len(drawn) < count:
        drawn += add_noise_to([0] * min(BATCH, count - len(drawn)))
    if any(abs(draw) >= INT64_MAX for draw in drawn):
        raise InternalError("a draw of the noise exceeds 64 bits, which has a negligible probability: nothing was released")
    return drawn


@singledispatch
def measurement(law: NoiseLaw) -> Measurement:
    """Return OpenDP's mechanism that adds noise of this law to a vector of integers. Raises InternalError for an unknown type of law."""
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
    """Enable OpenDP's samplers. Raises Unavailable if OpenDP is not installed, or if its version has biased samplers."""
    require("opendp")
    from importlib.metadata import version

    check_version(version("opendp"))
    from opendp.mod import enable_features

    enable_features("contrib")  # OpenDP refuses to make these samplers without it


def check_version(version: str) -> None:
    """Raise Unavailable for a version of OpenDP that has biased samplers, or that contains no number."""
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    if numbers < FIRST_UNBIASED:
        raise Unavailable(
            f"expected opendp 0.14.2 or later, found {version}, whose noise is biased; pip install -U 'dpcli[release]'"
        )
