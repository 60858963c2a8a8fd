"""Mutation testing of mechanisms. Bugs are planted where a pipeline is resolved, so that they apply to every mechanism type.

`resolve` (dpcli/file/pipeline/resolve.py) turns a pipeline into *charges* (`BillLine`), which are mechanisms with counts. A plant of PLANTS
replaces it inside `account` by a function that, for example, ignores the counts. The exam must then find a *bracket* that does not hold,
which is a pair of bounds around the enumerated delta of a *reference* (an entry with its enumerated releases) in a *situation* (adjacency,
sampling, and numbers of records and units; bracket.py). Or it must find steps that cost more or less than as many entries. A plant that
lowers no upper bound is not a fault of the exam. examine.py asks `undetected_in_mechanism`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from unittest import mock

from dpcli.analysis import account as accounting
from dpcli.base.errors import InputError, NotRepresentable
from dpcli.exam.enumeration.bracket import Bracket, reference_pipeline, row, situations
from dpcli.exam.enumeration.drawing_records import Situation
from dpcli.exam.enumeration.references import Reference
from dpcli.exam.mechanism_laws import copies
from dpcli.exam.subjects import Subject, drawn
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.resolve import BillLine, resolve
from dpcli.mechanisms.mechanism import Dominated, Mechanism, PrivacyLoss
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.numerics.arrays import Array
from dpcli.numerics.contour.tilted import Tilted
from dpcli.numerics.tails import Tails

Resolve = Callable[..., tuple[BillLine, ...]]  # (pipeline, size of the group) -> charges
STEP_LAW_SEED = "0"  # seed of the files on which the law of step counts is tried; arbitrary


@dataclass(frozen=True, slots=True)
class Shrunk:
    """A privacy loss, multiplied by `share`."""

    inner: PrivacyLoss
    share: float

    def cgf(self, z: Array) -> Array:
        return self.inner.cgf(self.share * z)

    def tilted(self, t: float) -> Tilted:
        raise NotRepresentable("planted")  # accountants that need this view then give no answer

    def tails(self, at: Array) -> Tails:
        return self.inner.tails(at / self.share)


@dataclass(frozen=True, slots=True)
class Scaled(Mechanism):
    """A mechanism that reports too small a cost in every representation, as if each privacy loss were multiplied by `share`.

    Epsilon, mu of Gaussian DP and the Renyi divergence are multiplied by `share`. rho of zCDP is multiplied by its square, as mu is
    sqrt(2 rho). The smallest delta is unchanged. The representations need not be those of any one mechanism.
    """

    inner: Mechanism
    share: float

    def approx_dp(self, delta: float) -> float:
        return self.share * self.inner.approx_dp(delta)

    def delta_floor(self) -> float:
        return self.inner.delta_floor()

    def zcdp(self) -> float:
        return self.share**2 * self.inner.zcdp()

    def gdp(self) -> float:
        return self.share * self.inner.gdp()

    def losses(self) -> tuple[PrivacyLoss, ...]:
        return tuple(Shrunk(loss, self.share) for loss in self.inner.losses())

    def attained(self) -> bool:
        return self.inner.attained()

    def rdp(self, orders: Array) -> Array:
        return self.share * self.inner.rdp(orders)


@dataclass(frozen=True, slots=True)
class Claiming(Dominated):
    """A mechanism that falsely claims that some data have exactly its cost. It inherits the costs of `by`, the honest mechanism."""

    def attained(self) -> bool:
        return True


def epsilon_over_ten(resolve: Resolve) -> Resolve:
    """Return a bug that reports a tenth of every epsilon (`Scaled`)."""
    return lambda *pipeline_and_group: tuple(
        replace(charge, mechanism=Scaled(charge.mechanism, 0.1)) for charge in resolve(*pipeline_and_group)
    )


def count_ignored(resolve: Resolve) -> Resolve:
    """Return a bug that charges every entry for one step."""
    return lambda *pipeline_and_group: tuple(replace(charge, count=1) for charge in resolve(*pipeline_and_group))


def adjacency_ignored(resolve: Resolve) -> Resolve:
    """Return a bug that resolves every file under add-remove."""

    def planted(pipeline: Pipeline, *group: int) -> tuple[BillLine, ...]:
        return resolve(replace(pipeline, privacy=replace(pipeline.privacy, adjacency=Adjacency.ADD_REMOVE)), *group)

    return planted


def lower_bound_claimed(resolve: Resolve) -> Resolve:
    """Return a bug that presents lower bounds of the dominating pair as lower bounds of the mechanism."""
    return lambda *pipeline_and_group: tuple(
        replace(charge, mechanism=Claiming(charge.mechanism)) for charge in resolve(*pipeline_and_group)
    )


PLANTS: dict[str, Callable[[Resolve], Resolve]] = {
    "epsilon divided by ten": epsilon_over_ten,
    "count ignored": count_ignored,
    "adjacency ignored": adjacency_ignored,
    "lower bound claimed": lower_bound_claimed,
}


@contextmanager
def planted_as(bug: Resolve) -> Iterator[None]:
    """Replace `resolve` by the planted bug wherever `account` calls it."""
    with mock.patch.object(accounting, "resolve", bug):
        yield


honest_row = functools.cache(row)  # the brackets without a bug, which all plants share


def affects(bug: Resolve, reference: Reference, scheme: str, situation: Situation) -> bool:
    """Return whether the bug changes the charges of a reference. Accountants are asked only about such references."""
    try:
        pipeline = reference_pipeline(reference, scheme, situation)
    except InputError:
        return False  # The file is invalid in this situation.
    try:
        honest_charges, planted_charges = resolve(pipeline, situation.group), bug(pipeline, situation.group)
    except InputError:
        return True  # Only one of the two may refuse the pipeline, which changes the charges too.
    return planted_charges != honest_charges


def promises_more(planted: Bracket, honest: Bracket) -> bool:
    """Return whether the planted upper bound is smaller. A larger lower bound is no fault by itself, because it may be true."""
    return planted.upper < honest.upper - 1e-12  # more than rounding


def breaks_step_count(subject: Subject) -> bool:
    """Return whether n steps cost more or less than n entries of one step each, which violates the law `copies`."""
    with suppress(InputError):  # The planted adjacency may make the file invalid.
        return next(copies(subject.pipeline), None) is not None
    return False


def undetected_in_mechanism(kind: str, plant: str) -> bool:
    """Return whether the exam of a mechanism type misses a planted bug.

    A bug is missed if it lowers an upper bound, and the exam finds neither a false bracket nor a wrong number of steps.
    """
    bug = PLANTS[plant](resolve)
    promises_too_much = False
    for reference, scheme, situation in situations(kind):
        if affects(bug, reference, scheme, situation):
            with planted_as(bug):
                planted = row(reference, scheme, situation)
            if planted.faults():
                return False
            honest = honest_row(reference, scheme, situation)
            promises_too_much = promises_too_much or any(map(promises_more, planted.brackets, honest.brackets))
    with planted_as(bug):
        return promises_too_much and not any(map(breaks_step_count, drawn(kind, STEP_LAW_SEED)))
