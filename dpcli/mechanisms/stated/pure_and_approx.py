"""Stated guarantees without a noise distribution: pure epsilon, (epsilon, delta), and post-processing, which costs nothing.

Somebody states a number in a pipeline file, and dpcli believes it and nothing more: the mechanism is the worst that the statement allows.
For epsilon that is *randomised response*, one bit with the true value at odds e^epsilon; with a delta it reveals everything with
probability delta. For one change of a record or unit, some release that the statement allows attains the pairs. So lower bounds say what
can be proved from the statement, and not what the true release costs. `Pure` is also the bound of other mechanisms whose pure epsilon is
known; it claims no lower bound, and `StatedPure` does.

A mechanism has upper bounds on its cost (mechanism.py): `approx_dp` returns epsilon at a delta and `zcdp` rho. `losses` returns the privacy
losses log dP/dQ of dominating pairs (P, Q). `attained` says whether some data are claimed to attain these pairs. `split_failure` separates
the probability that the pair reveals everything from the rest of the mechanism. Of a loss L, `cgf` bounds K(z) = log E_P[e^{z L}] from
above, and `tails` returns log tail probabilities under P and Q. `tilted` returns the loss under P times e^{t L}, normalised.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from dpcli.base.errors import NotRepresentable
from dpcli.base.fields import NON_NEGATIVE, OPEN_UNIT, Key
from dpcli.base.premise import Premises, of_mechanism
from dpcli.base.stated import multiple  # exact for stated decimals, rounded up once
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism, PrivacyLoss, TailsOnly
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.mechanisms.spec import CostEvidence, Spec
from dpcli.mechanisms.stated.atoms import TwoPointLoss
from dpcli.mechanisms.stated.stated_spec import GivenSpec
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.contour.tilted_closed import TiltedNormal
from dpcli.numerics.tails import Tails, atom_tails

# The factors 1 - 1e-15, 1 + 1e-15 and 1 - 1e-12 below exceed the rounding of the few operations of each formula (soundness).
NO_RENYI = "a stated delta > 0 may reveal everything with that probability, so its Renyi divergence is infinite"


@dataclass(frozen=True, slots=True)
class Pure(Mechanism):
    """A mechanism of which only epsilon-DP is known.

    Source: randomised response dominates it (Kairouz, Oh, Viswanath 2015, arXiv:1311.0776). rho = eps tanh(eps/2) is tight: as a function
    of s = (z+1/2)^2, K is log cosh(eps sqrt s) up to a constant, which is concave, so K(z) <= K'(s=1/4) z (z+1). This is sharper than the
    eps^2/2 of Bun & Steinke 2016, arXiv:1605.02065.
    """

    epsilon: float

    def approx_dp(self, delta: float) -> float:
        """Return epsilon from delta(eps) = (e^e0 - e^eps) / (1 + e^e0), which is exact for the two-point pair."""
        lost = delta * (1.0 + math.exp(-self.epsilon)) * (1.0 - 1e-15)
        return max(0.0, self.epsilon + math.log1p(-lost)) if lost < 1.0 else 0.0

    def zcdp(self) -> float:
        return self.epsilon * math.tanh(0.5 * self.epsilon) * (1.0 + 1e-15) + math.ulp(0.0) if self.epsilon > 0.0 else 0.0

    def losses(self) -> tuple[TwoPointLoss]:
        return (TwoPointLoss(self.epsilon),)


@dataclass(frozen=True, slots=True)
class FreeLoss:
    """The loss that is always 0."""

    def cgf(self, z: Array) -> Array:
        return np.zeros_like(z)

    def tilted(self, t: float) -> TiltedNormal:
        return TiltedNormal(cumulant=0.0, mean=0.0, variance=0.0)

    def tails(self, at: Array) -> Tails:
        """Return the tails of an atom of probability 1 at loss 0."""
        return atom_tails(at, np.zeros(1), np.zeros(1), np.zeros(1))


@dataclass(frozen=True, slots=True)
class Free(Mechanism):
    """A release that does not depend on the record. Every divergence is exactly 0 for all data, so the pair is attained."""

    def approx_dp(self, delta: float) -> float:
        return 0.0

    def zcdp(self) -> float:
        return 0.0

    def gdp(self) -> float:
        return 0.0

    def attained(self) -> bool:
        return True

    def losses(self) -> tuple[FreeLoss]:
        return (FreeLoss(),)


@dataclass(frozen=True, slots=True)
class PostProcessingSpec(Spec):
    """A computation that uses only released values and never the private data. It costs nothing, with any sampling and any number of runs.

    Neighbours: all three adjacencies.

    Bounds: exact. Every divergence is 0, also at delta = 0.

    Source: Dwork & Roth 2014, Proposition 2.1.
    """

    evidence: ClassVar[CostEvidence] = CostEvidence.FREE
    free: ClassVar[bool] = True
    # What must hold for the cost, each with a test that violates it, and the commands that enforce it, if any.
    premises: ClassVar[Premises] = (
        of_mechanism(
            "It uses only released values, and never the private data.", "test_post_processing_that_reads_the_data_costs_something"
        ),
    )

    @property
    def contribution_form(self) -> bool:
        return True

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        return Free()

    def poisson(self, rate: float, neighbours: Neighbours) -> Mechanism:
        return Free()


@dataclass(frozen=True, slots=True)
class MayFailLoss(TailsOnly):
    """The loss of a pair that reveals everything with probability delta, and has the loss `rest` otherwise."""

    reason: ClassVar[str] = NO_RENYI

    rest: PrivacyLoss
    delta: float

    def tails(self, at: Array) -> Tails:
        """Return the tails of the rest with weight 1 - delta, plus mass delta at +inf under P and at -inf under Q."""
        log_kept, log_lost = math.log1p(-self.delta), np.full_like(at, math.log(self.delta))
        p_above, p_below, q_above, q_below = self.rest.tails(at)
        with np.errstate(divide="ignore"):
            return Tails(
                np.logaddexp(p_above + log_kept, log_lost),
                p_below + log_kept,
                q_above + log_kept,
                np.logaddexp(q_below + log_kept, log_lost),
            )


@dataclass(frozen=True, slots=True)
class StatedPure(Pure):
    """Epsilon-DP as somebody states it. The statement allows randomised response of the bit that says whether the data are D or D'.

    This mechanism attains the pair, so the lower bound is the least epsilon that can be proved from the statement alone. It does not hold
    for k changes at once, because no mechanism that is epsilon-DP for each change has the two-point pair of k epsilon for all of them.
    """

    def attained(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class MayFail(Mechanism):
    """A mechanism that reveals everything with probability delta, and is `rest` otherwise, which costs something finite at delta = 0.

    Its Renyi divergence is infinite, so there is no Renyi or zCDP form of all of it. It is attained if the rest is.
    """

    rest: Mechanism
    delta: float

    def approx_dp(self, delta: float) -> float:
        """Return epsilon, exact if that of the rest is; inf below the probability of revealing everything."""
        if delta < self.delta * (1.0 - 1e-12):  # by more than the rounding of a sum of deltas
            return math.inf
        return self.rest.approx_dp(max(0.0, (delta - self.delta) / (1.0 - self.delta) * (1.0 - 1e-12)))

    def delta_floor(self) -> float:
        return self.delta

    def zcdp(self) -> float:
        raise NotRepresentable(NO_RENYI)

    def attained(self) -> bool:
        return self.rest.attained()

    def losses(self) -> tuple[MayFailLoss, ...]:
        return tuple(MayFailLoss(loss, self.delta) for loss in self.rest.losses())

    def split_failure(self) -> tuple[float, Mechanism]:
        return math.log1p(-self.delta), self.rest


def approx(epsilon: float, delta: float) -> MayFail:
    """Return a mechanism of which only (epsilon, delta)-DP is known.

    It is dominated by a mechanism that reveals everything with probability delta and is randomised response otherwise (Kairouz, Oh,
    Viswanath 2015, arXiv:1311.0776). The statement allows this mechanism, so the pair is attained in the sense of `StatedPure`.
    """
    return MayFail(StatedPure(epsilon) if epsilon > 0.0 else Free(), delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class PureSpec(GivenSpec):
    """A release that somebody states to be epsilon-DP. Nothing else about the release is known.

    Neighbours: the statement is for the file's adjacency unless the entry states another one. Another adjacency is converted, or refused if
    it cannot be. A group of k units costs k epsilon. If a unit has several records, stated_for says whether the statement is for one record
    or for the unit.

    Bounds: exact for randomised response of one bit, which the statement allows. An upper bound for groups. epsilon = 0 costs nothing.
    Finite at delta = 0.

    Source: the number is the author's. Its consequences are from Kairouz, Oh, Viswanath 2015, arXiv:1311.0776.
    """

    example: ClassVar[Mapping[str, Any]] = {"epsilon": 0.01}

    epsilon: Annotated[float, Key("stated pure epsilon, in nats", NON_NEGATIVE)]

    def stated(self) -> Mechanism:
        return StatedPure(self.epsilon) if self.epsilon > 0.0 else Free()

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        if self.epsilon == 0.0:
            return Free()
        changes = self.changes(neighbours)
        return self.stated() if changes == 1 else Pure(multiple(changes, self.epsilon))


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproxSpec(GivenSpec):
    """A release that somebody states to be (epsilon, delta)-DP. Nothing else about the release is known.

    Neighbours: the statement is for the file's adjacency unless the entry states another one. Another adjacency is converted, or refused if
    it cannot be. The group theorem gives the cost of a group. If a unit has several records, stated_for says whether the statement is for
    one record or for the unit.

    Bounds: exact for a mechanism that the statement allows: it reveals everything with probability delta, and is randomised response
    otherwise. Without sampling and for one change, accountants of Renyi divergences set the probability of revealing everything aside. No
    finite epsilon below the stated delta.

    Source: the numbers are the author's. Their consequences are from Kairouz, Oh, Viswanath 2015, arXiv:1311.0776.
    """

    example: ClassVar[Mapping[str, Any]] = {"epsilon": 0.01, "delta": 1e-10}
    needs_delta: ClassVar[bool] = True

    epsilon: Annotated[float, Key("stated epsilon, in nats", NON_NEGATIVE)]
    delta: Annotated[float, Key("stated delta", OPEN_UNIT)]

    @property
    def stated_pair(self) -> tuple[float, float]:
        return self.epsilon, self.delta

    def stated(self) -> Mechanism:
        return approx(self.epsilon, self.delta)
