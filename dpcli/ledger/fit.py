"""What would fit: one parameter of a run changed until the ledger takes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from dpcli.analysis.calibrate import parameter_key, substitute
from dpcli.errors import CannotCertify, InputError, NotRepresentable
from dpcli.ledger.amounts import read
from dpcli.ledger.state import LedgerState
from dpcli.pipeline.model import Entry, Pipeline
from dpcli.pipeline.section import contradictions
from dpcli.rounding import up

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

    Where a section says that something else is done, as [federated] may, it has to be changed too, and the words say so.
    """
    busiest = max(pipeline.mechanisms, key=lambda entry: (entry.steps if entry.epochs is None else 10**18, entry.name))
    return tuple(text for text in (_noise(pipeline, busiest, fits), _steps(pipeline, busiest, fits)) if text)


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

    found = next((value for value in _doubled(now) if fits(value)), None)
    if found is None:
        return ""
    low = found / 2.0
    for _ in range(12):
        middle = float(f"{0.5 * (low + found):.{DIGITS}g}")
        if not low < middle < found:
            break
        low, found = (low, middle) if fits(middle) else (middle, found)
    if _asked(pipeline, entry):
        return f"{up(found / now)} times the noise in {entry.name}, by a smaller epsilon, rho or weight, or a larger error"
    return f"{key} = {found:.10g} in {entry.name} (now {now:.10g}){_with_section(pipeline, entry, key, found)}"


def _doubled(now: float) -> Iterator[float]:
    yield from (float(f"{now * 2.0**i:.{DIGITS}g}") for i in range(1, DOUBLINGS))


def _steps(pipeline: Pipeline, entry: Entry, fits: Callable[[Pipeline], bool]) -> str:
    if entry.epochs is not None or entry.steps < 2 or _asked(pipeline, entry):
        return ""
    count = _most(lambda steps: fits(substitute(pipeline, ((entry.name, "steps"),), steps)), entry.steps)
    return f"{count:,} steps of {entry.name} (now {entry.steps:,}){_with_section(pipeline, entry, 'steps', count)}" if count else ""


def _asked(pipeline: Pipeline, entry: Entry) -> bool:
    """Whether it comes from a [[query]], which states neither its noise nor how often it runs."""
    return entry in pipeline.mechanisms[len(pipeline.mechanisms) - len(pipeline.queries) :]


def _with_section(pipeline: Pipeline, entry: Entry, key: str, value: float) -> str:
    """What else has to be changed for the file to be taken."""
    section = next((name for name, _ in contradictions(substitute(pipeline, ((entry.name, key),), value))), None)
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
