"""The privacy profile of a selection, which releases the best of a random number of runs, from the profile of one run.

Let K be the number of runs, and f its generating function. The best output has at y the density Q(y) f'(X), where X is uniform between
Q(< y) and Q(<= y). Ties are broken by a uniform number with the same law for both datasets. f' increases to f'(1) = E[K]. Let R be at least
f'(q) / f'(q') for all probabilities q and q' that one event can have under one run on neighbouring data. Then, point by point,

    Q f'(q) - e^eps Q' f'(q') <= f'(q) (Q - e^{eps - log R} Q') <= E[K] (Q - e^{eps - log R} Q')+.

So the delta of the selection at eps >= 0 is at most E[K] times the delta of one run at eps - log R. If K = 0, nothing is released. This has
the same probability for both datasets, and adds nothing to delta. Koskela, Redberg, Wang 2024, arXiv:2402.06701, give bounds of this form.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from dpcli.base.errors import NotRepresentable
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism, PrivacyLoss
from dpcli.mechanisms.stated.renyi import RenyiPairLoss, renyi_log_heights
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.grid.hockey_stick import FURTHEST, ChordPair, symmetric_pair
from dpcli.numerics.roots import bracket_root
from dpcli.numerics.tails import Tails, log_deltas
from dpcli.numerics.work import allowance, shared

if TYPE_CHECKING:
    from dpcli.numerics.contour.tilted import Tilted

POINTS = 2048  # points of the grid of losses
LOG_LEAST = -180.0  # logarithm of the height of the curve at the last point
EPSILONS = 1600  # number of epsilons at which the curve of one run is evaluated
ROUNDING = 1e-12  # error, relative and in the logarithm, by which bounds are raised
RUN = 4e6  # units of work that the pair of one run may take


class TrialCounts(Protocol):
    """A distribution of the number of trials."""

    @property
    def mean(self) -> float:
        """An upper bound on E[K]."""
        ...

    def log_growth(self, epsilons: Array, deltas: Array) -> float:
        """Return an upper bound on log R if one run has these deltas at these epsilons. The first epsilon is 0."""
        ...


@dataclass(frozen=True, slots=True)
class SelectionLoss:
    """The loss of a pair on a grid whose curve is the least of three bounds on the selection.

    The bounds are that of the module's docstring, the one from the selection's Renyi curve, and the one from its pure epsilon.
    run: losses of pairs that dominate one run, one for each direction. trials: the distribution of K.
    selection: the mechanism with the Renyi curve. pure: its pure epsilon, or inf.
    """

    run: tuple[PrivacyLoss, ...]
    trials: TrialCounts
    selection: Mechanism
    pure: float

    def cgf(self, z: Array) -> Array:
        """Return the CGF of the pair. Raises NotRepresentable if there is no pure epsilon."""
        return self._finite().cgf(z)

    def tilted(self, t: float) -> Tilted:
        """Return the pair under the tilt t. Raises NotRepresentable if there is no pure epsilon."""
        return self._finite().tilted(t)

    def tails(self, at: Array) -> Tails:
        return _pair(self).tails(at)

    def _finite(self) -> ChordPair:
        """Return the pair. Raises NotRepresentable if its losses may be infinite."""
        if not self.pure <= FURTHEST:
            raise NotRepresentable("only the tails of a selection's worst pair are known, and its CGF is not")
        return _pair(self)

    def log_heights(self, x: Array) -> Array:
        """Return upper bounds on log delta at increasing epsilons x >= 0, from the run's profile and the pure epsilon."""
        shift = _growth(self.run, self.trials)
        result = log_run(self.run, x - shift) + math.log(self.trials.mean) + ROUNDING
        if self.pure < math.inf:
            with np.errstate(divide="ignore"):
                left = np.log(-np.expm1(np.minimum(x - self.pure, 0.0))) - math.log1p(math.exp(-self.pure))
            result = np.minimum(result, left + ROUNDING)
        return np.minimum(result, 0.0)

    def epsilon(self, log_delta: float) -> float:
        """Return the epsilon at which the bound of `log_heights` falls to `log_delta`; inf if it does not."""

        def excess(x: float) -> float:
            return float(self.log_heights(np.array([x]))[0]) - log_delta

        if excess(0.0) <= 0.0:
            return 0.0
        high = 1.0
        while excess(high) > 0.0:
            high *= 2.0
            if high > 1e9:
                return math.inf
        return bracket_root(excess, 0.0, high, rtol=1e-12)[1]


def own_run(inner: Mechanism) -> tuple[PrivacyLoss, ...]:
    """Return the losses of the run's own pairs if they take at most RUN units of work; otherwise those of `rough_run`.

    RUN does not depend on the work that was spent before.
    """
    with suppress(NotRepresentable), allowance(RUN, RUN):
        losses = inner.losses()
        log_run(losses, np.zeros(1))
        return losses
    return rough_run(inner)


def rough_run(inner: Mechanism) -> tuple[PrivacyLoss, ...]:
    """Return losses of pairs that dominate one run without a grid for many steps. A composition gets the pair of its Renyi curve."""
    if not inner.summed:
        with suppress(NotRepresentable):
            return inner.losses()
    inner.rdp(np.array([2.0]))
    return (RenyiPairLoss(((inner, 1),)),)


def log_run(run: tuple[PrivacyLoss, ...], x: Array) -> Array:
    """Return upper bounds on log delta of one run at increasing epsilons x, for the worse direction."""
    return np.asarray(np.maximum.reduce([log_deltas(loss, x) for loss in run]))


@shared(16)
def _growth(run: tuple[PrivacyLoss, ...], trials: TrialCounts) -> float:
    """Return log R from the privacy profile of one run."""
    epsilons = np.append(0.0, np.geomspace(1e-6, FURTHEST, EPSILONS))
    deltas = np.minimum(np.exp(log_run(run, epsilons)), 1.0)
    growth = trials.log_growth(epsilons, deltas) * (1.0 + ROUNDING) + ROUNDING
    if math.isnan(growth):
        raise NotRepresentable("the bound on how a choice's probability changes between neighbours is not a number")
    return growth


@shared(16)
def _pair(loss: SelectionLoss) -> ChordPair:
    """Return the pair, cached."""
    at = np.geomspace(1e-6, FURTHEST, EPSILONS)
    falls = loss.log_heights(at)
    end = int(np.argmax(falls <= max(LOG_LEAST, float(falls[-1]))))
    reach = min(float(at[end]), loss.pure * (1.0 + ROUNDING))
    x = reach / POINTS * np.arange(POINTS + 1, dtype=float)
    heights = loss.log_heights(x)
    with suppress(NotRepresentable):
        heights = np.minimum(heights, renyi_log_heights(RenyiPairLoss(((loss.selection, 1),)), x))
    return symmetric_pair(float(x[1]), np.exp(heights))
