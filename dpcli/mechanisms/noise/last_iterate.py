"""Noisy gradient descent on convex losses, of which only the last model is released.

Later steps hide earlier ones, so that the cost stops growing with the number of steps (Altschuler, Talwar 2022, arXiv:2205.13710). The
proof is in numerics/closed/shifted_interpolation.py.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from dpcli.base.fields import COUNT, NON_NEGATIVE, POSITIVE, Key
from dpcli.base.premise import NOISE, SECRET, Premises, moves, of_mechanism
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.mechanisms.spec import Spec
from dpcli.numerics.closed.shifted_interpolation import last_iterate_norm
from dpcli.numerics.work import shared

OF_THE_SET = ("lipschitz", "batch_size")  # keys that are read with diameter alone


@dataclass(frozen=True, slots=True, kw_only=True)
class LastIterateSpec(Spec):
    """Noisy gradient descent on smooth convex losses. Only the last model is released, so that later steps hide earlier ones.

    A step goes from x to the projection of x - learning_rate ((G + N) / batch_size + R), where G is the sum of the gradients of the records
    of a batch, N the noise, and R the gradient of a public regulariser. noise_multiplier is the standard deviation of N over C, the bound
    on one record's gradient. Batches are disjoint, fixed beforehand, and used in turn; batches = 1 is full-batch descent. The cost stops
    growing if the regulariser makes every step strongly convex, or if the models stay in a set of a stated diameter. With noise_multiplier
    20, learning_rate 0.1, strong_convexity 0.1, 1,000 iterations and delta 1e-6, for example, epsilon is 3.30 under zero-out, in place
    of 8.31 for all models. `steps` of the entry is the number of runs.

    Neighbours: all three adjacencies. An absent record leaves its place in its batch empty. The cost of k records is that of k times the
    sensitivity. There is no sampling.

    Bounds: those of one Gaussian, and never more than all models cost. They are exact for full batches without a diameter, if the smallest
    curvature decides. In other cases they are upper bounds. No finite epsilon at delta = 0.

    Source: Bok, Su, Altschuler 2024, arXiv:2403.00278, with the best shifts for a diameter, and for any number of batches.
    """

    example: ClassVar[Mapping[str, Any]] = {
        "noise_multiplier": 40.0,
        "iterations": 30,
        "batches": 2,
        "learning_rate": 0.5,
        "smoothness": 1.0,
        "strong_convexity": 0.1,
        "diameter": 0.5,
        "lipschitz": 1.0,
        "batch_size": 40,
    }
    evidence: ClassVar[int] = 2
    needs_delta: ClassVar[bool] = True
    final_only: ClassVar[bool] = True
    premises: ClassVar[Premises] = (
        SECRET,
        moves("No gradient of a record is longer than C, on the whole set of models. C is `lipschitz` if it is stated."),
        NOISE,
        of_mechanism(
            "No model but the last one of a run is released, seen, or used for a choice such as when to stop.",
            "test_models_on_the_way_tell_more_than_the_last",
        ),
        of_mechanism(
            "The mean loss of every batch, with the regulariser, has the stated smoothness and strong_convexity, whichever records it has. "
            "Its gradient is used as it is. Clipped gradients are in general not those of a convex loss.",
            "test_losses_that_are_less_convex_than_stated_forget_less",
        ),
        of_mechanism(
            "With diameter: after every step, the model is projected onto a convex set that is no wider than that.",
            "test_a_wider_set_than_is_stated_forgets_less",
        ),
        of_mechanism(
            "Each record has a place in one batch of `batches`, which are used in turn, and an absent one leaves it empty. Places, "
            "learning rate, batch_size and iterations do not depend on the records.",
            "test_a_record_in_two_batches_is_seen_twice",
        ),
    )

    noise_multiplier: Annotated[
        float,
        Key("standard deviation of the noise on a sum of gradients over C, the bound on one record's gradient (L2)", POSITIVE),
    ]
    iterations: Annotated[int, Key("steps of one run", COUNT)]
    learning_rate: Annotated[float, Key("step size, the same in every step; at most 2 / smoothness", POSITIVE, claim=True)]
    smoothness: Annotated[
        float,
        Key(
            "largest curvature of a batch's mean loss with its regulariser: a Lipschitz constant of the gradient",
            POSITIVE,
            claim=True,
        ),
    ]
    strong_convexity: Annotated[
        float, Key("smallest curvature of a batch's mean loss with its regulariser; 0 by default", NON_NEGATIVE, claim=True)
    ] = 0.0
    batches: Annotated[
        int, Key("number of disjoint batches, which are used in turn; 1, all records in every step, by default", COUNT, claim=True)
    ] = 1
    diameter: Annotated[
        float | None,
        Key("diameter of the set onto which every model is projected; needs lipschitz and batch_size", POSITIVE, claim=True),
    ] = None
    lipschitz: Annotated[float | None, Key("C, the bound on one record's gradient (L2), with diameter", POSITIVE, claim=True)] = (
        None
    )
    batch_size: Annotated[
        int | None, Key("places of a batch, by which its sum of gradients is divided, with diameter", COUNT, claim=True)
    ] = None

    def problems(self) -> Iterator[tuple[str, str, str]]:
        if not self.learning_rate * self.smoothness <= 2.0:
            expected = f"at most 2 / smoothness = {2.0 / self.smoothness:.6g} (a longer step moves two models apart)"
            yield "learning_rate", expected, repr(self.learning_rate)
        if self.strong_convexity > self.smoothness:
            yield "strong_convexity", f"at most smoothness = {self.smoothness!r}", repr(self.strong_convexity)
        for key in OF_THE_SET:
            value = getattr(self, key)
            if (value is None) != (self.diameter is None):
                yield (
                    key,
                    f"{key} with diameter" if value is None else "none without diameter",
                    "none" if value is None else repr(value),
                )

    @property
    def contribution_form(self) -> bool:
        return True

    @property
    def unsampled(self) -> str:
        return "whose batches are fixed: batches that are drawn for each step are not implemented"

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        """Return one Gaussian.

        A change of k records is k changes of one record, each with the same mu, and such Gaussians cost as much as one with k mu (Dong,
        Roth, Su 2019, arXiv:1905.02383, Theorem 2.14).
        """
        norm = _norm(self._gap(), self.batches, self.iterations, self._width(neighbours))
        multiplier = min(self.noise_multiplier / norm, sys.float_info.max)  # a smaller multiplier than infinity costs more
        mechanism = GaussianSpec(noise_multiplier=multiplier).resolve(neighbours)
        return mechanism if self._attained() else mechanism.unclaimed()

    def _gap(self) -> float:
        """Return 1 - c, rounded down, where a step is c-Lipschitz: its derivative is between 1 - learning_rate * smoothness and 1 -
        learning_rate * strong_convexity."""
        largest, smallest = (self.learning_rate * curvature for curvature in (self.smoothness, self.strong_convexity))
        return max(min(smallest * (1.0 - 1e-15), 2.0 - largest * (1.0 + 1e-15)), 0.0)

    def _width(self, neighbours: Neighbours) -> float:
        """Return the diameter in units of the largest move that one changed record makes in a step, rounded up; inf without a set."""
        if self.diameter is None or self.lipschitz is None or self.batch_size is None:
            return math.inf
        versions = 2.0 if neighbours.replaces else 1.0
        return self.diameter / self.lipschitz / self.learning_rate * self.batch_size / versions * (1.0 + 1e-14)

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
