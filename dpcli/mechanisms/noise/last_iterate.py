"""Noisy gradient descent on convex losses, of which only the last model is released.

A step moves the model by a noisy gradient. Later steps hide earlier ones, so that the cost stops growing with the number of steps
(Altschuler, Talwar 2022, arXiv:2205.13710). If the batches of records are fixed beforehand, the run costs as much as one Gaussian. If each
step draws its batch in secret, it costs as much as one Gaussian and the last sampled steps, or as all steps. The theorem and its proof are
in numerics/closed/shifted_interpolation.py. This file turns the keys of the type "last-iterate" into mechanisms, with bounds that are
rounded up. `unclaimed` drops the claim that some data attain them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from dpcli.base.errors import InputError
from dpcli.base.fields import COUNT, NON_NEGATIVE, POSITIVE, RATE, Key
from dpcli.base.premise import NOISE, SECRET, Premises, moves, of_mechanism
from dpcli.base.values import dataclass
from dpcli.mechanisms.combined.composed import Composed
from dpcli.mechanisms.combined.labelled import LeastOf
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.mechanisms.noise.additive import LARGEST_RATIO, NoPrivacy, with_noise  # the largest sensitivity over noise
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.mechanisms.sampling.poisson import fixed_size
from dpcli.mechanisms.spec import CostEvidence, Spec
from dpcli.numerics.closed.shifted_interpolation import hidden_steps, last_iterate_norm
from dpcli.numerics.work import shared  # a cache

# Keys, each with another key: both are stated, or neither is.
STATED_TOGETHER = {"lipschitz": "diameter", "divisor": "diameter", "inclusion": "drawn"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LastIterateSpec(Spec):
    """Noisy gradient descent on smooth convex losses. Only the last model is released, so that later steps hide earlier ones.

    A step goes from x to the projection of x - learning_rate ((G + N) / divisor + R), where G is the sum of the gradients of the records
    of a batch, N the noise, and R the gradient of a public regulariser. noise_multiplier is the standard deviation of N over C, the bound
    on one record's gradient. Batches are disjoint, fixed beforehand, and used in turn; batches = 1 is full-batch descent. The cost stops
    growing if the regulariser makes every step strongly convex, or if the models stay in a set of a stated diameter. With noise_multiplier
    20, learning_rate 0.1, strong_convexity 0.1, 1,000 iterations and delta 1e-6, for example, epsilon is 3.30 under zero-out, in place
    of 8.31 for all models. `steps` of the entry is the number of runs.

    With drawn and inclusion, each step draws a new batch in secret, by Poisson or fixed-size sampling. The last steps are then charged as
    sampled steps with a part of the noise, and all earlier ones as one Gaussian with the rest, if this is cheaper than all steps. A Poisson
    batch may hold all records, and smoothness must hold for it too.

    Neighbours: all three adjacencies; replace-one alone with batches of fixed size. An absent record leaves its place in its batch empty.
    The cost of k records is that of k times the sensitivity. The entry has no sampling table.

    Bounds: those of one Gaussian, or with sampled steps, and never more than all models cost. They are exact for full batches without a
    diameter, if the smallest curvature decides. In other cases they are upper bounds. No finite epsilon at delta = 0.

    Source: Bok, Su, Altschuler 2024, arXiv:2403.00278, with the best shifts for any diameter and number of batches.
    """

    example: ClassVar[Mapping[str, Any]] = {
        "noise_multiplier": 40.0,
        "iterations": 30,
        "batches": 2,
        "learning_rate": 0.5,
        "smoothness": 1.0,
        "strong_convexity": 0.2,
        "diameter": 0.5,
        "lipschitz": 1.0,
        "divisor": 40,
    }
    evidence: ClassVar[CostEvidence] = CostEvidence.PRICED
    needs_delta: ClassVar[bool] = True
    final_only: ClassVar[bool] = True  # the cost holds only if no earlier model is released
    # What must hold for the cost, each with a test that violates it, and the commands that enforce it, if any.
    premises: ClassVar[Premises] = (
        SECRET,  # every draw is fresh, and nobody sees it
        moves("No gradient of a record is longer than C, on the whole set of models. C is `lipschitz` if it is stated."),
        NOISE,  # the noise has the named distribution
        of_mechanism(
            "No model but the last one of a run is released, seen, or used for a choice such as when to stop.",
            "test_models_on_the_way_tell_more_than_the_last",
            "train",
        ),
        of_mechanism(
            "A batch's loss over the divisor, with the regulariser, has the stated smoothness and strong_convexity, whichever records it "
            "has. Its gradient is used as it is. Clipped gradients are in general not those of a convex loss.",
            "test_losses_that_are_less_convex_than_stated_forget_less",
            "train",
        ),
        of_mechanism(
            "With diameter: after every step, the model is projected onto a convex set that is no wider than that.",
            "test_a_wider_set_than_is_stated_forgets_less",
            "train",
        ),
        of_mechanism(
            "Each record has a place in one batch of `batches`, which are used in turn, and an absent one leaves it empty. Places, "
            "the first model, learning rate, divisor and iterations do not depend on the records.",
            "test_a_record_in_two_batches_is_seen_twice",
            "train",
        ),
        of_mechanism(
            "With drawn, each step draws a new batch as stated instead, and which records it has stays secret.",
            "test_published_batches_of_a_descent_are_not_drawn",
            "train",
        ),
    )

    noise_multiplier: Annotated[
        float,
        Key("standard deviation of the noise on a sum of gradients over C, the bound on one record's gradient (L2)", POSITIVE),
    ]
    iterations: Annotated[int, Key("steps of one run", COUNT)]
    # claim=True: dpcli does not enforce what the key states.
    learning_rate: Annotated[float, Key("step size, the same in every step; at most 2 / smoothness", POSITIVE, claim=True)]
    smoothness: Annotated[
        float,
        Key(
            "largest curvature of a batch's loss over the divisor, with the regulariser: a Lipschitz constant of the gradient",
            POSITIVE,
            claim=True,
        ),
    ]
    strong_convexity: Annotated[
        float,
        Key("smallest curvature of a batch's loss over the divisor, with the regulariser; 0 by default", NON_NEGATIVE, claim=True),
    ] = 0.0
    batches: Annotated[
        int, Key("number of disjoint batches, which are used in turn; 1, all records in every step, by default", COUNT, claim=True)
    ] = 1
    diameter: Annotated[
        float | None,
        Key("diameter of the set onto which every model is projected; needs lipschitz and divisor", POSITIVE, claim=True),
    ] = None
    lipschitz: Annotated[float | None, Key("C, the bound on one record's gradient (L2), with diameter", POSITIVE, claim=True)] = (
        None
    )
    divisor: Annotated[
        int | None, Key("public number by which a sum of gradients is divided, with diameter", COUNT, claim=True)
    ] = None

    drawn: Annotated[
        Literal["poisson", "fixed-size"] | None,
        Key("how each step draws a batch, in secret; by default batches are fixed", claim=True),
    ] = None
    inclusion: Annotated[float | None, Key("probability that a record is in the batch of a step, with drawn", RATE)] = None

    def problems(self) -> Iterator[tuple[str, str, str]]:
        if not self.learning_rate * self.smoothness <= 2.0:
            expected = f"at most 2 / smoothness = {2.0 / self.smoothness:.6g} (a longer step moves two models apart)"
            yield "learning_rate", expected, repr(self.learning_rate)
        if self.strong_convexity > self.smoothness:
            yield "strong_convexity", f"at most smoothness = {self.smoothness!r}", repr(self.strong_convexity)
        for key, second_key in STATED_TOGETHER.items():
            value = getattr(self, key)
            if value is None and getattr(self, second_key) is not None:
                yield key, f"{key}, which {second_key} needs", "none"
            elif value is not None and getattr(self, second_key) is None:
                yield key, f"none without {second_key}", repr(value)
        if self.drawn is not None and self.batches > 1:
            yield "batches", "1 with drawn, as each step draws its batch", str(self.batches)

    @property
    def contribution_form(self) -> bool:
        return True

    @property
    def sampling_refusal(self) -> str:
        return "whose keys drawn and inclusion say how the steps of a run draw their batches"

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        """Return one Gaussian, or the cheaper of all sampled steps and the last ones with a Gaussian.

        A change of k records is k changes of one record, each with the same mu, and such Gaussians cost as much as one with k mu (Dong,
        Roth, Su 2019, arXiv:1905.02383, Theorem 2.14).
        """
        if self.drawn is not None:
            return self._with_drawn_batches(neighbours)
        norm = _norm(self._gap(), self.batches, self.iterations, self._width(neighbours))
        multiplier = min(self.noise_multiplier / norm, sys.float_info.max)  # a smaller multiplier than infinity costs more
        mechanism = GaussianSpec(noise_multiplier=multiplier).resolve(neighbours) if multiplier > 0.0 else NoPrivacy(math.inf)
        return mechanism if self._attained() else mechanism.unclaimed()

    def _with_drawn_batches(self, neighbours: Neighbours) -> Mechanism:
        """Return the cheaper of all sampled steps, and of the last ones after a Gaussian. Raises InputError as sampling does."""
        all_steps = Composed(((self._sampled_step(1.0, neighbours), self.iterations),))
        mu = neighbours.contribution_bounds / self.noise_multiplier
        if mu > LARGEST_RATIO:  # the noise protects nothing
            return all_steps
        opposite = neighbours.replaces and self.drawn == "poisson"  # a record's versions may move a sum in opposite directions
        rate, width = float(self.inclusion or 1.0), self._width(neighbours)
        division = hidden_steps(self._gap(), self.iterations, width, neighbours.records, rate, mu, opposite=opposite)
        if division is None:  # no division promises to cost less
            return LeastOf((all_steps,))
        # One Gaussian, which takes a share of the noise's variance, stands for all steps before the last ones.
        last_step = self._sampled_step(math.sqrt(1.0 - division.share) * (1.0 - 1e-15), neighbours)
        earlier_steps = with_noise(Gaussian, division.mu).unclaimed()  # NoPrivacy if mu exceeds LARGEST_RATIO
        return LeastOf((all_steps, Composed(((earlier_steps, 1), (last_step, division.steps)))))

    def _sampled_step(self, factor: float, neighbours: Neighbours) -> Mechanism:
        """Return one step with noise multiplied by `factor`, on the batch that it draws."""
        assert self.inclusion is not None
        step = GaussianSpec(noise_multiplier=self.noise_multiplier * factor)
        if self.drawn == "poisson":
            return step.poisson(self.inclusion, neighbours).unclaimed()
        if not neighbours.replaces:
            raise InputError(f"batches of fixed size need adjacency = replace-one, found {neighbours.adjacency.value}")
        return fixed_size(step.resolve(neighbours), self.inclusion, neighbours.records).unclaimed()

    def _gap(self) -> float:
        """Return 1 - c, rounded down, where a step without its noise is c-Lipschitz, so that it brings two models nearer by the factor c.

        Its derivative is between 1 - learning_rate * smoothness and 1 - learning_rate * strong_convexity.
        """
        largest, smallest = (self.learning_rate * curvature for curvature in (self.smoothness, self.strong_convexity))
        return max(min(smallest * (1.0 - 1e-15), 2.0 - largest * (1.0 + 1e-15)), 0.0)

    def _width(self, neighbours: Neighbours) -> float:
        """Return the diameter in units of the largest move that one changed record makes in a step, rounded up; inf without a set."""
        if self.diameter is None or self.lipschitz is None or self.divisor is None:
            return math.inf
        versions = 2.0 if neighbours.replaces else 1.0
        return self.diameter / self.lipschitz / self.learning_rate * self.divisor / versions * (1.0 + 1e-14)

    def _attained(self) -> bool:
        """Return whether losses with a constant gradient C, and a quadratic regulariser with strong_convexity, attain the bound.

        The last model is then Gaussian. Each step multiplies a difference by 1 - learning_rate * strong_convexity, which is the largest
        factor that the keys allow.
        """
        largest, smallest = (self.learning_rate * curvature for curvature in (self.smoothness, self.strong_convexity))
        return self.batches == 1 and self.diameter is None and (self.iterations == 1 or smallest <= 2.0 - largest)


@shared(16)
def _norm(gap: float, batches: int, iterations: int, width: float) -> float:
    """Return `last_iterate_norm`, cached, because a search for the noise asks for it many times."""
    return last_iterate_norm(gap, batches, iterations, width)
