"""The classical Gaussian noise of a pipeline that is one Gaussian release, for comparison with what was solved for."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpcli.analysis.calibrate import Calibration
from dpcli.base.errors import NotRepresentable
from dpcli.file.pipeline.resolve import resolve
from dpcli.numerics.closed.normal import PROVED_BELOW, classical_sigma, gaussian_epsilon_upper


@dataclass(frozen=True, slots=True)
class ClassicalNoise:
    """value: under the key that was solved for. upper: the epsilon that it has in truth, from above. proved: whether its theorem holds."""

    value: float
    upper: float
    proved: bool


def classical_noise(found: Calibration) -> ClassicalNoise | None:
    """What the classical formula says for the same target; None for anything but one Gaussian, released once from all of the data."""
    solved, delta = found.pipeline.mechanisms, found.delta
    if delta is None or not 0.0 < delta < 1.0:
        return None
    alone = found.parameter == "noise" and found.runs == len(solved) == 1
    charges = resolve(found.pipeline, found.group_size) if alone else ()
    if len(charges) != 1 or charges[0].count != 1:
        return None
    try:
        mu = charges[0].mechanism.gdp()
    except NotRepresentable:
        return None
    if not 0.0 < mu < math.inf:
        return None
    sigma = classical_sigma(found.target, delta)
    sensitivity = mu * found.value  # in the units of the key
    return ClassicalNoise(sigma * sensitivity, gaussian_epsilon_upper(1.0 / sigma, delta), found.target < PROVED_BELOW)
