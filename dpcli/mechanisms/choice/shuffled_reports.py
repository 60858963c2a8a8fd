"""The shuffle model: every user sends one randomised report through a trusted shuffler, and only the shuffled reports are seen.

`ShuffledReportsSpec` has the keys, `Shuffled` is the cost of the shuffled reports, and `ReportCount` a concrete release for a lower bound.
Each report alone has a pure epsilon, the *local epsilon*. The reports of the others hide it, so that all of them together cost less: this
is amplification by shuffling. A *clone* is another user's report that could as well be the report of the user who is protected.

Let R be a randomiser of local epsilon e, and let one user change from x to x'. Write R(x) = q A + p B and R(x') = p A + q B with q = e^e /
(e^e + 1) and p = 1 - q (Kairouz, Oh, Viswanath 2015, arXiv:1311.0776). Then A + B = R(x) + R(x'). Suppose that every other user's report
has a law of at least c (A + B) / 2. With probability c it is a clone, A or B with probability 1/2 each. Otherwise it has a law that both
datasets share. Given the numbers of A and B among the clones and the changing report, everything else is independent of which dataset there
is. So the pair of these two numbers dominates the shuffled reports (numerics/grid/clones.py). Each randomiser may depend on the earlier
reports in the shuffled order, because A and B may too.

* Any randomiser: c = e^-e, because every law of R is at least e^-e R(x) and at least e^-e R(x') (Feldman, McMillan, Talwar 2021,
  arXiv:2012.12803).
* Randomised response: c = 2 / (e^e + 1). With Z = e^e + k - 1, A + B is (e^e + 1) / Z at the two categories of the changing user, and 2 / Z
  at the others. Every response has probabilities of at least 1 / Z, and so of at least (A + B) / (e^e + 1) (after Feldman, McMillan, Talwar
  2023, arXiv:2208.04591).

The first version of arXiv:2208.04591 stated the second c for any randomiser. Its errata restrict this to a class of randomisers, so it is
used for randomised response alone.

A mechanism has upper bounds on its cost (mechanism.py): `approx_dp` returns epsilon at a delta and `zcdp` rho. `losses` returns the privacy
losses log dP/dQ of dominating pairs (P, Q). `attained` says whether some data are claimed to attain these pairs, and `unclaimed` drops this
claim. `witness` returns a mechanism that the keys allow, whose cost is a lower bound. Of a loss L, `cgf` bounds K(z) = log E_P[e^{z L}]
from above.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from dpcli.base.errors import InputError
from dpcli.base.fields import AT_LEAST_TWO, POSITIVE, Constraint, Key
from dpcli.base.premise import SECRET, Premises, moves, of_mechanism
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import CurveLoss, Mechanism, PrivacyLoss
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.stated.pure_and_approx import Pure
from dpcli.mechanisms.stated.stated_spec import StatedSpec
from dpcli.numerics.arrays import np
from dpcli.numerics.grid.clones import clone_pair, counted_pair
from dpcli.numerics.grid.hockey_stick import FURTHEST, ChordPair  # FURTHEST: the largest loss on a grid
from dpcli.numerics.tails import single_epsilon_upper
from dpcli.numerics.work import shared  # a cache

MOST_USERS = 10**10  # soundness: up to this number, the rounding of binomial probabilities is covered (numerics/grid/clones.py)
USERS = Constraint("a whole number from 1 to 10^10", lambda x: 1 <= x <= MOST_USERS, (("minimum", 1), ("maximum", MOST_USERS)))
# rho, the largest K(z) / (z (z + 1)), is computed at z = FIRST_Z, FIRST_Z RHO_RATIO, ... and bounded between these. Both affect accuracy.
FIRST_Z = 1e-3  # least z
RHO_RATIO = 1.1  # ratio of neighbouring z
MOST_ORDERS = 100  # number of z at which K is computed at a time; it affects memory
LEAST_EPSILON = 1e-9  # least local epsilon that is amplified; a smaller one is charged in full
FEWEST_CLONES = 0.01  # least mean number of clones; with fewer, `clone_pair` counts none, and its larger masses may exceed 1 in sum
ALMOST_ALL = 1.0 - 1e-9  # largest rate of clones, because 1 - rate needs digits; a lower rate costs more


@dataclass(frozen=True, slots=True)
class ClonesLoss(CurveLoss):
    """The loss of `clone_pair`, which is the same in both directions."""

    users: int
    epsilon: float
    rate: float

    def pair(self) -> ChordPair:
        return _clones(self)


@dataclass(frozen=True, slots=True)
class CountLoss(CurveLoss):
    """The loss of `counted_pair` in one direction: 0 if the changing user has the counted category under P, 1 if under Q."""

    users: int
    epsilon: float
    categories: int
    direction: int

    def pair(self) -> ChordPair:
        return _count_pairs(self.users, self.epsilon, self.categories)[self.direction]


@shared(16)
def _clones(loss: ClonesLoss) -> ChordPair:
    return clone_pair(loss.users, loss.epsilon, loss.rate)


@shared(16)
def _count_pairs(users: int, epsilon: float, categories: int) -> tuple[ChordPair, ChordPair]:
    return counted_pair(users, epsilon, categories)


@shared(16)
def _rho(loss: ClonesLoss) -> float:
    """Return an upper bound on rho, the largest K(z) / (z (z + 1)) over z > 0, which is at most about 0.3 % too large.

    K is convex, with K(0) = 0. So K(z) / z increases, to at most the local epsilon, and between two points K is below its chord b z - a
    with a >= 0. (b z - a) / (z (z + 1)) is largest at b z^2 = a (2z + 1).
    """
    first = float(loss.cgf(np.array([FIRST_Z]))[0]) / FIRST_Z  # K(z) / z is at most this for z <= FIRST_Z
    last = 2.0 * loss.epsilon / first  # beyond it, K(z) / (z (z + 1)) <= local epsilon / (z + 1) is below half of `first`
    number = math.ceil(math.log(max(last, 1.0) / FIRST_Z) / math.log(RHO_RATIO)) + 1
    z = np.asarray(FIRST_Z * RHO_RATIO ** np.arange(number, dtype=float))
    k = np.concatenate([loss.cgf(part) for part in np.array_split(z, math.ceil(number / MOST_ORDERS))])
    slopes = np.diff(k) / np.diff(z)
    depths = np.maximum(slopes * z[:-1] - k[:-1], 0.0)
    at = np.clip((depths + np.sqrt(depths * (depths + slopes))) / slopes, z[:-1], z[1:])
    between = float(((slopes * at - depths) / (at * (at + 1.0))).max())
    return max(first, between, loss.epsilon / (1.0 + float(z[-1]))) * (1.0 + 1e-9)  # 1e-9 is for rounding


@dataclass(frozen=True, slots=True)
class ReportCount(Mechanism):
    """The number of shuffled randomised responses that name one category, if no other user than the changing one has it.

    A change from this category to another one attains the pairs of `counted_pair`.
    """

    users: int
    epsilon: float
    categories: int

    def attained(self) -> bool:
        return True

    def losses(self) -> tuple[CountLoss, CountLoss]:
        first, second = (CountLoss(self.users, self.epsilon, self.categories, direction) for direction in (0, 1))
        return first, second


@dataclass(frozen=True, slots=True)
class Shuffled(Mechanism):
    """The shuffled reports of `users` users, each with the local epsilon `epsilon`.

    rate: probability that another user's report is a clone.
    categories: number of categories of a randomised response that the keys allow, whose cost is a lower bound.
    """

    users: int
    epsilon: float
    rate: float
    categories: int

    def approx_dp(self, delta: float) -> float:
        """Return epsilon of the dominating pair, and at delta = 0 the local epsilon, because all reports may happen to be equal."""
        pure = Pure(self.epsilon).approx_dp(delta)
        if delta <= 0.0 or pure == 0.0 or self._is_unamplified():
            return pure
        return min(pure, single_epsilon_upper(self._loss(), math.log(delta), near=min(pure, 1.0)))  # near: a guess to start from

    def zcdp(self) -> float:
        """Return the smaller of rho of the pair and rho of the local epsilon."""
        pure = Pure(self.epsilon).zcdp()
        return pure if self._is_unamplified() else min(pure, _rho(self._loss()))

    def losses(self) -> tuple[PrivacyLoss]:
        return Pure(self.epsilon).losses() if self._is_unamplified() else (self._loss(),)

    def witness(self, order: float) -> Mechanism | None:
        """Return the count of one category. It is a mechanism that the keys allow, at every order."""
        return ReportCount(self.users, self.epsilon, self.categories) if self._on_grid() else None

    def _loss(self) -> ClonesLoss:
        return ClonesLoss(self.users, self.epsilon, self.rate)

    def _is_unamplified(self) -> bool:
        """Return whether the cost of a report alone is used: there is hardly a clone, or the local epsilon is tiny."""
        return (self.users - 1) * self.rate < FEWEST_CLONES or not self._on_grid()

    def _on_grid(self) -> bool:
        """Return whether the local epsilon is neither too small nor too large for `clone_pair` and `counted_pair`."""
        return LEAST_EPSILON <= self.epsilon <= FURTHEST


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffledReportsSpec(StatedSpec):
    """The shuffle model: every user sends one randomised report through a trusted shuffler, and only the shuffled reports are released.

    users is a lower bound on the number of honest users. They randomise as stated, and their reports arrive in every run. The user who is
    protected counts too. With a fixed-size sample, which must stay secret, users counts those of one sample. Whoever might drop out, or
    collude with the reader, does not count. local_epsilon is the pure epsilon of one report, without the shuffler. randomizer = "any" is
    for every randomiser with this epsilon; each one may depend on earlier reports. randomizer = "randomized-response" is for k-ary
    randomised response with this epsilon, and costs less. With local epsilon 1, 10,000 users and delta 1e-6, for example, the costs are
    0.0531 and 0.0433.

    Neighbours: replace-one and zero-out. add-remove is refused, because the number of reports is not hidden. Under zero-out a blanked user
    must report too, by the same randomiser, for a fixed input or for one that is drawn. The group theorem gives the cost of several
    records.

    Bounds: upper, from the pair of the report and its clones. `account` shows a lower bound, the cost of the number of reports of one
    category under randomised response. At delta = 0 epsilon is local_epsilon.

    Source: Feldman, McMillan, Talwar 2021, arXiv:2012.12803 (any randomiser); Feldman, McMillan, Talwar 2023, arXiv:2208.04591, with its
    errata (randomised response).
    """

    example: ClassVar[Mapping[str, Any]] = {"users": 10_000, "local_epsilon": 0.5}
    shows_presence: ClassVar[bool] = True  # who takes part is not hidden
    # What must hold for the cost, each with a test that violates it, and the commands that enforce it, if any.
    premises: ClassVar[Premises] = (
        SECRET,  # every draw is fresh, and nobody sees it
        moves(
            "Every user sends one report in a run. It may be public who sends one, unless users are sampled: then the sample is secret."
        ),
        of_mechanism(
            "At least `users` users are honest: each draws a report as stated, and no report is lost or read elsewhere.",
            "test_fewer_honest_users_than_are_stated_hide_less",
        ),
        of_mechanism(
            "The shuffler is trusted: only the reports are seen, in a random order, and nothing that tells from whom one came.",
            "test_reports_that_are_not_shuffled_hide_nothing",
        ),
        of_mechanism(
            "All users have the same randomiser, with the stated local epsilon; it does not depend on the user.",
            "test_reports_that_name_their_user_hide_nothing",
        ),
    )

    # claim=True: dpcli does not enforce what the key states.
    users: Annotated[
        int, Key("number of honest users whose reports are shuffled together, at least; each sends one", USERS, claim=True)
    ]
    local_epsilon: Annotated[float, Key("pure epsilon of one report before it is shuffled, in nats", POSITIVE)]
    randomizer: Annotated[
        Literal["any", "randomized-response"],
        Key("randomiser of every user: any one with this epsilon, or k-ary randomised response", claim=True),
    ] = "any"
    categories: Annotated[
        int | None, Key('number of categories, with randomizer = "randomized-response"; 2 by default', AT_LEAST_TWO)
    ] = None

    def problems(self) -> Iterator[tuple[str, str, str]]:
        if self.randomizer == "any" and self.categories is not None:
            yield "categories", 'none with randomizer = "any"', repr(self.categories)

    def stated(self) -> Shuffled:
        e0 = self.local_epsilon
        # c of the module's docstring: e^-e0, or 2 / (e^e0 + 1)
        rate = math.exp(-e0) if self.randomizer == "any" else 2.0 * math.exp(-e0) / (1.0 + math.exp(-e0))
        return Shuffled(self.users, e0, min(rate * (1.0 - 1e-15), ALMOST_ALL), self.categories or 2)

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        """Return the mechanism under the neighbouring relation. Raises InputError under add-remove."""
        if neighbours.adjacency is Adjacency.ADD_REMOVE:
            raise InputError(
                "shuffled-reports hides what a user reports, not whether: it needs adjacency = replace-one or zero-out"
            )
        mechanism = StatedSpec.resolve(self, neighbours)
        # Under zero-out it is not stated what a blanked user reports. It may be the same as before, so nothing need be attained.
        return mechanism if neighbours.replaces else mechanism.unclaimed()
