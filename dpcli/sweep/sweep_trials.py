"""A private search: a secret random number of trials, each with a setting drawn at random, of which the best alone is kept.

Source: Papernot & Steinke 2022, arXiv:2110.03620, Theorems 2 and 6, as the file's repeat-and-select entry accounts for them. What they
need: the number of trials is drawn from exactly that distribution and stays secret; the trials are independent and equal in law, so the
setting of each is drawn from the same distribution, which does not depend on the data; every trial is the mechanism that is accounted for;
and nothing but the best output is used or shown, the order of outputs being fixed beforehand.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from decimal import Context, Decimal, localcontext
from itertools import accumulate, count
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import InputError
from dpcli.file.pipeline.canonical import tables_of
from dpcli.file.toml.shown import first_names
from dpcli.mechanisms.choice.repeat_and_select import NegativeBinomial, PoissonTrials, RepeatAndSelectSpec

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Entry
    from dpcli.mechanisms.choice.repeat_and_select import Trials
    from dpcli.train.plan.plan import TrainingPlan

DIGITS = 60  # of the probabilities: what rounding moves is far below any delta
BITS = 160  # of the uniform number: it stays farther below 1 than rounding takes the sum of all probabilities
MOST = 10_000.0  # trials on average: beyond it nobody waits, and none is cut off


def trials_of(path: str, private: bool, plans: Sequence[TrainingPlan]) -> Trials | None:
    """Return the distribution of the number of trials, None for public tuning.

    Raises InputError where the accounting would not be of this search.
    """
    entries = [entry for entry in plans[0].pipeline.mechanisms if isinstance(entry.spec, RepeatAndSelectSpec)]
    if not private and entries:
        raise InputError(
            f'{path}: sweep.tuning: expected "repeat-and-select" with the search "{entries[0].name}", which every run would be '
            'charged for, found "public"'
        )
    if private and len(entries) != 1:
        raise InputError(
            f'{path}: sweep.tuning: expected one [[mechanism]] of type "repeat-and-select", which accounts for the search, found '
            f"{first_names(entry.name for entry in entries)}"
        )
    return _honoured(path, entries[0], plans) if private else None


def _honoured(path: str, entry: Entry, plans: Sequence[TrainingPlan]) -> Trials:
    """Return the trials of the entry, where each is the one mechanism that the entry runs, on all of the data."""
    assert isinstance(entry.spec, RepeatAndSelectSpec)
    place, trained = f'{path}: mechanism["{entry.name}"]', {stage.entry.name for plan in plans for stage in plan.stages}
    if trained != {entry.spec.mechanism}:
        raise InputError(
            f"{place}.mechanism: expected what training performs, {first_names(sorted(trained))}, found {entry.spec.mechanism}"
        )
    if entry.steps != 1 or entry.epochs is not None or entry.sampling is not None or entry.partition is not None:
        raise InputError(f"{place}: expected one search on all of the data, found steps, epochs, sampling or a partition")
    if any(tables_of(plan.pipeline) != tables_of(plans[0].pipeline) for plan in plans):
        raise InputError(
            f"{path}: sweep: expected settings of [train] alone, found some that change a mechanism: the trials of a private "
            "search must be one and the same mechanism, which its cost is computed from"
        )
    trials = entry.spec.trials.distributed()
    if not mean(trials) <= MOST:
        raise InputError(f"{place}.trials: expected at most {MOST:g} on average, found {mean(trials):g}: every one of them is run")
    return trials


def mean(trials: Any) -> float:
    """Return the number of trials on average."""
    return float(trials.mean)


def draw(trials: Trials, uniform: Decimal | None = None) -> int:
    """Draw the number of trials, by inversion; from the operating system's entropy where `uniform` in [0, 1) is None."""
    with localcontext(Context(prec=DIGITS)):
        at = Decimal(secrets.randbits(BITS)) / 2**BITS if uniform is None else uniform
        first, masses = _MASSES[type(trials)](trials)
        return next(number for number, reached in zip(count(first), accumulate(masses), strict=False) if at < reached)


def candidates(trials: Trials, settings: int) -> list[int]:
    """Draw a setting for each trial, uniformly and independently."""
    return [secrets.randbelow(settings) for _ in range(draw(trials))]


Masses = tuple[int, Iterator[Decimal]]


def _negative_binomial(trials: Any) -> Masses:
    """Definition 1: P(k+1) / P(k) = (1-gamma) (k+eta) / (k+1) from k = 1 on."""
    eta, gamma = Decimal(trials.eta), Decimal(trials.gamma)
    with localcontext(Context(prec=DIGITS + max(0, -eta.adjusted()))):  # gamma^-eta - 1 loses as many
        start = (1 - gamma) * (eta / (gamma**-eta - 1) if eta else -1 / gamma.ln())
    return 1, _chain(start, 1, lambda k: (1 - gamma) * (k + eta) / (k + 1))


def _poisson(trials: Any) -> Masses:
    mean = Decimal(trials.mean)
    return 0, _chain((-mean).exp(), 0, lambda k: mean / (k + 1))


def _chain(mass: Decimal, first: int, ratio: Callable[[int], Decimal]) -> Iterator[Decimal]:
    for k in count(first):
        yield mass
        mass *= ratio(k)


_MASSES: dict[type, Callable[[Any], Masses]] = {NegativeBinomial: _negative_binomial, PoissonTrials: _poisson}
