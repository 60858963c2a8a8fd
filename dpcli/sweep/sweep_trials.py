"""The trials of a private search. Their number and their settings are drawn at random and stay secret.

A *private search* runs a random number of training runs, the *trials*, and releases only the best one (private_search.py). The
repeat-and-select entry of the file accounts for it, by four assumptions:
- The number of trials is drawn from exactly the distribution of the entry, and stays secret.
- The trials are independent and have the same distribution. The setting of each is therefore drawn from one distribution, which does not
  depend on the data.
- Every trial is the mechanism that is accounted for.
- Only the best output is used or shown, by an order that is fixed beforehand.

`trials_of` checks them, as far as a file shows, for the plan (sweep_plan.py). `draw_settings` draws the trials, at the start of a search.

Source: Papernot & Steinke 2022, arXiv:2110.03620, Theorems 2 and 6.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from decimal import Context, Decimal, localcontext
from itertools import accumulate, count
from typing import TYPE_CHECKING, Any, NamedTuple

from dpcli.base.errors import InputError
from dpcli.file.pipeline.canonical import tables_of
from dpcli.file.toml.shown import first_names
from dpcli.mechanisms.choice.repeat_and_select import RepeatAndSelectSpec
from dpcli.mechanisms.choice.trial_numbers import BinomialTrials, NegativeBinomial, PoissonTrials

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Entry
    from dpcli.mechanisms.choice.trial_numbers import Trials
    from dpcli.train.plan.plan import TrainingPlan

# Both touch soundness: the drawn distribution must be the one that is accounted for.
DIGITS = 60  # decimal digits of the probabilities, so that their rounding error is far below any delta
# Number of bits of the uniform number. Its largest value is farther below 1 than the rounded sum of all probabilities, so that a draw ends.
BITS = 160
# Largest mean number of trials. The number drawn is never cut off, which would change its distribution. The limit affects time alone.
LARGEST_MEAN = 10_000.0


def trials_of(path: str, is_private: bool, plans: Sequence[TrainingPlan]) -> Trials | None:
    """Return the distribution of the number of trials if the sweep is a private search; None for public tuning.

    Raises InputError if the file does not account for this search, or accounts for a search although tuning is public.
    """
    entries = [entry for entry in plans[0].pipeline.mechanisms if isinstance(entry.spec, RepeatAndSelectSpec)]
    if not is_private and entries:
        raise InputError(
            f'{path}: sweep.tuning: expected "repeat-and-select", because every run would be charged for the search '
            f'"{entries[0].name}" of the file, found "public"'
        )
    if is_private and len(entries) != 1:
        raise InputError(
            f'{path}: sweep.tuning: expected one [[mechanism]] of type "repeat-and-select", which accounts for the search, found '
            f"{first_names(entry.name for entry in entries)}"
        )
    return _checked_trials(path, entries[0], plans) if is_private else None


def _checked_trials(path: str, entry: Entry, plans: Sequence[TrainingPlan]) -> Trials:
    """Return the trials of the entry. Raises InputError unless every trial is the mechanism that the entry names, on all of the data."""
    assert isinstance(entry.spec, RepeatAndSelectSpec)
    place = f'{path}: mechanism["{entry.name}"]'
    trained = {stage.entry.name for plan in plans for stage in plan.stages}
    if trained != {entry.spec.mechanism}:
        raise InputError(
            f"{place}.mechanism: expected the mechanism of the training, {first_names(sorted(trained))}, found {entry.spec.mechanism}"
        )
    if entry.steps != 1 or entry.epochs is not None or entry.sampling is not None or entry.partition is not None:
        raise InputError(f"{place}: expected one search on all of the data, found steps, epochs, sampling or a partition")
    if any(tables_of(plan.pipeline) != tables_of(plans[0].pipeline) for plan in plans):
        raise InputError(
            f"{path}: sweep: expected settings of [train] only, found settings that change a mechanism: all trials of a private "
            "search must be the mechanism from which its cost is computed"
        )
    trials = entry.spec.trials.distributed()
    if not trials.mean <= LARGEST_MEAN:
        raise InputError(
            f"{place}.trials: expected at most {LARGEST_MEAN:g} on average, found {trials.mean:g}: the search runs every trial"
        )
    return trials


def draw_count(trials: Trials, uniform: Decimal | None = None) -> int:
    """Draw the number of trials by inversion of a uniform number in [0, 1); None for one from the operating system."""
    with localcontext(Context(prec=DIGITS)):
        if uniform is None:
            uniform = Decimal(secrets.randbits(BITS)) / 2**BITS
        distribution = _DISTRIBUTIONS[type(trials)](trials)
        for number, cumulative in enumerate(accumulate(distribution.probabilities), distribution.least):
            if uniform < cumulative:
                return number
    raise AssertionError("the probabilities go on without end")


def draw_settings(trials: Trials, settings: int) -> list[int]:
    """Draw the number of trials, and for each trial the number of a setting, uniformly and independently."""
    return [secrets.randbelow(settings) for _ in range(draw_count(trials))]


class TrialNumbers(NamedTuple):
    """The distribution of the number of trials.

    Attributes:
        least: Smallest possible number.
        probabilities: Probability of that number, and of each larger number in order.
    """

    least: int
    probabilities: Iterator[Decimal]


def _negative_binomial(trials: Any) -> TrialNumbers:
    """Return the distribution of Definition 1 of the paper: P(k+1) / P(k) = (1-gamma) (k+eta) / (k+1) for k >= 1."""
    eta, gamma = Decimal(trials.eta), Decimal(trials.gamma)
    with localcontext(Context(prec=DIGITS + max(0, -eta.adjusted()))):  # gamma^-eta - 1 loses this number of digits
        start = (1 - gamma) * (eta / (gamma**-eta - 1) if eta else -1 / gamma.ln())
    return TrialNumbers(1, _by_ratios(start, 1, lambda k: (1 - gamma) * (k + eta) / (k + 1)))


def _poisson(trials: Any) -> TrialNumbers:
    """Return the Poisson distribution: P(k+1) / P(k) = mean / (k+1)."""
    mean = Decimal(trials.mean)
    return TrialNumbers(0, _by_ratios((-mean).exp(), 0, lambda k: mean / (k + 1)))


def _binomial(trials: Any) -> TrialNumbers:
    """Return the binomial distribution: P(k+1) / P(k) = p (most-k) / ((1-p) (k+1)) with p = mean / most."""
    most = trials.most
    with localcontext(Context(prec=DIGITS + len(str(most)))):  # the power loses this number of digits
        share = Decimal(trials.mean) / most
        start, odds = (1 - share) ** most, share / (1 - share)
    return TrialNumbers(0, _by_ratios(start, 0, lambda k: odds * (most - k) / (k + 1)))


def _by_ratios(probability: Decimal, least: int, ratio: Callable[[int], Decimal]) -> Iterator[Decimal]:
    """Yield probabilities, given the first one and the ratio of each to the one before it."""
    for k in count(least):
        yield probability
        probability *= ratio(k)


_DISTRIBUTIONS: dict[type, Callable[[Any], TrialNumbers]] = {
    NegativeBinomial: _negative_binomial,
    PoissonTrials: _poisson,
    BinomialTrials: _binomial,
}
