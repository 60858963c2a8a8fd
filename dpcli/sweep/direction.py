"""Which of two values of a metric is the better one: settled before the first run, and never guessed from a name of the user's own."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from dpcli.file.toml.findings import Findings
from dpcli.file.toml.shown import shown

if TYPE_CHECKING:
    from dpcli.sweep.settings import Sweep
    from dpcli.train.plan.settings import Train

Better = Literal["higher", "lower"]

WHY = '"higher" or "lower" with task = "custom": which value of its metric is the better one'


def better_of(sweep: Sweep, train: Train, findings: Findings) -> Better | None:
    """Which value the sweep takes for the better one; None, with a finding, where it does not say so and must, or says what is not so."""
    metric, known = train.measures or ("", sweep.better)
    if known is None:
        findings.add("DP005", ("sweep", "better"), WHY, "nothing")
    elif sweep.better not in (None, known):
        findings.add("DP005", ("sweep", "better"), f'"{known}", as {metric} is what the task measures', shown(sweep.better))
        return None
    return known


def worth(better: Better, value: float) -> float:
    """A number that is larger for the better; NaN is the worst of all."""
    return -math.inf if math.isnan(value) else -value if better == "lower" else value
