"""Lint findings about a ledger, by the rules that can be checked from its entries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from dpcli.file.toml.findings import Diagnostic, Severity
from dpcli.ledger.chain import STAMP, canonical
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.state import LedgerState, Run
from dpcli.ledger.stores.sqlite_file import network_file_system

LARGE_EPSILON = 10.0
HOUR = 3600.0  # seconds


class LedgerFinding(NamedTuple):
    """A finding of the rule `code` about the entry with the number `entry`, or about the terms if the number is 0."""

    code: str
    message: str
    entry: int
    severity: Severity = "warning"


def findings(ledger: Ledger) -> tuple[Diagnostic, ...]:
    """Return every finding about one dataset, each at its entry. Raises LedgerError if the dataset cannot be read."""
    state = ledger.state()
    place = f"{ledger.store.place}#{ledger.dataset}"
    return tuple(
        Diagnostic(each.code, each.severity, each.message, place, f"entry {each.entry}" if each.entry else "terms")
        for rule in RULES
        for each in rule(ledger, state)
    )


def _delta(ledger: Ledger, state: LedgerState) -> Iterator[LedgerFinding]:
    from dpcli.lint.delta import CODE, size_problem

    terms = state.open_terms()
    if terms.family is not None:
        return  # each window has a size of its own
    if terms.dataset_size is None:
        yield LedgerFinding("DP306", "opened without dataset_size: nothing can say whether its delta is small enough", 1)
    elif (problem := size_problem(terms.delta, terms.dataset_size)) is not None:
        message, severity = problem
        yield LedgerFinding(CODE, message, 1, severity)


def _large_epsilon(ledger: Ledger, state: LedgerState) -> Iterator[LedgerFinding]:
    if state.epsilon > LARGE_EPSILON:
        yield LedgerFinding("DP304", f"a cap of epsilon = {state.epsilon:g} limits next to no attack", 1)
    if state.guaranteed is None:
        words = "no epsilon is guaranteed: the cap was raised, and nobody stated that no output had been seen before"
        yield LedgerFinding("DP304", words, state.head.seq)


def _same_run(ledger: Ledger, state: LedgerState) -> Iterator[LedgerFinding]:
    """Find equal runs under two keys within an hour. Either a retry was charged twice, or one question was answered twice."""
    last: dict[str, Run] = {}
    for run in state.runs.values():
        text = canonical({"pipeline": run.pipeline, "window": run.window})  # a question about other blocks is another question
        before = last.get(text)
        if run.status != "void":
            last[text] = run
            if before is not None and _seconds(run) - _seconds(before) < HOUR:
                words = f'"{run.key}" is the run of "{before.key}" (entry {before.seq}) again, within the hour'
                yield LedgerFinding("DP404", f"{words}: a retry keeps its key, a repeated question its answer", run.seq)


def _seconds(run: Run) -> float:
    try:
        return datetime.strptime(str(run.content.get("made") or run.content.get("when")), STAMP).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return 0.0


def _sizes(ledger: Ledger, state: LedgerState) -> Iterator[LedgerFinding]:
    """Find runs that state different values of dataset_size, as batch_size gives the sampling rate only with the true size."""
    first: Run | None = None
    for run in state.runs.values():
        size = run.pipeline["privacy"].get("dataset_size")
        if size is not None and run.status != "void":
            first = first or run
            known = first.pipeline["privacy"]["dataset_size"]
            if size != known:
                words = f'"{run.key}" states dataset_size {size}, "{first.key}" (entry {first.seq}) {known}: one of them has another rate'
                yield LedgerFinding("DP005", f"{words}; dpcli budget init --dataset-size settles it", run.seq)


def _overspent(ledger: Ledger, state: LedgerState) -> Iterator[LedgerFinding]:
    """Find a cap that was amended below the spending. This does not reduce the spending."""
    if not state.fullest().fits({}):
        words = "more is spent than the cap allows since it was amended: what is spent stays spent"
        yield LedgerFinding("DP304", words, state.head.seq)


def _unknown_data(ledger: Ledger, state: LedgerState) -> Iterator[LedgerFinding]:
    if state.open_terms().fingerprint is None and len(ledger.store.datasets()) > 1:
        words = "one of several datasets, opened without a fingerprint: the same data under another name would not be noticed"
        yield LedgerFinding("DP406", words, 1)


def _other_version(ledger: Ledger, state: LedgerState) -> Iterator[LedgerFinding]:
    from dpcli import __version__

    older = sorted({str(run.content.get("dpcli")) for run in state.runs.values()} - {__version__})
    if older:
        words = f"charged by dpcli {', '.join(older)}: dpcli budget verify computes their costs again"
        yield LedgerFinding("DP408", words, state.head.seq)


def _network(ledger: Ledger, state: LedgerState) -> Iterator[LedgerFinding]:
    kind = None if "://" in ledger.store.place else network_file_system(ledger.store.place)
    if kind is not None:
        words = f"on a network file system ({kind}), whose locks do not keep two machines apart"
        yield LedgerFinding("DP409", words, 0, "error")


def _forgotten(ledger: Ledger, state: LedgerState) -> Iterator[LedgerFinding]:
    """Find reservations that have expired. They count in full, and the person who made one should record how the run ended."""
    for run in state.runs.values():
        if run.expired(ledger.now()):
            words = f'the reservation "{run.key}" has expired and counts in full: commit it, with the reason'
            yield LedgerFinding("DP403", words, run.seq)


RULES: tuple[Callable[[Ledger, LedgerState], Iterator[LedgerFinding]], ...] = (
    _delta,
    _large_epsilon,
    _same_run,
    _sizes,
    _overspent,
    _unknown_data,
    _other_version,
    _network,
    _forgotten,
)
