"""The premises of `last-iterate` that a training file must keep.

The entry type `last-iterate` prices a run of which only the last model is released, and for that price the losses must be convex, smooth
and Lipschitz (mechanisms/noise/last_iterate.py). `require_premises` refuses a file whose training would break this.

The model is `bounded-logistic`: softmax regression on z, which is a record's features with a constant 1, scaled down to a length of at most
C / sqrt(2). Let p be the probabilities of the labels, and e the record's label as a vector of zeros and a one.

1. The gradient of a record's loss is (p - e) z^T, and |p - e|^2 <= 2 (1 - p_label)^2 <= 2. So no gradient is longer than C, and clipping
   to C changes none.
2. The second derivative is (diag(p) - p p^T) times z z^T. For |u| = 1, u^T (diag(p) - p p^T) u is the variance of a number between min(u)
   and max(u), so it is at most (max(u) - min(u))^2 / 4 <= 1 / 2. The curvature of a record's loss is therefore between 0 and C^2 / 4. Means
   of such losses have the same bounds.
3. A batch has at most b records, and its loss over the divisor has a curvature of at most b C^2 / (4 divisor). Weight decay adds its value
   to every curvature. A gradient step is then c-Lipschitz, with c as in `LastIterateSpec`.

The weights are in double precision, so that rounding moves two runs apart by far less than one record does.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import Any

from dpcli.base.errors import InputError
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.mechanisms.noise.last_iterate import LastIterateSpec
from dpcli.train.plan.settings import BOUNDED, Train

# Values that the keys of [train] must have; a key that the task does not read counts as None.
FIXED: dict[str, Any] = {
    "model": BOUNDED,
    "optimizer": "sgd",
    "momentum": 0.0,
    "schedule": "constant",
    "average": None,
    "class_weights": None,
    "augmentations": None,
    "engine": "dpcli",
}


def divisor_of(spec: LastIterateSpec, size: int) -> int:
    """Return the public number by which a sum of gradients is divided: that of a batch's places, or of its expected records, rounded up.

    Args:
        size: Declared number of records.
    """
    return ceil(size * (Fraction(1, spec.batches) if spec.drawn is None else Fraction(str(spec.inclusion))))


def radius_of(spec: object) -> float | None:
    """Return the radius of the ball onto which every model is projected, a little less than half the diameter; None if there is none."""
    if not isinstance(spec, LastIterateSpec) or spec.diameter is None:
        return None
    # A margin of several thousand machine epsilons, so that rounding does not leave the ball.
    return spec.diameter / 2.0 * (1.0 - 1e-12)


def require_premises(entry: Entry, train: Train, pipeline: Pipeline, path: str) -> None:
    """Raise InputError if training as [train] says would break a premise of an entry of type last-iterate."""
    spec, size, releases = entry.spec, pipeline.privacy.dataset_size, pipeline.privacy.releases
    assert isinstance(spec, LastIterateSpec) and size is not None
    place = f'mechanism["{entry.name}"]'
    if releases != "final-model":
        raise _premise_error(path, "privacy.releases", '"final-model"', releases)
    for key, value in FIXED.items():
        if getattr(train, key, None) != value:
            raise _premise_error(path, f"train.{key}", "no such key" if value is None else repr(value), getattr(train, key, None))
    if train.clipping.style != "flat":
        raise _premise_error(path, "train.clipping.style", "'flat'", train.clipping.style)
    if train.learning_rate != spec.learning_rate:
        raise _premise_error(path, "train.learning_rate", f"{spec.learning_rate!r}, as in {place}", train.learning_rate)
    if train.weight_decay < spec.strong_convexity:
        raise _premise_error(
            path, "train.weight_decay", f"at least strong_convexity = {spec.strong_convexity!r}", train.weight_decay
        )
    divisor, norm = divisor_of(spec, size), train.clipping.norm
    largest_batch = divisor if spec.drawn != "poisson" else size  # a Poisson sample may have all records
    # By 3. at the top of this file, without rounding: Fraction(str(x)) is the decimal number in the file, and not the double next to it.
    smoothness = Fraction(largest_batch, divisor) * Fraction(str(norm)) ** 2 / 4 + Fraction(str(train.weight_decay))
    if Fraction(str(spec.smoothness)) < smoothness:
        needed = f"at least {float(smoothness):.9g} = {largest_batch / divisor:g} C^2 / 4 + weight_decay, with C = {norm:g}"
        raise _premise_error(path, f"{place}.smoothness", needed, spec.smoothness)
    if spec.lipschitz not in (None, norm):
        raise _premise_error(path, f"{place}.lipschitz", f"train.clipping.norm = {norm!r}", spec.lipschitz)
    if spec.divisor not in (None, divisor):
        raise _premise_error(path, f"{place}.divisor", f"{divisor}, the records of a batch", spec.divisor)


def _premise_error(path: str, key: str, expected: str, value: object) -> InputError:
    """Return the error for a key that breaks a premise."""
    actual = "none" if value is None else repr(value)
    return InputError(f"{path}: {key}: expected {expected}, because the price of last-iterate needs it, found {actual}")
