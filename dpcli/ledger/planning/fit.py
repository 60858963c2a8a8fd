"""Proposals for a run that does not fit in the ledger. Each proposal is the smallest change of one parameter with which the run fits.

A run fits if its *cost*, in the currency of the ledger's *filter* (the theorem that adds up runs, dpcli/ledger/filters/filter.py), is at
most what is left of the cap. The message of a denial (denial.py), a quote (quote.py) and a plan (plan_changes.py) show the proposals:
"would fit: noise_multiplier = 1.913 in train (now 1.1); or 810 steps of train (now 1,000)". They are found by bisection over changed
pipelines, each priced as the ledger would price it. A *pipeline* is the content of a file, an *entry* is a [[mechanism]] table of it, and a
*query* is a [[query]] table, which becomes one or more entries. A proposal is "" if no value was found. A proposed value is rounded to the
side on which the run fits. No charge depends on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from dpcli.analysis.solved_keys import parameter_key, substitute
from dpcli.base.errors import CannotCertify, InputError, NotRepresentable
from dpcli.base.rounding import up
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.section import contradictions
from dpcli.ledger.amounts import read
from dpcli.ledger.state import LedgerState

# Limits of the search. They are arbitrary, and affect only the proposals and the time, because each trial prices a pipeline.
DIGITS = 4  # significant digits of a proposed value
DOUBLINGS = 14  # the search for more noise doubles the current noise fewer times than this
BISECTIONS = 12  # largest number of halvings of the last interval of this search


def changes_that_fit_now(state: LedgerState, pipeline: Pipeline, delta: float) -> tuple[str, ...]:
    """Return proposals for a run, each of which makes it fit, for example "noise_multiplier = 1.913 in train (now 1.1)".

    The values have four significant digits, rounded so that the run fits. In declared mode there are no proposals.
    """
    if state.open_terms().mode == "declared":
        return ()
    return fitting_changes(pipeline, lambda changed: _fits(state, changed, delta))


def fitting_changes(pipeline: Pipeline, fits: Callable[[Pipeline], bool]) -> tuple[str, ...]:
    """Return changes of the pipeline in words, each of which makes it fit.

    A change concerns the noise or the steps of the mechanism that runs most often. If no such change is enough, or if this mechanism is a
    query, the proposal is a factor for the noise of all mechanisms or queries. If a change contradicts a section, such as [federated], the
    words add that the section has to be changed to match.

    Args:
        fits: Function that returns whether a pipeline fits. If a pipeline fits, it must also fit with more noise and with fewer steps.
    """
    busiest = max(pipeline.mechanisms, key=_by_runs)
    queries = _query_entries(pipeline)
    if busiest in queries:
        return tuple(filter(None, [_noise_change_of_all(pipeline, queries, fits)]))
    single = tuple(filter(None, [_noise_change(pipeline, busiest, fits), _steps_change(pipeline, busiest, fits)]))
    noisy = tuple(entry for entry in pipeline.mechanisms if parameter_key(entry, "noise") is not None)
    if single or len(noisy) < 2:
        return single
    return tuple(filter(None, [_noise_change_of_all(pipeline, noisy, fits)]))


def _by_runs(entry: Entry) -> tuple[float, str]:
    """Return a sorting key by the number of runs, and by name among equals.

    An entry that states epochs counts as the one that runs most often.
    """
    return (entry.steps if entry.epochs is None else math.inf, entry.name)


def _fits(state: LedgerState, pipeline: Pipeline, delta: float) -> bool:
    """Return whether a run fits in a state. A run without a cost does not fit."""
    with suppress(InputError, CannotCertify, NotRepresentable):
        return state.fits(read(state.open_terms().the_filter.cost(pipeline, delta).amounts))
    return False


def _noise_change(pipeline: Pipeline, entry: Entry, fits: Callable[[Pipeline], bool]) -> str:
    """Return the proposal for more noise in one entry; "" if the entry has no key for its noise or no value is enough."""
    key = parameter_key(entry, "noise")  # the key that states the noise, such as noise_multiplier
    if key is None:
        return ""
    now = float(getattr(entry.spec, key))

    def with_noise(value: float) -> Pipeline:
        return substitute(pipeline, ((entry.name, key),), value)

    value = _least_value(now, lambda value: fits(with_noise(value)))
    if value is None:
        return ""
    return f"{key} = {value:.10g} in {entry.name} (now {now:.10g}){_section_words(with_noise(value))}"


def _noise_change_of_all(pipeline: Pipeline, entries: Sequence[Entry], fits: Callable[[Pipeline], bool]) -> str:
    """Return the proposal to multiply the noise of all these entries by one factor; "" if no factor is enough.

    A query that has a mechanism with a fixed threshold keeps its noise, because more noise may cost more there. No key of the file changes
    the noise of its other mechanisms alone.

    Args:
        entries: The entries of all queries, or mechanisms that no query made.
    """
    queries = _query_entries(pipeline)
    fixed = {_query_of(pipeline, entry) for entry in queries if entry.spec.fixed_threshold}
    scaled = [
        entry
        for entry in entries
        if _noisier(entry, 1.0) is not None and not (entry in queries and _query_of(pipeline, entry) in fixed)
    ]
    factor = _least_value(1.0, lambda factor: fits(_with_noise(pipeline, scaled, factor))) if scaled else None
    if factor is None:
        return ""
    if entries != queries:
        all_named = " and ".join(entry.name for entry in entries)
        subject = "every mechanism" if len(entries) == len(pipeline.mechanisms) else all_named
        return f"{up(factor)} times the noise in {subject}{_section_words(_with_noise(pipeline, scaled, factor))}"
    # A [[query]] table states an epsilon, a rho, a weight or an error in place of its noise.
    names = list(dict.fromkeys(_query_of(pipeline, entry) for entry in scaled))
    subject = "every query" if len(scaled) == len(queries) and len(names) > 1 else " and ".join(names)
    return f"{up(factor)} times the noise in {subject}, by a smaller epsilon, rho or weight, or a larger error"


def _with_noise(pipeline: Pipeline, entries: Sequence[Entry], factor: float) -> Pipeline:
    noisier = {entry.name: _noisier(entry, factor) or entry for entry in entries}
    return replace(pipeline, mechanisms=tuple(noisier.get(entry.name, entry) for entry in pipeline.mechanisms))


def _noisier(entry: Entry, factor: float) -> Entry | None:
    """Return the entry with `factor` times its noise; None if no key of the entry determines its noise.

    If the entry states an epsilon in place of its noise, epsilon is divided by the factor.
    """
    spec: Any = entry.spec
    key = parameter_key(entry, "noise")
    if key is not None:
        return replace(entry, spec=replace(spec, **{key: getattr(spec, key) * factor}))
    if entry.spec.fixed_threshold or not isinstance(getattr(spec, "epsilon", None), float):
        return None
    return replace(entry, spec=replace(spec, epsilon=spec.epsilon / factor))


def _query_of(pipeline: Pipeline, entry: Entry) -> str:
    """Return the name of the query of an entry. If a query has several entries, their names are this name, a dot and one more word."""
    place = pipeline.queries[_query_entries(pipeline).index(entry)]  # `queries` has the place of the [[query]] table of each entry
    return entry.name if pipeline.queries.count(place) == 1 else entry.name.rpartition(".")[0]


def _least_value(now: float, fits: Callable[[float], bool]) -> float | None:
    """Return the smallest value above `now` that fits, rounded up to `DIGITS` digits; None if none of the doubled values fits."""
    doubled = (float(f"{now * 2.0**power:.{DIGITS}g}") for power in range(1, DOUBLINGS))
    high = next(filter(fits, doubled), None)
    if high is None:
        return None
    low = high / 2.0
    for _ in range(BISECTIONS):
        middle = float(f"{0.5 * (low + high):.{DIGITS}g}")
        if not low < middle < high:
            break
        if fits(middle):
            high = middle
        else:
            low = middle
    return high


def _steps_change(pipeline: Pipeline, entry: Entry, fits: Callable[[Pipeline], bool]) -> str:
    """Return the proposal for fewer steps of one entry; "" if the entry states epochs or no number of steps is enough."""
    if entry.epochs is not None or entry.steps < 2:
        return ""
    count = _most_steps(lambda steps: fits(substitute(pipeline, ((entry.name, "steps"),), steps)), entry.steps)
    if not count:
        return ""
    fewer = substitute(pipeline, ((entry.name, "steps"),), count)
    return f"{count:,} steps of {entry.name} (now {entry.steps:,}){_section_words(fewer)}"


def _query_entries(pipeline: Pipeline) -> tuple[Entry, ...]:
    """Return the entries of [[query]] tables. They come last in a pipeline, and state neither their noise nor their number of runs."""
    return pipeline.mechanisms[len(pipeline.mechanisms) - len(pipeline.queries) :]


def _section_words(changed: Pipeline) -> str:
    """Return, in words, the section of the file that a change contradicts, so that it has to be changed too; "" if there is none."""
    section = next((name for name, _ in contradictions(changed)), None)
    return f", with [{section}] changed to match" if section else ""


def _most_steps(fits: Callable[[int], bool], above: int) -> int:
    """Return the largest whole number below `above` that fits, rounded down to about three digits; 0 if 1 does not fit."""
    if not fits(1):
        return 0
    low, high = 1, above
    while high - low > max(1, low // 1000):
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low
