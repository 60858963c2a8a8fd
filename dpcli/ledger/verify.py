"""Verification of a complete ledger: its store, the definitions that guard the rows, the chain, every entry, every cost, and an anchor.

`dpcli budget verify` is for an auditor who trusts neither the people who charge nor the place where the ledger lies. A *problem* is a fault
by which the ledger states less than was spent, or allows more than its epsilon (`verify` lists them). An *anchor* is the number and hash of
an entry that someone keeps elsewhere: a ledger that was restored from an older backup does not contain it. The *definitions* are the
tables, triggers and SQL functions that guard the entries. A *checkpoint* stores the sums of the entries up to one of them. The *terms* are
the unit, adjacency, delta and filter that were fixed at the opening. A *correction* charges what an earlier price of a run lacks.

The entries are read twice, one page at a time. The first pass checks the chain and applies the entries. The second pass computes every cost
again, under the terms of the ledger even if an entry states other terms: `pipeline_from` makes a pipeline of the tables in an entry, and
`restate` changes its terms. It can take hours, so a broken chain is reported before it begins. Memory grows with the number of problems,
but not with the number of entries.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import CannotCertify, InputError, LedgerError, NotRepresentable
from dpcli.file.pipeline.canonical import pipeline_from, tables_of
from dpcli.ledger import amounts
from dpcli.ledger.chain import Head, LedgerEntry, digest, single_entry
from dpcli.ledger.checkpoint import agrees_with, usable_content
from dpcli.ledger.entry_log import Receipt
from dpcli.ledger.filters.declared_set import compose
from dpcli.ledger.filters.filter import label
from dpcli.ledger.governance.proposals import Proposal, proposal_of
from dpcli.ledger.grammar import visible_text
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.state import LedgerState
from dpcli.ledger.stores.store import Store
from dpcli.ledger.terms import LedgerTerms

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline


ANCHOR = "dpcli/anchor/v1"  # value of "schema" in an anchor file
CACHED_COSTS = 1_000  # number of different runs whose costs are cached; it affects speed and memory alone
# Largest numbers of characters of a version of dpcli, of the message of an error, and of a fault in a finding. Whoever writes an entry
# chooses its texts, and an entry that acknowledges the finding has to hold them.
LONGEST_VERSION, LONGEST_ERROR, LONGEST_PROBLEM = 40, 300, 1_000
NAMED_FAULTS = 3  # faults of the store that one message names


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of a verification.

    Attributes:
        entries: Number of checked entries.
        costs: Number of costs that were computed again.
        problems: Faults by which the ledger understates the spending, without those that were acknowledged.
        acknowledged: The faults of this kind that an entry acknowledges word for word, each with the number of that entry.
        notes: Other faults.
    """

    entries: int
    costs: int
    head: Head
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()
    acknowledged: tuple[tuple[str, int], ...] = ()


def verify(ledger: Ledger, anchor: Mapping[str, Any] | None = None, progress: Callable[[int, int], None] | None = None) -> Verified:
    """Check the store, its definitions, the chain, every entry and every cost.

    The result lists these as problems:

    * a cost that this version computes as larger than the entry states, or cannot compute;
    * a run that states other terms than the ledger's, or was charged on other blocks than it states;
    * a cap that is larger than its epsilon allows, or declared runs that exceed the cap.

    Entries cannot be changed, so the remedy is to amend the cap, or to acknowledge the problem with a reason (`acknowledge`).

    Args:
        anchor: The content of an anchor file, which the chain must contain; None if there is no anchor.
        progress: Function that is called before each cost is computed, with the number of computed costs and the number of charges.

    Raises:
        LedgerError: The store is damaged, its definitions were changed, the chain is broken, an entry cannot be in a sound ledger, or the
            chain no longer contains the anchor. Only the first such fault is reported.
    """
    damaged = ledger.store.check(ledger.dataset)
    if damaged:
        raise LedgerError(f"{ledger.store.place}: the database is damaged: {'; '.join(damaged[:NAMED_FAULTS])}")
    state = replay_all(ledger, anchor)
    require_unchanged_definitions(ledger.store, state)
    checks = EntryChecks(state.open_terms(), lambda key: charge_under(ledger, key))
    for entry in ledger.reread(state.head):
        if progress is not None and "cost" in entry.content:  # a charge
            progress(checks.computed, state.charges)
        checks.check(entry)
    still_open, acknowledged = [], []
    # An entry that acknowledges a problem states its text without invisible characters, as the grammar of entries requires.
    for problem in (*checks.cap_problems, *checks.charge_problems):
        answer = checks.answers.get(visible_text(problem))
        if answer is None:
            still_open.append(problem)
        else:
            acknowledged.append((problem, answer))
    notes = (*checks.notes, *_notes_on_store(ledger))
    return Verified(state.head.seq, checks.computed, state.head, tuple(still_open), notes, tuple(acknowledged))


def charge_under(ledger: Ledger, key: str) -> LedgerEntry:
    """Return the entry that charged a run. Its own hash is checked, but not its link to the entry before."""
    entries = (single_entry(row, ledger.dataset) for row in ledger.store.rows_of_key(ledger.dataset, key))
    return next(entry for entry in entries if "cost" in entry.content)


class EntryChecks:
    """The checks of a ledger's entries, which are made one after the other in their order.

    Args:
        terms: The terms of the ledger.
        charge_under: Function that returns the entry which charged the run with a key.

    Attributes:
        cap_problems: Problems of caps and of declared runs.
        charge_problems: Problems of charges.
        answers: The number of the entry that acknowledges or corrects an earlier problem, by the text of the problem.
        computed: Number of costs that were computed again.
    """

    def __init__(self, terms: LedgerTerms, charge_under: Callable[[str], LedgerEntry]) -> None:
        self.prices, self._charge_under = Prices(terms), charge_under
        self.cap_problems = list(declared_set_problems(terms)) if terms.mode == "declared" else []
        self.charge_problems: list[str] = []
        self.notes: list[str] = []
        self.answers: dict[str, int] = {}
        self.computed = 0
        self._proposals: dict[int, Proposal] = {}
        self._problem_texts = set(map(visible_text, self.cap_problems))

    def check(self, entry: LedgerEntry) -> None:
        """Check the approval, the answer, the caps and the cost that an entry contains."""
        terms, content = self.prices.terms, entry.content
        if entry.kind == "propose":
            self._proposals[entry.row.seq] = proposal_of(entry)
        elif terms.two_person and "approval" in content:
            self.notes += _lookalike_approver(self._proposals[content["proposal"]], entry)
        if entry.kind == "acknowledge" and content["finding"] in self._problem_texts:  # an entry answers only earlier problems
            self.answers[str(content["finding"])] = entry.row.seq
        if "caps" in content and terms.mode != "declared":  # declared caps are numbers of runs, which `LedgerState.apply` checks
            self._add(self.cap_problems, _excess_of_caps(terms, entry))
        if "cost" in content:
            self._check_charge(entry)

    def _add(self, problems: list[str], more: Iterable[str]) -> bool:
        """Add problems to a list, so that later entries can acknowledge them. Return whether there were any."""
        texts = list(more)
        problems += texts
        self._problem_texts.update(map(visible_text, texts))
        return bool(texts)

    def _check_charge(self, entry: LedgerEntry) -> None:
        """Check the price of a charge and, if it is a correction, whether it answers the problems of the charges that it corrects."""
        corrected = list(self._corrected(entry))
        self.computed += 1
        if self._add(self.charge_problems, self.prices.problems_of(entry, corrected)):
            return
        # A charge that had a problem when it was made may have none together with its later corrections, the last of which is `entry`.
        for number, other in enumerate(corrected):
            later, earlier = (entry, *corrected[:number]), corrected[number + 1 :]
            problems = list(self.prices.problems_of(other, earlier))
            if problems and not list(self.prices.problems_of(other, (*later, *earlier))):
                self.answers |= dict.fromkeys(map(visible_text, problems), entry.row.seq)

    def _corrected(self, entry: LedgerEntry) -> Iterator[LedgerEntry]:
        """Yield the charge that an entry corrects, then the charge that this one corrects, and so on."""
        while "corrects" in entry.content:
            entry = self._charge_under(entry.content["corrects"])
            yield entry


def acknowledge(
    ledger: Ledger,
    finding: str,
    why: str,
    progress: Callable[[int, int], None] | None = None,
    expires: str | None = None,
) -> Receipt:
    """Record the answer to a finding, after a verification that has this finding, word for word. In a two-person ledger, propose it.

    Raises:
        InputError: The verification has no such finding that is not acknowledged, or the reason is missing.
        LedgerError: The verification fails (`verify`), the dataset has moved, or the entry cannot be written.
    """
    ledger.state().refuse_moved()
    result = verify(ledger, progress=progress)
    text = visible_text(finding.strip())
    if text not in map(visible_text, result.problems):
        answered = next((seq for problem, seq in result.acknowledged if visible_text(problem) == text), None)
        if answered is not None:
            raise InputError(f"FINDING: expected a finding without an answer, found one that entry {answered} acknowledges")
        raise InputError(
            f"FINDING: expected a line of dpcli budget verify, word for word, found {finding[:60]!a}; open findings: "
            f"{len(result.problems)}{'' if not result.problems else ', the first: ' + visible_text(result.problems[0])[:LONGEST_ERROR]}"
        )
    return ledger.acknowledge(text, why, expires)


def require_unchanged_definitions(store: Store, state: LedgerState) -> None:
    """Check that the definitions that guard the entries are those that the chain states. Raises LedgerError if not.

    A copy that is not open yet is not checked, because its chain still states the definitions at its origin.
    """
    if not state.awaits_opening and digest(store.schema()) != state.schema:
        hint = " (if a later version of dpcli made them, dpcli budget upgrade records it)" if store.version > state.version else ""
        raise LedgerError(f"{store.place}: the definitions that guard the entries were changed since the ledger was opened{hint}")


def replay_all(ledger: Ledger, anchor: Mapping[str, Any] | None) -> LedgerState:
    """Return the state after all entries. They are read from the first one even if there is a checkpoint.

    Raises LedgerError if the chain is broken, contradicts the totals of the checkpoint, or no longer contains the anchor.
    """
    state, checkpoint = LedgerState(ledger.dataset, hides=ledger.store.hides), ledger.store.checkpoint(ledger.dataset)
    content = usable_content(checkpoint, ledger.dataset)
    for _, state in ledger.replay():
        if content is not None and state.head.seq == content.get("seq") and not agrees_with(content, state):
            raise LedgerError(
                f'{ledger.store.place}: dataset "{ledger.dataset}", entry {state.head.seq}: the totals in its checkpoint are not the sums '
                "of the entries: the ledger was changed by hand or by another program"
            )
    state.open_terms()
    if content is not None and not 1 <= int(content["seq"]) <= state.head.seq:
        raise LedgerError(
            f'{ledger.store.place}: dataset "{ledger.dataset}": ends at entry {state.head.seq}, and has a checkpoint of entry '
            f"{content['seq']}: entries were lost"
        )
    if anchor is not None:
        refuse_lost(ledger, state.head, anchor)
    return state


def anchor_of(ledger: Ledger) -> dict[str, Any]:
    """Return the head of the chain as the content of an anchor file.

    An anchor that is stored outside the ledger reveals a restored backup: the backup does not contain a head that was written later.

    Raises LedgerError if the dataset has moved, or its ledger cannot be read.
    """
    state = ledger.state()
    state.refuse_moved()
    return {"schema": ANCHOR, "dataset": ledger.dataset, "seq": state.head.seq, "hash": state.head.hash, "when": ledger.now()}


def read_anchor(path: str) -> dict[str, Any]:
    """Return the anchor in a file. Raises InputError if the file does not exist or is not an anchor."""
    from dpcli.file.toml.limits import read_bytes

    data = read_bytes(path)
    wrong_form = InputError(f"--anchor {path}: not a file that dpcli budget anchor -f json wrote")
    try:
        anchor = json.loads(data)
        types = [type(anchor[name]) for name in ("seq", "hash", "dataset")]
        if anchor["schema"] != ANCHOR or types != [int, str, str]:
            raise wrong_form
    except (ValueError, KeyError, TypeError, RecursionError):
        raise wrong_form from None
    return dict(anchor)


def refuse_lost(ledger: Ledger, head: Head, anchor: Mapping[str, Any]) -> None:
    """Check that the chain contains the anchored entry. Only this entry is read, however long the chain is.

    Raises:
        LedgerError: The chain does not contain the entry: a backup was restored, or the history was replaced.
        InputError: The anchor is of another dataset.
    """
    place, seq = f'{ledger.store.place}: dataset "{ledger.dataset}"', anchor["seq"]
    if anchor["dataset"] != ledger.dataset:
        raise InputError(f"{place}: expected an anchor of this dataset, found one of {anchor['dataset']!r}")
    if head.seq < seq:
        raise LedgerError(
            f"{place}: ends at entry {head.seq}, but the anchor is of entry {seq}: an old backup was restored (DP405)"
        )
    rows = ledger.store.after(ledger.dataset, seq - 1, 1) if seq >= 1 else ()
    if [(row.seq, digest(row.body)) for row in rows] != [(seq, anchor["hash"])]:
        raise LedgerError(f"{place}: entry {seq} is not the entry of the anchor: the history was replaced (DP405)")


def _excess_of_caps(terms: LedgerTerms, entry: LedgerEntry) -> Iterator[str]:
    """Yield a problem for each cap of an entry that exceeds the cap that this version derives from the entry's epsilon.

    The caps are in the currency of the ledger's filter.
    """
    epsilon = float(entry.content.get("epsilon", terms.epsilon))  # an opening entry has its epsilon in the terms
    try:
        sound = amounts.read(terms.caps(epsilon))
    except InputError as error:  # this epsilon leaves no budget to spend
        yield f"entry {entry.row.seq}: no cap can be derived from epsilon {epsilon!r}: {error}"
        return
    for name, value in amounts.read(entry.content["caps"]).items():
        if name not in sound or value > sound[name] * amounts.SLACK:  # the slack is for the last digits of another version
            cap = f"entry {entry.row.seq}: a cap of {value:.10g} of {name} for epsilon {epsilon!r}"
            yield f"{cap}, this version finds {sound.get(name, Decimal(0)):.10g} (DP408)"


def _lookalike_approver(proposal: Proposal, entry: LedgerEntry) -> Iterator[str]:
    """Yield a note if the approver's name looks like the proposer's. In a ledger file anyone can sign with any name."""
    who = str(entry.content.get("who"))
    if proposal.made_by(who):
        yield f"entry {entry.row.seq}: {who} approved what {proposal.who} proposed, and the two names look alike"


def _notes_on_store(ledger: Ledger) -> Iterator[str]:
    """Yield a note on definitions of an earlier version, which may have accepted invalid entries, and on an unusable checkpoint."""
    outdated = ledger.store.outdated
    if outdated:
        yield f"{outdated}: dpcli budget upgrade renews them"
    checkpoint = ledger.store.checkpoint(ledger.dataset)
    if checkpoint is not None and usable_content(checkpoint, ledger.dataset) is None:
        yield "the checkpoint is damaged or of a later version, and is not used: all entries are read instead"


@dataclass(frozen=True, slots=True)
class Restated:
    """A run whose pipeline is restated under the ledger's terms.

    Attributes:
        other_terms: The terms of the run that differ from the terms of the ledger, in words.
        is_lower_bound: Whether the cost of the restated run is only a lower bound, because the number of records of a unit is unknown.
    """

    pipeline: Pipeline
    other_terms: tuple[str, ...]
    is_lower_bound: bool


def restate(terms: LedgerTerms, pipeline: Pipeline) -> Restated:
    """Return the run as the ledger must charge it, with its mechanisms under the ledger's unit, adjacency and dataset_size.

    The unit "example" is one record. If the ledger has another unit, and the pipeline does not bound the records of a unit, one record is
    assumed. If the pipeline states another unit than such a ledger, the cost is only a lower bound.
    """
    from dpcli.mechanisms.neighbours import Adjacency

    stated = pipeline.privacy
    has_two_sizes = stated.dataset_size is not None and terms.dataset_size is not None
    size = terms.dataset_size if has_two_sizes else stated.dataset_size  # a run that states no size is priced without one
    of_run = {"unit": stated.unit, "adjacency": stated.adjacency.value, "dataset_size": stated.dataset_size}
    of_ledger = {"unit": terms.unit, "adjacency": terms.adjacency, "dataset_size": size}
    other_terms = tuple(
        f"{name} {of_run[name]} instead of {of_ledger[name]}" for name in of_ledger if of_run[name] != of_ledger[name]
    )
    is_lower_bound = stated.unit != terms.unit and terms.unit != "example"
    records = None if terms.unit == "example" else stated.max_contributions or 1
    privacy = replace(stated, unit=terms.unit, adjacency=Adjacency(terms.adjacency), dataset_size=size, max_contributions=records)
    return Restated(replace(pipeline, privacy=privacy), other_terms, is_lower_bound)


class Prices:
    """The costs of a ledger's charges, computed again.

    The cost of equal runs is computed once, because most runs of a regular job are equal.
    """

    def __init__(self, terms: LedgerTerms) -> None:
        self.terms = terms
        self._cache: dict[tuple[str, float], Mapping[str, Decimal]] = {}  # by the text of the pipeline and the delta

    def problems_of(self, entry: LedgerEntry, further: Sequence[LedgerEntry] = ()) -> Iterator[str]:
        """Yield a problem if the charge is under other terms than the ledger's, or is below the cost that this version computes.

        A charge whose cost cannot be computed is a problem as well.

        Args:
            further: Other charges of the same run, whose costs are added to the cost of `entry`: those that it corrects, or that correct
            it.
        """
        place = f'entry {entry.row.seq} ("{entry.key}", dpcli {str(entry.content.get("dpcli"))[:LONGEST_VERSION]})'
        try:
            problem = " and ".join(_problems_of_charge(self, entry, further))
        except Exception as error:  # a forged run can cause any error
            problem = f"its cost cannot be computed again: {str(error)[:LONGEST_ERROR] or type(error).__name__}"
        if problem:
            yield f"{place}: {problem[:LONGEST_PROBLEM]}"

    def cost_of(self, pipeline: Pipeline, delta: float) -> Mapping[str, Decimal]:
        """Return the cost of a run by amount, from the cache if it is known. Raises as `LedgerTerms.price`. Errors are not cached."""
        if self.terms.mode != "declared":  # in declared mode the window is a part of the run's identity
            pipeline = replace(pipeline, privacy=replace(pipeline.privacy, window=None))  # the window does not change the cost
        key = (json.dumps(tables_of(pipeline), sort_keys=True), delta)
        if key not in self._cache:
            if len(self._cache) >= CACHED_COSTS:
                self._cache.clear()
            self._cache[key] = amounts.read(self.terms.price(pipeline, delta).amounts)
        return self._cache[key]


def declared_set_problems(terms: LedgerTerms) -> Iterator[str]:
    """Yield the problems of a declared set of runs, composed under the ledger's terms."""
    try:
        yield from _excess_of_declared_set(terms)
    except Exception as error:  # a forged set can cause any error
        yield f"the declared runs: their cost cannot be computed again: {str(error)[:LONGEST_ERROR] or type(error).__name__}"


def _excess_of_declared_set(terms: LedgerTerms) -> Iterator[str]:
    """Yield the runs that state other terms than the ledger's, and the epsilon of the whole set if it exceeds the cap."""
    runs = [(restate(terms, pipeline_from(item["pipeline"])), int(item["runs"])) for item in terms.declared]
    for number, (run, _) in enumerate(runs, start=1):
        if run.other_terms:
            yield f"run {number} of the declared set: stated for {', '.join(run.other_terms)} (DP103)"
    epsilon, accountant = compose([(run.pipeline, count) for run, count in runs], terms.delta)
    if epsilon > terms.epsilon:
        yield f"the declared runs: this version finds epsilon {epsilon:.10g} by {accountant}, above the cap {terms.epsilon!r} (DP408)"


def _problems_of_charge(prices: Prices, entry: LedgerEntry, further: Sequence[LedgerEntry]) -> Iterator[str]:
    """Yield the faults of one charge. Raises any error that its content causes."""
    terms, delta = prices.terms, float(entry.content["delta"])
    if not delta < 1.0:
        raise InputError(f"described at delta = {entry.content['delta']}, at which every mechanism is private")
    run = restate(terms, pipeline_from(entry.content["pipeline"]))
    if run.other_terms:
        yield f"stated for {', '.join(run.other_terms)} (DP103)"
    if run.other_terms and terms.mode == "declared":
        return  # the declared set does not contain such a run
    window = run.pipeline.privacy.window
    if window is not None and terms.family is not None and list(terms.family.window(window)) != entry.content.get("window"):
        yield "charged on other blocks than those of the window that it states"
    charged = amounts.read(entry.content["cost"])
    for other in further:
        charged = amounts.add(charged, amounts.read(other.content["cost"]))
        if other.content.get("window") != entry.content.get("window"):
            yield f"charged on other blocks than entry {other.row.seq}, a charge of the same run"
    try:
        cost = prices.cost_of(run.pipeline, delta)
    except (CannotCertify, NotRepresentable) as error:
        yield f"its cost cannot be computed again: {error}"
        return
    for name, value in cost.items():
        paid = charged.get(name, Decimal(0))
        if value > paid * amounts.SLACK:
            at_least = "at least " if run.is_lower_bound else ""
            factor = f", {float(value / paid):.4g} times as much" if paid else ""
            yield f"charged {paid:.10g} of {label(name)}, this version finds {at_least}{value:.10g}{factor} (DP408)"
