"""What would fit: one parameter of a run changed until the ledger takes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from dpcli.analysis.calibrate import parameter_key, substitute
from dpcli.base.errors import CannotCertify, InputError, NotRepresentable
from dpcli.base.rounding import up
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.section import contradictions
from dpcli.ledger.amounts import read
from dpcli.ledger.state import LedgerState

DIGITS = 4
DOUBLINGS = 14


def fitting(state: LedgerState, pipeline: Pipeline, delta: float) -> tuple[str, ...]:
    """Changes of one parameter each that would fit now, as "noise_multiplier = 1.913 in train (now 1.1)"; none in declared mode.

    The values are on the side that fits, to four significant digits.
    """
    if state.open_terms().mode == "declared":
        return ()
    return changes(pipeline, lambda changed: _fits(state, changed, delta))


def changes(pipeline: Pipeline, fits: Callable[[Pipeline], bool]) -> tuple[str, ...]:
    """Changes of one parameter each, in words, with which `fits` holds; it must go on holding with more noise, and with fewer steps.

    Where none does, the noise of all that adds some, as it is also for queries, which are priced together. Where a section says that
    something else is done, as [federated] may, it has to be changed too, and the words say so.
    """
    busiest = max(pipeline.mechanisms, key=lambda entry: (entry.steps if entry.epochs is None else 10**18, entry.name))
    if busiest in _asked(pipeline):
        return tuple(filter(None, (_noise_of_all(pipeline, _asked(pipeline), fits),)))
    found = tuple(filter(None, (_noise(pipeline, busiest, fits), _steps(pipeline, busiest, fits))))
    noisy = tuple(entry for entry in pipeline.mechanisms if parameter_key(entry, "noise") is not None)
    return found or tuple(filter(None, (_noise_of_all(pipeline, noisy, fits) if len(noisy) > 1 else "",)))


def _fits(state: LedgerState, pipeline: Pipeline, delta: float) -> bool:
    with suppress(InputError, CannotCertify, NotRepresentable):
        return state.fits(read(state.open_terms().the_filter.cost(pipeline, delta).amounts))
    return False


def _noise(pipeline: Pipeline, entry: Entry, fits_with: Callable[[Pipeline], bool]) -> str:
    key = parameter_key(entry, "noise")
    if key is None:
        return ""
    now = float(getattr(entry.spec, key))

    def fits(value: float) -> bool:
        return fits_with(substitute(pipeline, ((entry.name, key),), value))

    found = _least(now, fits)
    if found is None:
        return ""
    return (
        f"{key} = {found:.10g} in {entry.name} (now {now:.10g}){_with_section(substitute(pipeline, ((entry.name, key),), found))}"
    )


def _noise_of_all(pipeline: Pipeline, entries: Sequence[Entry], fits: Callable[[Pipeline], bool]) -> str:
    """The factor by which the noise of all of these would have to grow."""
    scaled = [entry for entry in entries if _noisier(entry, 1.0) is not None]
    times = _least(1.0, lambda factor: fits(_with_noise(pipeline, scaled, factor))) if scaled else None
    if times is None:
        return ""
    asked = _asked(pipeline)
    if entries != asked:
        where = "every mechanism" if len(entries) == len(pipeline.mechanisms) else " and ".join(entry.name for entry in entries)
        return f"{up(times)} times the noise in {where}{_with_section(_with_noise(pipeline, scaled, times))}"
    names = list(dict.fromkeys(_query_of(pipeline, entry) for entry in scaled))
    where = "every query" if len(scaled) == len(asked) and len(names) > 1 else " and ".join(names)
    return f"{up(times)} times the noise in {where}, by a smaller epsilon, rho or weight, or a larger error"


def _with_noise(pipeline: Pipeline, entries: Sequence[Entry], factor: float) -> Pipeline:
    noisier = {entry.name: entry if (found := _noisier(entry, factor)) is None else found for entry in entries}
    return replace(pipeline, mechanisms=tuple(noisier.get(entry.name, entry) for entry in pipeline.mechanisms))


def _noisier(entry: Entry, factor: float) -> Entry | None:
    """The entry with so many times its noise, where an epsilon falls as that grows; None where neither is a key of it."""
    spec: Any = entry.spec
    key = parameter_key(entry, "noise")
    if key is not None:
        return replace(entry, spec=replace(spec, **{key: getattr(spec, key) * factor}))
    if entry.spec.fixed_threshold or not isinstance(getattr(spec, "epsilon", None), float):
        return None
    return replace(entry, spec=replace(spec, epsilon=spec.epsilon / factor))


def _query_of(pipeline: Pipeline, entry: Entry) -> str:
    """The name of the query that an entry comes from: where it makes several, each has one more word behind a dot."""
    place = pipeline.queries[_asked(pipeline).index(entry)]
    return entry.name if pipeline.queries.count(place) == 1 else entry.name.rpartition(".")[0]


def _least(now: float, fits: Callable[[float], bool]) -> float | None:
    """About the smallest value above `now` that fits, to four digits and on the side that fits; None where none does."""
    found = next((value for value in _doubled(now) if fits(value)), None)
    if found is None:
        return None
    low = found / 2.0
    for _ in range(12):
        middle = float(f"{0.5 * (low + found):.{DIGITS}g}")
        if not low < middle < found:
            break
        low, found = (low, middle) if fits(middle) else (middle, found)
    return found


def _doubled(now: float) -> Iterator[float]:
    yield from (float(f"{now * 2.0**i:.{DIGITS}g}") for i in range(1, DOUBLINGS))


def _steps(pipeline: Pipeline, entry: Entry, fits: Callable[[Pipeline], bool]) -> str:
    if entry.epochs is not None or entry.steps < 2:
        return ""
    count = _most(lambda steps: fits(substitute(pipeline, ((entry.name, "steps"),), steps)), entry.steps)
    if not count:
        return ""
    fewer = substitute(pipeline, ((entry.name, "steps"),), count)
    return f"{count:,} steps of {entry.name} (now {entry.steps:,}){_with_section(fewer)}"


def _asked(pipeline: Pipeline) -> tuple[Entry, ...]:
    """What comes from a [[query]], which states neither its noise nor how often it runs."""
    return pipeline.mechanisms[len(pipeline.mechanisms) - len(pipeline.queries) :]


def _with_section(changed: Pipeline) -> str:
    """What else has to be changed for the file to be taken."""
    section = next((name for name, _ in contradictions(changed)), None)
    return f", with [{section}] changed to match" if section else ""


def _most(fits: Callable[[int], bool], above: int) -> int:
    """About the largest whole number below `above` that fits, to three digits and on the side that fits; 0 where 1 does not."""
    if not fits(1):
        return 0
    low, high = 1, above
    while high - low > max(1, low // 1000):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
