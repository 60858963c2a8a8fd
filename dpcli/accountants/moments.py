"""The moments accountant as first published, with integer moments up to 32 and the classic tail bound.

Consumes each step's Renyi curve at the orders 2 to 33: moment lambda is the order lambda + 1. It is for comparison with papers. Bounds:
upper. They are larger than those of the accountant rdp, which searches all real orders. It needs delta > 0.
"""

from __future__ import annotations

import math

from dpcli.accountants.base import Accountant, Bound, PrivacyProfile, Steps, join_equal_steps, require_positive
from dpcli.accountants.renyi_curve import renyi_curve, renyi_shares
from dpcli.base.errors import NotRepresentable
from dpcli.base.values import dataclass
from dpcli.numerics.arrays import np

MOMENTS = 32  # largest integer moment that is tried


@dataclass(frozen=True, slots=True)
class MomentsProfile(PrivacyProfile):
    """The privacy profile with epsilon = min over lambda of (alpha(lambda) + log(1/delta)) / lambda.

    alpha(lambda) is log E[e^(lambda L)] of the composition's privacy loss L: lambda times the Renyi divergence of order lambda + 1.
    """

    steps: Steps

    def _best(self, delta: float) -> tuple[float, int]:
        """Return the smallest epsilon and its moment lambda. Raises NotRepresentable if no moment is finite."""
        require_positive(delta, "the moments accountant")
        moments = np.arange(1.0, MOMENTS + 1)
        log_moments = moments * renyi_curve(join_equal_steps(self.steps)).at(moments + 1.0)
        epsilons = (log_moments - math.log(delta)) / moments
        best = int(np.argmin(epsilons))
        if math.isinf(epsilons[best]):
            raise NotRepresentable(f"no moment up to {MOMENTS} is finite")
        return float(epsilons[best]), best + 1

    def epsilon(self, delta: float) -> Bound:
        value, moment = self._best(delta)
        return Bound(value, detail={"moment": moment})

    def shares(self, delta: float) -> tuple[float, ...]:
        return renyi_shares(self.steps, self._best(delta)[1] + 1.0)


ACCOUNTANT = Accountant(
    name="moments",
    title="moments accountant, 2016",
    source="Abadi et al. 2016, arXiv:1607.00133, Theorem 2",
    compose=MomentsProfile,
    finite=True,  # it needs finite losses, so stated deltas are set aside before
    cells=lambda parts: 2e4 * parts,  # estimated work for this many different mechanisms
)
