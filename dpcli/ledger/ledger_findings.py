"""Lint findings about a ledger, by the rules that can be checked from its entries, for `dpcli lint`.

Each function in RULES yields the findings of one kind, under the code of a rule (`dpcli explain DP404` explains one). Some of them no
single file shows: equal runs within an hour, which may be a retry that was charged twice; runs that disagree about the size of the dataset;
reservations that nobody ended. Nothing is changed, and a finding refuses no run. A *fingerprint* is a hash of the data, which reveals the
same data under a second name. *Blocks* are parts of a dataset with caps of their own, and the *window* of a run is the blocks that it
reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from dpcli.file.toml.findings import Diagnostic, Severity
from dpcli.ledger.chain import STAMP, canonical
from dpcli.ledger.charges.ledger_run import Run
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.state import OVERSPENT, UNGUARANTEED, LedgerState
from dpcli.ledger.stores.sqlite_file import network_file_system

# The limits are arbitrary, and affect warnings alone.
LARGE_EPSILON = 10.0  # caps above it are reported, because the guarantee then hardly limits an attack
HOUR = 3600.0  # seconds; equal runs within an hour are rather a retry than a regular job


class LedgerFinding(NamedTuple):
    """A finding of the rule `code` about the entry with the number `entry`, or about the ledger itself if the number is 0."""

    code: str
    message: str
    entry: int
    severity: Severity = "warning"


def findings(ledger: Ledger) -> tuple[Diagnostic, ...]:
    """Return every finding about one dataset, each at its entry. Raises LedgerError if the dataset cannot be read."""
    state = ledger.state()
    place = f"{ledger.store.place}#{ledger.dataset}"
    diagnostics = []
    for rule in RULES:
        for finding in rule(ledger, state):
            key = f"entry {finding.entry}" if finding.entry else "terms"
            diagnostics.append(Diagnostic(finding.code, finding.severity, finding.message, place, key))
    return tuple(diagnostics)


def _delta_for_size(ledger: Ledger, state: LedgerState) -> Iterator[LedgerFinding]:
    """Find a delta that is too large for the number of records, or that cannot be compared with it."""
    from dpcli.lint.delta import LARGE_DELTA_CODE, size_problem

    terms = state.open_terms()
    if terms.family is not None:
        return  # each window has its own size
    if terms.dataset_size is None:
        yield LedgerFinding("DP306", "opened without dataset_size: whether its delta is small enough cannot be checked", 1)
        return
    problem = size_problem(terms.delta, terms.dataset_size)
    if problem is not None:
        message, severity = problem
        yield LedgerFinding(LARGE_DELTA_CODE, message, 1, severity)


def _large_epsilon(ledger: Ledger, state: LedgerState) -> Iterator[LedgerFinding]:
    """Find a cap that hardly limits an attack, and a cap that guarantees nothing because it was raised."""
    if state.epsilon > LARGE_EPSILON:
        yield LedgerFinding("DP304", f"a cap of epsilon = {state.epsilon:g} gives almost no protection against attacks", 1)
    if state.guaranteed is None:
        yield LedgerFinding("DP304", UNGUARANTEED, state.head.seq)


def _repeated_runs(ledger: Ledger, state: LedgerState) -> Iterator[LedgerFinding]:
    """Find equal runs under two keys within an hour. Either a retry was charged twice, or a query was answered twice."""
    last: dict[str, Run] = {}  # the last of equal runs, by their canonical text
    for run in state.runs.values():
        if run.status == "void" or "corrects" in run.content:
            continue
        text = canonical({"pipeline": run.pipeline, "window": run.window})  # runs on different blocks are not equal
        before = last.get(text)
        last[text] = run
        if before is not None and _seconds(run) - _seconds(before) < HOUR:
            words = f'"{run.key}" repeats the run of "{before.key}" (entry {before.seq}) within an hour'
            advice = "retry a run under its first key, and reuse the answer of a repeated query"
            yield LedgerFinding("DP404", f"{words}: {advice}", run.seq)


def _seconds(run: Run) -> float:
    """Return the time at which a run was made or charged, in seconds since 1970; 0 if its entry states no time."""
    try:
        return datetime.strptime(str(run.content.get("made") or run.content.get("when")), STAMP).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return 0.0


def _different_sizes(ledger: Ledger, state: LedgerState) -> Iterator[LedgerFinding]:
    """Find runs that state different values of dataset_size. The sampling rate is batch_size / dataset_size, so one rate is wrong."""
    first: Run | None = None
    for run in state.runs.values():
        size = run.pipeline["privacy"].get("dataset_size")
        if size is not None and run.status != "void":
            first = first or run
            known = first.pipeline["privacy"]["dataset_size"]
            if size != known:
                words = f'"{run.key}" states dataset_size {size}, but "{first.key}" (entry {first.seq}) {known}: one sampling rate is wrong'
                yield LedgerFinding("DP005", f"{words}; dpcli budget init --dataset-size fixes it", run.seq)


def _cap_below_spending(ledger: Ledger, state: LedgerState) -> Iterator[LedgerFinding]:
    """Find a cap that was lowered below the spending."""
    if not state.fullest().fits({}):
        yield LedgerFinding("DP304", f"{OVERSPENT}: this does not reduce the spending", state.head.seq)


def _missing_fingerprint(ledger: Ledger, state: LedgerState) -> Iterator[LedgerFinding]:
    """Find a dataset without a fingerprint in a store with several datasets."""
    if state.open_terms().fingerprint is None and len(ledger.store.datasets()) > 1:
        words = "one of several datasets, opened without a fingerprint: the same data under another name would not be noticed"
        yield LedgerFinding("DP406", words, 1)


def _other_versions(ledger: Ledger, state: LedgerState) -> Iterator[LedgerFinding]:
    """Find runs that other versions of dpcli charged: this version may compute other costs."""
    from dpcli import __version__

    others = sorted({str(run.content.get("dpcli")) for run in state.runs.values()} - {__version__})
    if others:
        words = f"charged by dpcli {', '.join(others)}: dpcli budget verify computes their costs again"
        yield LedgerFinding("DP408", words, state.head.seq)


def _network_file_system(ledger: Ledger, state: LedgerState) -> Iterator[LedgerFinding]:
    """Find a file on a network file system."""
    kind = None if "://" in ledger.store.place else network_file_system(ledger.store.place)  # a database has a URL
    if kind is not None:
        words = f"on a network file system ({kind}), where locks do not exclude other machines"
        yield LedgerFinding("DP409", words, 0, "error")


def _expired_reservations(ledger: Ledger, state: LedgerState) -> Iterator[LedgerFinding]:
    """Find reservations that have expired. They count in full. The person who made a reservation should record how the run ended."""
    for run in state.runs.values():
        if run.expired(ledger.now()):
            words = f'the reservation "{run.key}" has expired and counts in full: commit it with a reason'
            yield LedgerFinding("DP403", words, run.seq)


RULES: tuple[Callable[[Ledger, LedgerState], Iterator[LedgerFinding]], ...] = (
    _delta_for_size,
    _large_epsilon,
    _repeated_runs,
    _different_sizes,
    _cap_below_spending,
    _missing_fingerprint,
    _other_versions,
    _network_file_system,
    _expired_reservations,
)
