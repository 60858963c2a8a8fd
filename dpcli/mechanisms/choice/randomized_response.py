"""k-ary randomised response: each record's category is reported with some probability, and otherwise another one at random.

A *category* is one of k declared values. The true one is reported with odds e^epsilon against each other one. Every report is released, so
the cost does not depend on other records, and two versions of a record with different categories attain the pair. Whether somebody takes
part is visible, so add-remove makes no sense here; `BlankedResponse` is for a blanked record that reports a uniform category.

A mechanism has upper bounds on its cost (mechanism.py): `approx_dp` returns epsilon at a delta and `zcdp` rho. `losses` returns the privacy
losses log dP/dQ of dominating pairs (P, Q). `attained` says whether some data are claimed to attain these pairs, and `unclaimed` drops this
claim.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

from dpcli.base.errors import InputError, NotRepresentable
from dpcli.base.fields import AT_LEAST_TWO, OPEN_UNIT, POSITIVE, Key
from dpcli.base.premise import SECRET, Premises, moves, of_mechanism
from dpcli.base.values import dataclass
from dpcli.mechanisms.combined.composed import Composed
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.stated.atoms import AtomicLoss
from dpcli.mechanisms.stated.pure_and_approx import Pure
from dpcli.mechanisms.stated.stated_spec import StatedSpec

LARGEST_EPSILON = 1e6  # largest epsilon whose losses have enough digits; beyond it there are only epsilon and rho
LARGE_EPSILON = 700.0  # from this epsilon on a formula without e^epsilon is used, because e^epsilon might overflow


@dataclass(frozen=True, slots=True)
class RandomizedResponse(Mechanism):
    """A response with the true category with probability p = e^eps / (e^eps + k - 1), and each other one with (1-p)/(k-1).

    Two versions of a record differ in the probabilities of two outcomes, with losses +eps and -eps. The other k - 2 outcomes have loss 0.
    For k = 2 the Renyi curve is that of Mironov 2017, arXiv:1702.07476, Proposition 5. rho is that of the two-point pair, which dominates.
    A record that changes its category attains the pair.
    """

    epsilon: float
    categories: int

    def _log_probabilities(self) -> tuple[float, float]:
        """Return the log probabilities of the true category, and of each false one."""
        log_total = self.epsilon + math.log1p((self.categories - 1) * math.exp(-self.epsilon))
        return self.epsilon - log_total, -log_total

    def approx_dp(self, delta: float) -> float:
        """Return the eps' with p - e^eps' (1-p)/(k-1) = delta, which is eps + log(1 - delta/p). No digits are lost with many categories."""
        lost = delta * (1.0 + (self.categories - 1) * math.exp(-self.epsilon)) * (1.0 - 2e-15)  # delta / p, rounded down
        return max(0.0, self.epsilon + math.log1p(-lost)) if lost < 1.0 else 0.0

    def zcdp(self) -> float:
        return Pure(self.epsilon).zcdp()

    def attained(self) -> bool:
        return True

    def losses(self) -> tuple[AtomicLoss]:
        _require_digits(self.epsilon)
        log_true, log_false = self._log_probabilities()
        reference, probability = (log_true, log_false), (log_false, log_true)  # log chances of the two categories, under Q and P
        return (AtomicLoss(reference, log_ratio=(-self.epsilon, self.epsilon), log_probability=probability),)


@dataclass(frozen=True, slots=True)
class BlankedResponse(Mechanism):
    """The response of a record against a response that is uniform over all k categories, and the reverse.

    The category of the record has the likelihood ratio k p, and each other one k (1-p)/(k-1), with p as in `RandomizedResponse`. rho is
    that of the pure epsilon. A record that is blanked attains the pairs.
    """

    epsilon: float
    categories: int

    def _log_ratios(self) -> tuple[float, float]:
        """Return log(k p) >= 0 and log(k (1-p)/(k-1)) <= 0, with all digits at a small epsilon and with very many categories."""
        k, e0 = self.categories, self.epsilon
        log_total = math.log1p((k - 1) * math.exp(-e0))  # the total odds of all categories, relative to the true one
        log_true = math.log(k) - log_total
        if e0 >= LARGE_EPSILON:
            return log_true, math.log(k) - e0 - log_total
        log_false = -math.log1p(math.expm1(e0) / k)
        return e0 + log_false if e0 < math.log(k) else log_true, log_false

    def approx_dp(self, delta: float) -> float:
        """Return the larger epsilon of both directions, delta(eps) = p - e^eps / k and (k-1)/k - e^eps (1-p), rounded up.

        In both, delta(eps) = m (1 - e^{eps - l}) for the largest loss l and its mass m under P, so that eps = l + log(1 - delta / m).
        """
        k, (log_true, log_false) = self.categories, self._log_ratios()
        epsilons = [0.0]
        for largest_loss, inverse_mass in ((log_true, 1.0 + (k - 1) * math.exp(-self.epsilon)), (-log_false, k / (k - 1))):
            lost = delta * inverse_mass * (1.0 - 2e-15)  # delta / m, rounded down
            if lost < 1.0:
                log_kept = math.log1p(-lost)
                epsilons.append(largest_loss + log_kept + 1e-15 * (largest_loss - log_kept))  # the last term covers rounding
        return max(epsilons)

    def zcdp(self) -> float:
        return Pure(self.approx_dp(0.0)).zcdp()

    def attained(self) -> bool:
        return True

    def losses(self) -> tuple[AtomicLoss, AtomicLoss]:
        _require_digits(self.epsilon)
        k, (log_true, log_false) = self.categories, self._log_ratios()
        # Log probabilities of the true category and of all false ones, under the response and under the uniform response.
        log_total = math.log1p((k - 1) * math.exp(-self.epsilon))
        response, uniform = (-log_total, math.log(k - 1) - self.epsilon - log_total), (-math.log(k), math.log1p(-1.0 / k))
        return (
            AtomicLoss(log_reference=uniform, log_ratio=(log_true, log_false), log_probability=response),
            AtomicLoss(log_reference=response, log_ratio=(-log_true, -log_false), log_probability=uniform),
        )


def _require_digits(epsilon: float) -> None:
    """Check that a loss of this size has enough digits beside its probability. Raises NotRepresentable otherwise."""
    if epsilon > LARGEST_EPSILON:
        raise NotRepresentable(
            f"a response with epsilon {epsilon:g} has losses above {LARGEST_EPSILON:g}, which have too few digits"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomizedResponseSpec(StatedSpec):
    """Each record's category, reported truthfully with probability e^epsilon / (e^epsilon + categories - 1), and otherwise another one at
    random.

    This is the local model: the response of every record is released. keep states the probability of the true category instead of epsilon.

    Neighbours: replace-one and zero-out. add-remove is refused, because whether a record responds is not hidden. Several records respond
    independently, and their responses compose. Under zero-out a blanked record must respond too, with the same probabilities, for a fixed
    category or for a category that is drawn at random. If it reported nothing, or that it is blank, it could be told from every other
    record, and no epsilon would hold. blank = "uniform" states that its response is uniform over all categories, which costs less. With
    epsilon 1 and two categories, for example, it costs 0.620 instead of 1.

    Bounds: exact under replace-one, and under zero-out with blank = "uniform". Under zero-out without it, an upper bound, because the
    category for which a blanked record responds is not stated. Finite at delta = 0.

    Source: Kairouz, Oh, Viswanath 2015, arXiv:1311.0776; Mironov 2017, arXiv:1702.07476 (Renyi, two categories).
    """

    example: ClassVar[Mapping[str, Any]] = {"epsilon": 0.01}
    shows_presence: ClassVar[bool] = True  # who takes part is not hidden
    # What must hold for the cost, each with a test that violates it, and the commands that enforce it, if any.
    premises: ClassVar[Premises] = (
        SECRET,  # every draw is fresh, and nobody sees it
        moves("Every record responds once, and it is public which records respond."),
        of_mechanism(
            "Under zero-out a blanked record responds with the same probabilities, for a category that is fixed or drawn, or uniformly "
            'over all categories if blank = "uniform".',
            "test_a_blank_that_does_not_respond_is_told_from_every_record",
        ),
    )

    epsilon: Annotated[float | None, Key("pure epsilon of one response, in nats", POSITIVE)] = None
    keep: Annotated[float | None, Key("probability that the true category is reported, instead of epsilon", OPEN_UNIT)] = None
    categories: Annotated[int, Key("number of categories", AT_LEAST_TWO)] = 2
    # claim=True: dpcli does not enforce what the key states.
    blank: Annotated[
        Literal["uniform"] | None,
        Key("response of a blanked record under zero-out: uniform over all categories; by default for any one of them", claim=True),
    ] = None

    def problems(self) -> Iterator[tuple[str, str, str]]:
        if (self.epsilon is None) == (self.keep is None):
            yield "epsilon", "either epsilon or keep", "neither" if self.epsilon is None else "both"
        elif self.keep is not None and self.keep * self.categories <= 1.0:
            yield "keep", f"more than 1/categories = {1.0 / self.categories:.6g}", repr(self.keep)

    def stated(self) -> RandomizedResponse:
        epsilon = self.epsilon
        if epsilon is None:
            assert self.keep is not None
            keep = Fraction(self.keep)  # exact, because the logarithm of odds near 1 is about their distance from 1
            epsilon = math.log1p(float((keep * self.categories - 1) / (1 - keep)))
        return RandomizedResponse(epsilon, self.categories)

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        """Return the mechanism under the neighbouring relation. The responses of several records compose.

        Raises InputError under add-remove, and if `blank` is stated under another adjacency than zero-out.
        """
        if neighbours.adjacency is Adjacency.ADD_REMOVE:
            raise InputError(
                "randomized-response hides a record's category, not its presence: it needs adjacency = replace-one or zero-out"
            )
        if self.blank is not None and neighbours.adjacency is not Adjacency.ZERO_OUT:
            raise InputError(
                f'blank = "uniform" says how a blanked record responds: it needs adjacency = zero-out, not {neighbours.adjacency.value}'
            )
        response: Mechanism = self.stated()
        # In a group, some units may be blanked while others cease to be blank, so BlankedResponse is for one unit only.
        known_blank = self.blank is not None and neighbours.group == 1
        if known_blank:
            response = BlankedResponse(self.stated().epsilon, self.categories)
        changes = self.changes(neighbours)
        if changes > 1:
            response = Composed(((response, changes),))
        # Without `blank`, the category for which a blanked record responds is not stated. It may be the same as before, so the pair need
        # not be attained.
        return response if neighbours.replaces or known_blank else response.unclaimed()
