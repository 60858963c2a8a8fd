"""Sampling schemes, with one class for each value of `scheme` in the table `sampling = { scheme = ... }`.

A scheme says how the records of one step are chosen. `resolve` turns the keys of an entry (`Spec`) into the mechanism that accountants
charge, with its count. A step may cost less because nobody knows who was drawn (*amplification*). A scheme may amplify only by a theorem
that its docstring cites, and only for the adjacencies that it names. Everything else is charged as unsampled runs, or is refused.

A *pass* is a number of steps in which each record takes part a fixed number of times. An *epoch* is one pass, or 1 / rate steps in a scheme
without passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import ceil, isfinite
from typing import Annotated, ClassVar

from dpcli.base.errors import InputError
from dpcli.base.fields import COUNT, RATE, RATE_OR_ZERO, Key, Selection
from dpcli.base.premise import ONCE, Premises, of_sampling
from dpcli.base.registry import SAMPLING
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.mechanisms.spec import Spec

MAX_STEPS = 10**18  # most steps that epochs may have, as for the key `steps`; it fits into 64 bits


@dataclass(frozen=True, slots=True)
class Runs:
    """The number of runs of an entry: `steps` or `epochs`, of which exactly one is set. dataset_size: number of records, if stated."""

    steps: int | None
    epochs: float | None
    dataset_size: int | None

    def steps_at(self, rate: Fraction | None) -> int:
        """Return the number of steps, rounded up. One epoch has 1/rate steps, or one step if there is no rate.

        Raises InputError if epochs have more than MAX_STEPS steps.
        """
        if self.steps is not None:
            return self.steps
        assert self.epochs is not None
        count = ceil(Fraction(repr(self.epochs)) / (rate or 1))
        if count > MAX_STEPS:
            raise InputError(f"expected at most 10^18 steps, found {self.epochs:g} epochs, which are more")
        return count


@dataclass(frozen=True, slots=True)
class Scheme:
    """Base class of the sampling schemes: how the records of one step are chosen. The fields are the keys of the table `sampling`."""

    selection: ClassVar[Selection] = Selection("scheme", SAMPLING)
    # What must hold for the cost, each with a test that violates it, and the commands that enforce it, if any.
    premises: ClassVar[Premises] = (ONCE,)
    # claim=True: dpcli does not enforce what the key states. varies=True: the runs of a sweep may differ in it.
    scheme: Annotated[
        str, Key("poisson | fixed-size | balls-in-bins | shuffle | cyclic | none; never defaulted", claim=True, varies=True)
    ]
    displaces: ClassVar[bool] = False  # whether a record's absence changes which other records are drawn

    @property
    def amplified(self) -> bool:
        """Tell whether a pass may cost less than one unsampled run, because the draws stay secret."""
        return False

    def problems(self, dataset_size: int | None) -> Iterator[tuple[str, str, str]]:
        """Yield each inconsistency of the keys, as (key, expected, found)."""
        return iter(())

    def exact_rate(self, dataset_size: int | None) -> Fraction | None:
        """Return the sampling rate without rounding, or None if the scheme states none."""
        return None

    def resolve(self, spec: Spec, runs: Runs, neighbours: Neighbours) -> tuple[Mechanism, int]:
        """Return the mechanism that accountants use for one step, and its count."""
        return spec.resolve(neighbours), runs.steps_at(None)


@dataclass(frozen=True, slots=True)
class Unsampled(Scheme):
    """scheme = "none": every step uses every record. This is the same as a file without a sampling table.

    steps and epochs mean the same, the number of times that the mechanism runs.

    Neighbours: the relations that the mechanism allows.

    Bounds: those of the mechanism.

    Source: none is needed, because nothing is drawn.
    """


@dataclass(frozen=True, slots=True)
class Batched(Scheme):
    """Base class of schemes with a sampling rate, which is stated directly or as a batch size over the size of the dataset."""

    rate: Annotated[float | None, Key("probability that a record is in the sample of one step", RATE_OR_ZERO, varies=True)] = None
    batch_size: Annotated[
        int | None, Key("records per step (expected, under Poisson); needs privacy.dataset_size", COUNT, varies=True)
    ] = None

    @property
    def amplified(self) -> bool:
        return True

    def problems(self, dataset_size: int | None) -> Iterator[tuple[str, str, str]]:
        if self.batch_size is None:
            if self.rate is None:
                yield "rate", "rate, or batch_size with privacy.dataset_size", "neither"
            return
        if dataset_size is None:
            yield "batch_size", "privacy.dataset_size with batch_size", "none"
        elif self.batch_size > dataset_size:
            yield "batch_size", f"at most privacy.dataset_size = {dataset_size}", str(self.batch_size)
        elif self.rate is not None and abs(self.rate * dataset_size - self.batch_size) > 0.5:
            yield "rate", f"batch_size / dataset_size = {self.batch_size / dataset_size:.7g}, or no rate", repr(self.rate)

    def exact_rate(self, dataset_size: int | None) -> Fraction | None:
        """Return the larger of the stated rates, without rounding; None if none is stated."""
        return max(self._stated_rates(dataset_size), default=None)

    def lower_rate(self, dataset_size: int | None) -> Fraction | None:
        """Return the smaller of the stated rates, at which an epoch has more steps; None if none is stated."""
        return min(self._stated_rates(dataset_size), default=None)

    def _stated_rates(self, dataset_size: int | None) -> list[Fraction]:
        """Return the rate that the keys state as a number, and the one that they state as a batch size."""
        rates = []
        if self.rate is not None and isfinite(self.rate):
            rates.append(Fraction(repr(float(self.rate))))
        if self.batch_size is not None and dataset_size is not None:
            rates.append(Fraction(self.batch_size, dataset_size))
        return rates

    def states_two_rates(self, dataset_size: int | None) -> bool:
        """Return whether two different rates are stated, so that charging the larger one gives only an upper bound."""
        larger, smaller = self.exact_rate(dataset_size), self.lower_rate(dataset_size)
        return larger is not None and smaller is not None and float(larger) != float(smaller)


@dataclass(frozen=True, slots=True)
class Poisson(Batched):
    """scheme = "poisson": each record is in each sample independently with probability `rate`, afresh in every step.

    batch_size over privacy.dataset_size states the rate too. If both are stated and differ, the larger rate is charged. A sample that is
    larger than max_batch_size is cut at random, and a theorem gives the cost of this. The draws stay secret. rate = 0 costs nothing, and
    rate = 1 means no sampling. An epoch counts as 1 / rate steps; their total number is rounded up.

    Neighbours: all three adjacencies. Under replace-one and zero-out the noise must be stated relative to one record's contribution.

    Bounds: the pairs are exact for Gaussian noise with noise_multiplier, and for one record of any mechanism that attains its pair. In
    other cases they are upper bounds.

    Source: Balle, Barthe, Gaboardi 2018, arXiv:1807.01647; Mironov, Talwar, Zhang 2019, arXiv:1908.10530; Zhu, Dong, Wang 2022,
    arXiv:2106.08567.
    """

    premises: ClassVar[Premises] = (
        ONCE,  # the data are read as often as the file states
        of_sampling(
            "Each record is drawn independently, with the stated probability.",
            "test_a_shuffled_batch_is_no_poisson_sample",
            "train and federated",
        ),
        of_sampling(
            "Every step draws a new sample.", "test_poisson_samples_that_are_drawn_once_are_no_samples", "train and federated"
        ),
        of_sampling("Which records were drawn stays secret.", "test_a_published_poisson_sample_is_no_sample"),
    )

    max_batch_size: Annotated[
        int | None,
        Key("a larger sample is cut down to this many records, at random; needs privacy.dataset_size", COUNT, varies=True),
    ] = None

    def problems(self, dataset_size: int | None) -> Iterator[tuple[str, str, str]]:
        yield from Batched.problems(self, dataset_size)
        if self.max_batch_size is not None and dataset_size is None:
            yield "max_batch_size", "privacy.dataset_size with max_batch_size", "none"

    def resolve(self, spec: Spec, runs: Runs, neighbours: Neighbours) -> tuple[Mechanism, int]:
        rate = self.exact_rate(runs.dataset_size)
        if rate == 0:
            from dpcli.mechanisms.stated.pure_and_approx import Free

            return Free(), 1
        assert rate is not None
        steps = runs.steps_at(self.lower_rate(runs.dataset_size))
        if self.max_batch_size is None or runs.dataset_size is None:
            sampled, count = spec.poisson_run(rate, neighbours)
            steps *= count
        else:
            from dpcli.mechanisms.sampling.truncated import on_cut_sample

            sampled = on_cut_sample(spec, rate, neighbours, runs.dataset_size, self.max_batch_size)
        return sampled.unclaimed() if self.states_two_rates(runs.dataset_size) else sampled, steps


@dataclass(frozen=True, slots=True)
class FixedSize(Batched):
    """scheme = "fixed-size": each step draws a new sample of a fixed size without replacement, and all such samples are equally likely.

    rate is the size of the sample over the number of records. batch_size with privacy.dataset_size states it too. The draws stay secret. An
    epoch counts as 1 / rate steps; their total number is rounded up.

    Neighbours: replace-one only. Other adjacencies are refused, because a record's absence changes which other records are drawn. rate = 0
    is refused.

    Bounds: upper. No lower bound is claimed.

    Source: Balle, Barthe, Gaboardi 2018, arXiv:1807.01647; Wang, Balle, Kasiviswanathan 2019, arXiv:1808.00087.
    """

    displaces: ClassVar[bool] = True
    premises: ClassVar[Premises] = (
        ONCE,
        of_sampling(
            "Every sample of the stated size is as likely as any other.",
            "test_a_record_that_is_always_drawn_is_not_sampled",
            "train and federated",
        ),
        of_sampling("Which records were drawn stays secret.", "test_a_published_sample_of_fixed_size_is_no_sample"),
    )

    def resolve(self, spec: Spec, runs: Runs, neighbours: Neighbours) -> tuple[Mechanism, int]:
        from dpcli.mechanisms.sampling.poisson import fixed_size

        rate = self.exact_rate(runs.dataset_size)
        if not neighbours.replaces:
            raise InputError(
                f"fixed-size sampling needs adjacency = replace-one: under {neighbours.adjacency.value} a record's absence changes "
                "which others are drawn, and Poisson formulas do not cover that"
            )
        if rate == 0:
            raise InputError("fixed-size sampling needs a rate > 0")
        if neighbours.contributions > 1 and not spec.bounds_one_record:
            raise InputError(
                'fixed-size sampling of units that own several records needs noise_multiplier or stated_for = "record": records of '
                "other units take the place of those not drawn, and a bound per unit does not cover several units at once"
            )
        assert rate is not None
        sampled = fixed_size(spec.resolve(neighbours), float(rate), neighbours.records)
        return sampled, runs.steps_at(self.lower_rate(runs.dataset_size))


@dataclass(frozen=True, slots=True)
class OncePerEpoch(Batched):
    """scheme = "shuffle": in every pass each record takes part once, in a new random order. There is no amplification.

    Each pass is charged as one unsampled run, on the assumption that an absent record leaves its place in the order empty. A pass has
    floor(1 / rate) steps. Without a rate, every step counts as a pass.

    Neighbours: the relations that the mechanism allows. If the statement of the mechanism covers one release only, a unit's records are
    assumed to be in as many different batches.

    Bounds: upper. The step of a pass in which a record takes part is hidden, but no amplification by this is proven here.

    Source: none is needed, because the batches of one pass are disjoint, and only one contains the record (McSherry 2009, parallel
    composition).
    """

    premises: ClassVar[Premises] = (
        ONCE,
        of_sampling("An absent record leaves its place in the order empty.", "test_a_place_that_is_filled_up_moves_two_batches"),
    )

    rate: Annotated[float | None, Key("share of the records in one batch", RATE, varies=True)] = None

    @property
    def amplified(self) -> bool:
        return False

    def problems(self, dataset_size: int | None) -> Iterator[tuple[str, str, str]]:
        if self.rate is not None or self.batch_size is not None:
            yield from Batched.problems(self, dataset_size)

    def resolve(self, spec: Spec, runs: Runs, neighbours: Neighbours) -> tuple[Mechanism, int]:
        count = self._passes(runs)
        if not spec.contribution_form:
            # A stated sensitivity bounds one release, and a unit's records may be in as many different batches of a pass.
            count *= neighbours.contributions
        mechanism = spec.resolve(neighbours)
        return mechanism if self.attains_charge(runs, neighbours) else mechanism.unclaimed(), count

    def attains_charge(self, runs: Runs, neighbours: Neighbours) -> bool:
        """Return whether some record takes part as often as is charged, at known steps. Only then are lower bounds claimed.

        Schemes for which this is proved override it.
        """
        return False

    def _passes(self, runs: Runs) -> int:
        """Return the largest number of passes in which the stated steps or epochs can be made."""
        rate = self.exact_rate(runs.dataset_size)
        if runs.epochs is not None:
            return runs.steps_at(None)  # the epochs, rounded up
        assert runs.steps is not None
        if rate is None:
            return runs.steps
        # If a short last batch is dropped, a pass has floor(1/rate) steps. The shortest possible pass gives the most participations.
        return min(runs.steps, ceil(Fraction(runs.steps) / (1 / rate // 1)))


@dataclass(frozen=True, slots=True)
class Cyclic(OncePerEpoch):
    """scheme = "cyclic": in every pass each record takes part once, always at the same place. There is no amplification.

    Each pass is charged as one unsampled run, on the assumption that an absent record leaves its place in the order empty. A pass has
    floor(1 / rate) steps. Without a rate, every step counts as a pass.

    Neighbours: the relations that the mechanism allows. If the statement of the mechanism covers one release only, a unit's records are
    assumed to be in as many different batches.

    Bounds: exact for one record if passes consist of whole batches, because a record of the first batch takes part in every pass that
    begins. In other cases upper.

    Source: none is needed, because the batches of one pass are disjoint, and only one contains the record (McSherry 2009, parallel
    composition).
    """

    def attains_charge(self, runs: Runs, neighbours: Neighbours) -> bool:
        """Return True for one record if passes consist of whole batches. A record of the first batch takes part in every pass that begins.

        Several records need not be in the same batch.
        """
        rate = self.exact_rate(runs.dataset_size)
        complete = runs.epochs is not None or (rate is not None and (1 / rate).denominator == 1)
        return complete and neighbours.records == 1 and not self.states_two_rates(runs.dataset_size)


@dataclass(frozen=True, slots=True)
class BallsInBins(OncePerEpoch):
    """scheme = "balls-in-bins": in each pass every record takes part in `participations` steps, which are drawn uniformly for each record.

    A pass has floor(participations / rate) steps. `epochs` counts passes, and a pass that ends early counts as a whole one. The draws must
    be new in every pass, and must stay secret.

    Neighbours: all three adjacencies for Gaussian noise with noise_multiplier, and add-remove for any mechanism with one record per unit.
    Other cases are refused, because nothing is proven for them.

    Bounds: each pass is charged as a whole. Lower bounds hold if all passes are complete and the mechanism attains them. In other cases the
    bounds are upper bounds.

    Source: Chua et al. 2024, arXiv:2412.16802; Feldman & Shenfeld 2025, arXiv:2502.08202.
    """

    premises: ClassVar[Premises] = (
        ONCE,
        of_sampling(
            "The steps of each record are drawn independently, and anew in every pass.",
            "test_bins_of_one_size_are_no_bins",
            "train and federated",
        ),
        of_sampling("Which records were drawn stays secret.", "test_published_bins_are_no_bins"),
    )

    participations: Annotated[int, Key("steps of one pass in which each record takes part", COUNT, varies=True)] = 1

    @property
    def amplified(self) -> bool:
        return True

    def problems(self, dataset_size: int | None) -> Iterator[tuple[str, str, str]]:
        yield from Batched.problems(self, dataset_size)  # here a rate or a batch size is required

    def resolve(self, spec: Spec, runs: Runs, neighbours: Neighbours) -> tuple[Mechanism, int]:
        from dpcli.mechanisms.sampling.random_allocation import cost_of_pass

        rate = self.exact_rate(runs.dataset_size)
        assert rate is not None
        steps = int(self.participations / rate)  # rounded down, because a pass with fewer steps hides a record less and costs more
        passes = runs.steps_at(None) if runs.steps is None else ceil(Fraction(runs.steps, steps))
        mechanism, count = cost_of_pass(spec, steps, self.participations, neighbours)
        return mechanism if self.attains_charge(runs, neighbours) else mechanism.unclaimed(), count * passes

    def attains_charge(self, runs: Runs, neighbours: Neighbours) -> bool:
        """Return whether all passes are complete and have exactly as many steps as are charged."""
        rate = self.exact_rate(runs.dataset_size)
        assert rate is not None
        steps_of_pass = self.participations / rate
        passes = Fraction(repr(runs.epochs)) if runs.steps is None else Fraction(runs.steps, int(steps_of_pass))
        are_complete = steps_of_pass.denominator == passes.denominator == 1
        return are_complete and not self.states_two_rates(runs.dataset_size)


@dataclass(frozen=True, slots=True)
class WholeRun(Spec):
    """All steps of an entry, with the entry's sampling, as one mechanism. It is what one trial of a tuning entry runs."""

    spec: Spec
    sampling: Scheme | None
    runs: Runs

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        from dpcli.mechanisms.combined.composed import Composed

        if self.sampling is None:
            mechanism, count = self.spec.resolve(neighbours), self.runs.steps_at(None)
        else:
            mechanism, count = self.sampling.resolve(self.spec, self.runs, neighbours)
        return mechanism if count == 1 else Composed(((mechanism, count),))
