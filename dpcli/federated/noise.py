"""How much noise is in what is seen, over the clipping norm: of the server, of one client, or of as many clients as there are at least.

Independent Gaussians of k honest clients, each of standard deviation z C, add up to one of z C sqrt(k). Noise that drops out with a client,
and noise that somebody who works with the server knows, hides nothing: it is not counted. More of it than is counted is post-processing.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import inf, nextafter, sqrt

from dpcli.base.rounding import down
from dpcli.federated.settings import Federated
from dpcli.file.pipeline.model import Entry
from dpcli.file.toml.findings import Path, Problem
from dpcli.mechanisms.noise.correlated import CorrelatedSpec


def noise_problems(table: Federated, entry: Entry, place: Path) -> Iterator[Problem]:
    """Where the entry charges for more noise than there is, or for noise over something else than a client's clipped update."""
    charged: float | None = entry.spec.noise_multiplier  # type: ignore[attr-defined]
    if charged is None:
        yield (
            (*place, "noise_multiplier"),
            "noise_multiplier, noise over the norm to which a client's update is clipped",
            "sigma with a sensitivity",
        )
        return
    if table.observed and isinstance(entry.spec, CorrelatedSpec):
        yield (
            (*place, "type"),
            f'gaussian with noise = "{table.noise}": clients draw their noise independently in each round',
            f'"{entry.type}"',
        )
    stated = table.noise_multiplier
    if stated is not None and Fraction(charged) ** 2 > Fraction(stated) ** 2 * table.honest:
        yield (*place, "noise_multiplier"), f"at most {_least(table, stated)}", repr(charged)


def _least(table: Federated, stated: float) -> str:
    if table.honest == 1:
        return f"federated.noise_multiplier = {stated!r}"
    return f"{down(stated * sqrt(table.honest))} = {stated!r} sqrt({table.honest}), the noise of min_clients - dishonest clients"


def share_of_one(table: Federated, charged: float) -> float:
    """The noise_multiplier of one client with which `honest` clients together have `charged`, rounded up."""
    share = charged / sqrt(table.honest)
    while Fraction(share) ** 2 * table.honest < Fraction(charged) ** 2:
        share = nextafter(share, inf)
    return share
