"""A session: every query charged, answered or not, each step durable before the next."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcli.errors import InputError
from dpcli.numerics.arrays import Array, np
from dpcli.predict.pate.kept_votes import bind_votes, require_bound, votes_kept
from dpcli.predict.pate.sanitised import sanitised
from dpcli.predict.pate.transcript import Transcript, TranscriptFile, begin, read_transcript, resume
from dpcli.registry import PATE_STATEMENT_OF, load
from dpcli.sessions.charged import charge_run, require_going_on, require_same_books
from dpcli.sessions.folder import exclusive, replaced
from dpcli.sessions.reason import reason

if TYPE_CHECKING:
    from dpcli.analysis.account import Account
    from dpcli.ledger.ledger import Ledger
    from dpcli.predict.pate.plan import VotingPlan
    from dpcli.predict.voting.votes import VoteCounts
    from dpcli.train.noise.randomness import Stream

LABELS, STATEMENT, MACHINE = "labels.csv", "statement.md", "statement.json"
PARTS = 100  # a crash loses the answers of one part of the queries at most; their charge stands
Report = Callable[[int, int, int], None]  # queries put, of how many, answered
# From the labels so far to the student's predictions (k, m) for queries first to stop - 1.
Predict = Callable[[Transcript, int, int], Array]


@dataclass(frozen=True, slots=True)
class SessionOutcome:
    """What a session came to. earlier: whether it had been held before, and nothing was drawn now.

    queries: how many there were to put, at most as many as are paid for. fitting: the account of a file that pays for these alone; None
    where this one does.
    """

    plan: VotingPlan
    transcript: Transcript
    queries: int
    earlier: bool
    fitting: Account | None


def hold(
    plan: VotingPlan, ledger: Ledger | None, insecure_seed: int | None, report: Report, student: Callable[[], Predict]
) -> SessionOutcome:
    """Label the queries of a plan, or go on with a session that did not end.

    Args:
        ledger: charged in full before the first noise. insecure_seed: reproducible noise: NOT PRIVATE, and refused with a ledger.
        student: makes what predicts a query's label from the answers so far, where the threshold is compared with that.

    Raises:
        InputError: no votes, or the folder holds another session. Denied: the ledger says no.
    """
    if ledger is not None and insecure_seed is not None:
        raise InputError("--insecure-seed: expected no --ledger with it, found one: noise that can be repeated protects nobody")
    with exclusive(plan.folder):
        kept = read_transcript(plan)
        if kept is not None and kept.closed:
            _require_same(plan, kept, ledger, insecure_seed)
            _leave(plan, kept, None if plan.pate.sanitise is None else votes_kept(plan))
            if ledger is not None:
                ledger.commit(kept.run)  # which is said once, however often it is asked
            return _outcome(plan, kept, _put_at_most(plan, kept), True)
        votes = votes_kept(plan)
        if votes is None:
            raise InputError(f"{plan.folder}: expected the votes of teachers, found none: dpcli pate fit {plan.path} makes them")
        queries = _queries(plan, votes)
        predict = student() if plan.pate.check == "student" else None
        file = _opened(plan, votes, kept, ledger, insecure_seed)
        try:
            _ask(plan, votes, file, queries, _stream(insecure_seed, len(file.content)), predict, report)
            file.add({"what": "end"})
        finally:
            file.close()
        _leave(plan, file.content, votes)
        if ledger is not None:
            ledger.commit(file.content.run)
        return _outcome(plan, file.content, queries, False)


def _queries(plan: VotingPlan, votes: VoteCounts) -> int:
    return min(plan.queries, len(votes))


def _put_at_most(plan: VotingPlan, kept: Transcript) -> int:
    """How many queries a session had that has ended: where it did not stop at its last answer, those that were put."""
    return plan.queries if len(kept.answered) >= plan.answers else len(kept)


def _outcome(plan: VotingPlan, kept: Transcript, queries: int, earlier: bool) -> SessionOutcome:
    from dpcli.analysis.account import account

    fitting = account(plan.with_limits(queries, min(queries, plan.answers))) if queries < plan.queries else None
    return SessionOutcome(plan, kept, queries, earlier, fitting)


def _stream(insecure_seed: int | None, begun: int) -> Stream:
    from dpcli.train.noise.randomness import SeededStream, SystemStream

    return SystemStream() if insecure_seed is None else SeededStream(insecure_seed, begun)


def _opened(
    plan: VotingPlan, votes: VoteCounts, kept: Transcript | None, ledger: Ledger | None, insecure_seed: int | None
) -> TranscriptFile:
    """The transcript, with everything that the session may draw charged to the ledger."""
    if kept is None:
        run = uuid.uuid4().hex
        if ledger is not None:
            charge_run(ledger, run, plan.pipeline, reason("pate label", plan.path, plan.pipeline))
        bind_votes(plan, votes, run)
        return begin(plan, run, ledger is not None, insecure_seed is None)
    _require_same(plan, kept, ledger, insecure_seed)
    require_bound(plan, votes, kept.run)
    if ledger is not None:
        require_going_on("--ledger", kept.run, ledger, "session")
    return resume(plan, kept)


def _require_same(plan: VotingPlan, kept: Transcript, ledger: Ledger | None, insecure_seed: int | None) -> None:
    """The books and the noise of the session's beginning: else what it draws would be charged nowhere, or half of it be no noise."""
    private = insecure_seed is None
    if kept.private != private:
        raise InputError(f"{plan.folder}: expected {'no ' if kept.private else ''}--insecure-seed, as when the session began")
    require_same_books(plan.folder, kept.ledger, ledger, "session")


def _ask(
    plan: VotingPlan, votes: VoteCounts, file: TranscriptFile, queries: int, stream: Stream, predict: Predict | None, report: Report
) -> None:
    """Part after part, from the first query that was never charged."""
    part = -(-queries // PARTS)
    while (first := len(file.content)) < queries and len(file.content.answered) < plan.answers:
        stop = min(first + part, queries)
        _put(plan, votes, file, first, stop, stream, predict)
        report(stop, queries, len(file.content.answered))


def _put(
    plan: VotingPlan, votes: VoteCounts, file: TranscriptFile, first: int, stop: int, stream: Stream, predict: Predict | None
) -> None:
    """The queries from `first` on: charge, compare, charge, answer."""
    aggregator, counts = plan.aggregator, votes.counts[first:stop]
    predictions = None if predict is None else predict(file.content, first, stop)
    largest = votes.largest[first:stop] if predictions is None else votes.beyond(first, predictions)
    file.ask(first, stop, predictions)
    left = plan.answers - len(file.content.answered)
    chosen = np.flatnonzero(aggregator.reached(largest, stream))[:left]
    labels: dict[int, int] = {}
    if len(chosen):
        file.answer([first + int(place) for place in chosen])
        labels = {
            first + int(place): label for place, label in zip(chosen, aggregator.winners(counts[chosen], stream), strict=True)
        }
    file.outcome(first, stop, labels, _reinforced(plan, predictions, first, labels))


def _reinforced(plan: VotingPlan, predictions: Array | None, first: int, labels: dict[int, int]) -> dict[int, int]:
    """The student's own label of queries without an answer, where it is sure of it: nothing private is read for them."""
    if predictions is None:
        return {}
    sure = {first + k: int(one.argmax()) for k, one in enumerate(predictions) if one.max() >= plan.pate.confidence}
    return {query: label for query, label in sure.items() if query not in labels}


def _leave(plan: VotingPlan, content: Transcript, votes: VoteCounts | None) -> None:
    """The labels and the statement."""
    rows = [(query, label, "teachers") for query, label in content.labels.items()]
    rows += [(query, label, "student") for query, label in content.reinforced.items()]
    text = "query,label,by\n" + "".join(f"{query},{label},{by}\n" for query, label, by in sorted(rows))
    replaced(os.path.join(plan.folder, LABELS), text.encode())
    published = plan.pate.accounting == "data-dependent" and votes is not None
    markdown, machine = load(PATE_STATEMENT_OF)(plan, content, sanitised(plan, votes, content) if published and votes else None)
    replaced(os.path.join(plan.folder, STATEMENT), markdown.encode())
    replaced(os.path.join(plan.folder, MACHINE), (json.dumps(machine, indent=2) + "\n").encode())
