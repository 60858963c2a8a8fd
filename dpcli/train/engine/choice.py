"""Which method computes the sums: book-keeping where it applies and is right, then vmap, then one example at a time."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dpcli.base.errors import InputError
from dpcli.train.engine.batches import Batch, size, take
from dpcli.train.engine.book_keeping import BookKeeping
from dpcli.train.engine.clip import Automatic
from dpcli.train.engine.draws import keyed
from dpcli.train.engine.method import Loss, Method
from dpcli.train.engine.probe import SEED, replaced, seeded, shifted, tolerance_of
from dpcli.train.engine.rule import Unsuitable
from dpcli.train.engine.sums import Sums, clipped
from dpcli.train.engine.vectorised import Looped, Vectorised

EXAMPLES = 3
UNIT = Automatic(1.0, 1e-6)  # every example at length one, so that none hides behind a longer one

Build = Callable[[nn.Module, Loss, Batch], Method]


def vectorised(model: nn.Module, loss: Loss, batch: Batch) -> Method:
    return Vectorised(model, loss)


CANDIDATES: tuple[tuple[str, Build], ...] = (("book-keeping", BookKeeping.learnt), ("vmap", vectorised))


def modes(model: nn.Module) -> bytes:
    """Of each module, whether it is in training mode."""
    return bytes(module.training for module in model.modules())


@dataclass(frozen=True, slots=True)
class MethodChoice:
    """A method, and why each faster one was passed over."""

    method: Method
    passed_over: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "; ".join((self.method.name, *self.passed_over))


def choose(
    model: nn.Module, loss: Loss, draw: Callable[[int], Batch], candidates: Sequence[tuple[str, Build]] = CANDIDATES
) -> MethodChoice:
    """The fastest method that agrees with a loop over a few made-up examples, on a copy that is thrown away."""
    spare = copy.deepcopy(model)
    with shifted(spare):
        found = first_that_agrees(spare, loss, draw(EXAMPLES), candidates)
    return MethodChoice(found.method.on(model), found.passed_over)


def first_that_agrees(model: nn.Module, loss: Loss, few: Batch, candidates: Sequence[tuple[str, Build]]) -> MethodChoice:
    """The loop is always right, and always last."""
    reasons: list[str] = []
    expected = one_by_one(model, loss, few)
    for name, build in candidates:
        try:
            with seeded(model):
                method = build(model, loss, few)
            verify(model, method, few, expected)
            return MethodChoice(method, tuple(reasons))
        except InputError:
            raise
        except Exception as problem:  # whatever torch or the model raises under hooks or vmap: not used, and said
            reasons.append(
                f"not {name}: {str(problem).strip().splitlines()[0] if str(problem).strip() else type(problem).__name__}"
            )
    return MethodChoice(Looped(model, loss), tuple(reasons))


def verify(model: nn.Module, method: Method, few: Batch, expected: Sums) -> None:
    """Norms and sums as the loop's, and no example's norm moved by another example.

    Raises:
        Unsuitable: otherwise; with the parameter whose gradient differs.
    """
    tolerance = tolerance_of(model)
    found = unit_sums(model, method, few)
    if not near(found.norms, expected.norms, tolerance):
        raise Unsuitable("its norms differ from those of one example at a time")
    length = sum(float(g.square().sum()) for g in expected.gradients.values()) ** 0.5
    for name, gradient in expected.gradients.items():
        slack = tolerance * (float(gradient.norm()) + 0.02 * length)
        if not float((found.gradients[name] - gradient).norm()) <= slack:
            raise Unsuitable(f"its gradient of {name} differs from that of one example at a time")
    check_neighbours(model, method, few, tolerance)


def check_neighbours(model: nn.Module, method: Method, few: Batch, tolerance: float) -> None:
    """Each with its own dropout: an example's norm does not notice that another one was exchanged."""
    before = unit_sums(model, method, few).norms
    for row in range(size(few)):
        others = [other for other in range(size(few)) if other != row]
        after = unit_sums(model, method, replaced(few, row, others[0])).norms
        if not near(after[others], before[others], tolerance):
            raise Unsuitable("the norm of one example depends on another")


def unit_sums(model: nn.Module, method: Method, batch: Batch, keys: Sequence[int] | None = None) -> Sums:
    """Sums with every example at length one, and each drawing by its own key."""
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    with keyed(range(size(batch)) if keys is None else keys, SEED):
        return clipped(method.parts(batch), UNIT, parameters)


def one_by_one(model: nn.Module, loss: Loss, batch: Batch) -> Sums:
    """The same from a loop, in which each example draws what it draws in the batch."""
    first, *rest = (unit_sums(model, Looped(model, loss), take(batch, [row]), [row]) for row in range(size(batch)))
    for one in rest:
        first = first + one
    return first


def near(a: Tensor, b: Tensor, tolerance: float) -> bool:
    """Norms that agree relatively; infinite ones are equal."""
    return torch.allclose(a.double(), b.double(), rtol=tolerance, atol=0.02 * tolerance)
