"""Private selection: a mechanism runs a random number of times and only the best output is released (hyperparameter tuning).

`RepeatAndSelectSpec` has the keys of the type "repeat-and-select", and its premises, each with a test that violates it and the commands
that enforce it, if any. `bind` looks up the entry that one trial runs, at `part_path` and with its own sampling (`whole_runs`), and returns
`Tuned`. Its `resolve` makes the mechanism `RepeatAndSelect` from the mechanism of one trial, called the run or `inner`, and from the
distribution of the number of trials (`Trials`, trial_numbers.py).

Accountants ask the mechanism for upper bounds: `approx_dp` for epsilon, `zcdp` for rho, `rdp` for Renyi divergences (proved in
trial_numbers.py), and `losses` for the privacy losses log P/Q of pairs (P, Q) that dominate (selection_profile.py). `witness` returns a
concrete selection, for a lower bound (costly_selection.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Any, ClassVar

from dpcli.base.errors import NotRepresentable
from dpcli.base.fields import Key
from dpcli.base.premise import SECRET, Premises, moves, of_mechanism
from dpcli.base.values import dataclass
from dpcli.mechanisms.choice.costly_selection import CostlySelection
from dpcli.mechanisms.choice.selection_profile import LOG_LEAST, SelectionLoss, own_pair_losses, quick_pair_losses
from dpcli.mechanisms.choice.trial_numbers import Trials, TrialsTable, cached_rdp
from dpcli.mechanisms.mechanism import Dominated, Mechanism, PrivacyLoss
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.mechanisms.noise.additive import LARGEST_RATIO, SMALLEST_RATIO  # limits of sensitivity over noise
from dpcli.mechanisms.sampling.poisson import pure_epsilon
from dpcli.mechanisms.spec import CostEvidence, Spec
from dpcli.mechanisms.stated.pure_and_approx import Pure
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.closed.conversion import balle
from dpcli.numerics.grid.hockey_stick import FURTHEST  # FURTHEST: the largest loss on a grid
from dpcli.numerics.orders import SHORT, least_over_orders

LADDER_RUNGS = 7  # accuracy: a bound at one order tries this many orders, each twice as far above 1 as the one before
# The witness, the selection by a *costly score* (costly_selection.py), gives a lower bound for any values of these. They affect how near it
# comes to the upper bound, and the time.
LEAST_WITNESS = 1e-2  # no witness is made if epsilon at the smallest delta is at most this
WITNESS_EPSILONS = 100  # number of epsilons among which the one that the score is made for is chosen
# `witness` multiplies the rate that Chernoff's bound suggests by this. It is below 1, because a score for too small an epsilon costs little
# less than the best one, and one for too large an epsilon much less.
WITNESS_RATE = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatAndSelectSpec(Spec):
    """Tuning: another entry of the file runs a random number of times, and only the best result is released. All trials are charged here.

    The number of trials is drawn at random and stays secret, and nothing else about the other trials is released. Each trial may draw its
    hyperparameters at random, but from a distribution that does not depend on the data. The order of results is fixed beforehand. Comparing
    results must not use private data beyond what the trial's entry is charged for. A score on private data is therefore one more release of
    each trial. With a Poisson or binomial number of trials there may be no trial at all, and then nothing is released. A search that stops
    early because a trial was good is not covered, as the number of trials then depends on the data.

    Neighbours: the relations of the entry that runs.

    Bounds: upper, from a run's pure epsilon if it has one, from its privacy profile and from its Renyi divergences. If a trial is one step
    that attains its bound, `account` shows a lower bound, the cost of a concrete score. At delta = 0 there is an answer if a run is pure.

    Source: Papernot & Steinke 2022, arXiv:2110.03620, Theorems 2 and 6; Koskela, Redberg, Wang 2024, arXiv:2402.06701 (privacy profiles,
    binomial numbers). Proofs: dpcli/mechanisms/choice/selection_profile.py (profiles) and trial_numbers.py (Renyi, binomial).
    """

    example: ClassVar[Mapping[str, Any]] = {"mechanism": "part", "trials": {"distribution": "geometric", "mean": 2}}
    evidence: ClassVar[CostEvidence] = CostEvidence.PRICED  # the cost follows from the keys by a theorem
    selects: ClassVar[bool] = True  # a search that releases only its best run
    premises: ClassVar[Premises] = (
        SECRET,  # every release draws its own random numbers, and nobody sees them
        moves("A trial costs what its entry states."),
        of_mechanism(  # the premise, a test that violates it, and the command that enforces it
            "The number of trials and the results of the other trials stay secret.",
            "test_a_published_number_of_trials_costs_more",
            "sweep",
        ),
        of_mechanism(
            "The order of results is fixed beforehand, and the score by which they are compared is charged with the trial.",
            "test_an_order_that_is_chosen_by_the_data_costs_more",
            "sweep",
        ),
    )

    mechanism: Annotated[str, Key("name of the entry that one trial runs, with its own steps and sampling")]
    trials: Annotated[
        TrialsTable,
        Key(
            "{ distribution = poisson | binomial | geometric | logarithmic | truncated-negative-binomial, mean or gamma, most, eta }"
        ),
    ]

    def problems(self) -> Iterator[tuple[str, str, str]]:
        yield from self.trials.problems()

    @property
    def whole_runs(self) -> bool:
        return True

    @property
    def mean_trials(self) -> float:
        return self.trials.distributed().mean

    def part_path(self, position: int) -> tuple[str | int, ...]:
        return ("mechanism",)

    def bind(self, lookup: Callable[[str], tuple[Spec, int]]) -> Spec:
        return Tuned(*lookup(self.mechanism), self.trials.distributed())


@dataclass(frozen=True, slots=True)
class Tuned(Spec):
    """A tuning entry, with the spec and the count of the entry that one trial runs."""

    run: Spec
    count: int
    trials: Trials

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        from dpcli.mechanisms.combined.composed import Composed

        mechanism = self.run.resolve(neighbours)
        run = mechanism if self.count == 1 else Composed(((mechanism, self.count),))
        return RepeatAndSelect(_with_gaussians_joined(run), self.trials)


def _with_gaussians_joined(run: Mechanism) -> Mechanism:
    """Return one Gaussian for a composition of Gaussians that attain their pairs (`Mechanism.attained`), and any other run unchanged.

    One Gaussian has a pair in closed form, so that the bounds need no grid, and a witness, which a composition lacks.
    """
    from dpcli.mechanisms.noise.gaussian import Gaussian

    if run.is_composition and run.attained():
        with suppress(NotRepresentable):
            mu = run.gdp() * (1.0 + 1e-15)  # rounded up
            return Gaussian(mu) if SMALLEST_RATIO < mu < LARGEST_RATIO else run
    return run


@dataclass(frozen=True, slots=True)
class RepeatAndSelect(Mechanism):
    """A selection: `inner` runs a secret number of times, drawn from `trials`, and only the best output is released."""

    inner: Mechanism
    trials: Trials

    def pure(self) -> float:
        """Return an upper bound on the pure epsilon of the selection; inf if one run has none."""
        epsilon = pure_epsilon(self.inner)
        return self.trials.pure(epsilon) if epsilon < math.inf else math.inf

    def approx_dp(self, delta: float) -> float:
        """Return the smallest of three bounds: from the pure epsilon, the Renyi curve, and the privacy profile of a run.

        At delta = 0 it is the pure epsilon. Raises NotRepresentable if no bound is finite at a positive delta.
        """
        pure = self.pure()
        if delta <= 0.0:
            return pure
        log_delta = math.log(delta)
        best = Pure(pure).approx_dp(delta) if pure < math.inf else math.inf
        with suppress(NotRepresentable):
            _, value = least_over_orders(lambda z: balle(1.0 + z, cached_rdp(self, 1.0 + z), log_delta), grain=SHORT)
            best = min(best, value)
        with suppress(NotRepresentable):  # quick: without the grid that the own pair of a composition needs
            best = min(best, self._loss(quick_pair_losses(self.inner), pure).epsilon(log_delta))
        if math.isinf(best):
            raise NotRepresentable("selection needs a run whose delta falls far enough, or whose pure or Renyi guarantee is known")
        return best

    def zcdp(self) -> float:
        pure = self.pure()
        if math.isinf(pure):
            raise NotRepresentable("the selection among random trials has no rho: its Renyi curve is not 0 at order 1")
        return Pure(pure).zcdp()

    def losses(self) -> tuple[PrivacyLoss, ...]:
        pure = self.pure()
        if FURTHEST < pure < math.inf:  # the pair on a grid cannot have losses that are finite and so large
            return Pure(pure).losses()
        return (self._loss(own_pair_losses(self.inner), pure),)

    def _loss(self, losses_of_run: tuple[PrivacyLoss, ...], pure: float) -> SelectionLoss:
        """Return the loss of the selection, from its pure epsilon and the losses of pairs that dominate one run, one for each direction."""
        return SelectionLoss(losses_of_run, self.trials, self, pure, self.inner)

    def unclaimed(self) -> Mechanism:
        """Return the same upper bounds without a witness, for uses that cannot attain them. The default would compute a witness first."""
        return Dominated(self)

    def witness(self, order: float) -> Mechanism | None:
        """Return the selection by a costly score; None if a run is not one step that attains its bound, or costs too little or too much.

        The score is made for the epsilon at which the upper bound on log delta falls at the rate WITNESS_RATE (order - 1). At this order,
        Chernoff's bound on delta(epsilon) falls at the rate order - 1. Of the scores for the two directions, the one with the larger
        moment at the order is returned.
        """
        if self.inner.is_composition or not self.inner.attained():
            return None
        losses = self.inner.losses()
        bound = self._loss(losses, self.pure())
        largest = bound.epsilon(LOG_LEAST)
        if not LEAST_WITNESS < largest < FURTHEST:
            return None
        epsilons = np.linspace(0.0, largest, WITNESS_EPSILONS)
        rates = -np.diff(bound.log_heights(epsilons)) / np.diff(epsilons)
        is_steep = np.append(rates[:-1] >= WITNESS_RATE * (order - 1.0), True)  # at the last one in any case
        epsilon = float(epsilons[np.argmax(is_steep)])
        removal, addition = losses[0], losses[-1]
        scores = [
            CostlySelection(removal, self.trials, epsilon, is_addition=False),
            CostlySelection(addition, self.trials, epsilon, is_addition=True),
        ]
        return max(scores, key=lambda score: max(float(loss.cgf(np.array([order - 1.0]))[0]) for loss in score.losses()))

    def rdp(self, orders: Array) -> Array:
        """Return the smallest of the bound from the pure epsilon and the bounds of `trials` at LADDER_RUNGS orders from this one on.

        D_a increases with a, so that a bound at a larger order holds at a smaller one.
        """
        pure = self.pure()
        bound = np.full_like(orders, np.inf) if math.isinf(pure) else Pure(pure).rdp(orders)
        for rung in range(LADDER_RUNGS):
            bound = np.fmin(bound, self.trials.rdp(self.inner, 1.0 + (orders - 1.0) * 2.0**rung))
        return np.asarray(bound)
