"""A session: every query charged, answered or not, each step durable before the next."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError
from dpcli.numerics.arrays import Array, np
from dpcli.predict.pate.data import queries_digest, query_inputs
from dpcli.predict.pate.kept_votes import votes_kept
from dpcli.predict.pate.sanitised import require_sanitisable, sanitise, sanitised
from dpcli.predict.pate.transcript import Transcript, TranscriptFile, opened, read_transcript
from dpcli.predict.queries.counted import counted, require_count_of
from dpcli.predict.session import session_of
from dpcli.sessions.charged import charge, commit, noted, reason, require_same_books, session_there
from dpcli.sessions.folder import exclusive, replaced

if TYPE_CHECKING:
    from dpcli.analysis.account import Account
    from dpcli.ledger.ledger import Ledger
    from dpcli.predict.pate.plan import VotingPlan
    from dpcli.predict.queries.budget import QueryBudget
    from dpcli.predict.voting.votes import VoteCounts
    from dpcli.random.streams import Stream

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
    plan: VotingPlan,
    ledger: Ledger | None,
    insecure_seed: int | None,
    report: Report,
    student: Callable[[], Predict],
    moved: bool = False,
) -> SessionOutcome:
    """Label the queries of a plan, or go on with a session that did not end.

    Args:
        ledger: charged in full before the first noise. insecure_seed: reproducible noise: NOT PRIVATE, and refused with a ledger.
        student: makes what predicts a query's label from the answers so far, where the threshold is compared with that.
        moved: the folder was moved here, and its first place is gone.

    Raises:
        InputError: no votes, or the folder holds another session. Denied: the ledger says no.
    """
    if ledger is not None and insecure_seed is not None:
        raise InputError("--insecure-seed: expected no --ledger with it, found one: noise that can be repeated protects nobody")
    require_sanitisable(plan)  # all that depends on the file alone comes before the charge
    with exclusive(plan.folder):
        kept = read_transcript(plan)
        if kept is not None:
            _require_same(plan, kept, ledger, insecure_seed)
        earlier = kept is not None and kept.closed
        votes = votes_kept(plan) if not earlier or _unsanitised(plan, kept) else None
        if votes is None and not earlier:
            raise InputError(f"{plan.folder}: expected the votes of teachers, found none: dpcli pate fit {plan.path} makes them")
        with ExitStack() as open_:
            if not earlier or votes is not None:
                assert votes is not None
                kept = _went_on(plan, votes, ledger, insecure_seed, report, student, moved, open_)
            assert kept is not None
            _leave(plan, kept)
            commit(kept.session, ledger)
        queries = _put_at_most(plan, kept) if earlier or votes is None else _queries(plan, votes)
        return _outcome(plan, kept, queries, earlier)


def _unsanitised(plan: VotingPlan, kept: Transcript | None) -> bool:
    return plan.pate.sanitise is not None and kept is not None and kept.private and kept.sanitised is None


def _went_on(
    plan: VotingPlan,
    votes: VoteCounts,
    ledger: Ledger | None,
    insecure_seed: int | None,
    report: Report,
    student: Callable[[], Predict],
    moved: bool,
    open_: ExitStack,
) -> Transcript:
    """The session's transcript, once it has ended: charged, counted, and each step durable before the next."""
    predict = student() if plan.pate.check == "student" else None
    private = insecure_seed is None
    session = session_of(plan, plan.folder, session_there(plan.folder) is not None, ledger, _inputs(plan, votes))
    session = charge(session, plan.pipeline, ledger, reason("pate label", plan.path, plan.pipeline))
    asked = open_.enter_context(counted(session, ledger, plan.queries, None, moved, things="queries"))
    answered = open_.enter_context(counted(session, ledger, plan.answers, None, moved, "answers"))
    told = open_.enter_context(counted(session, ledger, 1, None, moved, "sanitised costs"))
    session = noted(session)
    file = opened(plan, session, private)
    if not file.content.closed:
        counts = SessionCounts(asked, answered)
        _lose(file, counts)
        _ask(plan, votes, file, counts, _stream(insecure_seed, len(file.content)), predict, report)
        file.add({"what": "end"})
    sanitise(plan, votes, file, told)
    return file.content


@dataclass(frozen=True, slots=True)
class SessionCounts:
    """How many queries were asked, and how many answered, whatever a transcript says of them."""

    asked: QueryBudget
    answered: QueryBudget


def _inputs(plan: VotingPlan, votes: VoteCounts) -> dict[str, str]:
    """What a session is bound to: the votes, and what they are of, where the file names that."""
    queries = {} if plan.pate.queries is None else {"queries": queries_digest(query_inputs(plan.pate, plan.path))}
    return {"votes": votes.digest(), **queries}


def _lose(file: TranscriptFile, counts: SessionCounts) -> None:
    """Note as charged, answered and lost what was counted and has no outcome: nobody knows any more what came of it."""
    content, asked = file.content, counts.asked.taken()
    require_count_of(file.path, len(content), counts.asked)
    if len(content) < asked:
        file.ask(len(content), asked, None)
    lost = [query for query in content.lost if query not in content.answered]
    if lost:
        file.answer(lost)


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
    from dpcli.random.streams import SeededStream, SystemStream

    return SystemStream() if insecure_seed is None else SeededStream(insecure_seed, begun)


def _require_same(plan: VotingPlan, kept: Transcript, ledger: Ledger | None, insecure_seed: int | None) -> None:
    """The books and the noise of the session's beginning: else what it draws would be charged nowhere, or half of it be no noise."""
    private = insecure_seed is None
    if kept.private != private:
        raise InputError(f"{plan.folder}: expected {'no ' if kept.private else ''}--insecure-seed, as when the session began")
    require_same_books(plan.folder, kept.session.charged, ledger, "session")


def _ask(
    plan: VotingPlan,
    votes: VoteCounts,
    file: TranscriptFile,
    counts: SessionCounts,
    stream: Stream,
    predict: Predict | None,
    report: Report,
) -> None:
    """Part after part, from the first query that was never charged."""
    queries = _queries(plan, votes)
    part = -(-queries // PARTS)
    while (first := counts.asked.taken()) < queries and counts.answered.taken() < counts.answered.total:
        stop = min(first + part, queries)
        _put(plan, votes, file, counts, first, stop, stream, predict)
        report(stop, queries, counts.answered.taken())


def _put(
    plan: VotingPlan,
    votes: VoteCounts,
    file: TranscriptFile,
    counts: SessionCounts,
    first: int,
    stop: int,
    stream: Stream,
    predict: Predict | None,
) -> None:
    """The queries from `first` on: charge, compare, charge, answer."""
    predictions = None if predict is None else predict(file.content, first, stop)
    largest = votes.largest[first:stop] if predictions is None else votes.beyond(first, predictions)
    counts.asked.take(stop - first)
    file.ask(first, stop, predictions)
    left = counts.answered.total - counts.answered.taken()
    chosen = np.flatnonzero(plan.aggregator.reached(largest, stream))[:left]
    labels: dict[int, int] = {}
    if len(chosen):
        counts.answered.take(len(chosen))
        file.answer([first + int(place) for place in chosen])
        winners = plan.aggregator.winners(votes.counts[first:stop][chosen], stream)
        labels = {first + int(place): label for place, label in zip(chosen, winners, strict=True)}
    file.outcome(first, stop, labels, _reinforced(plan, predictions, first, labels))


def _reinforced(plan: VotingPlan, predictions: Array | None, first: int, labels: dict[int, int]) -> dict[int, int]:
    """The student's own label of queries without an answer, where it is sure of it: nothing private is read for them."""
    if predictions is None:
        return {}
    sure = {first + k: int(one.argmax()) for k, one in enumerate(predictions) if one.max() >= plan.pate.confidence}
    return {query: label for query, label in sure.items() if query not in labels}


def _leave(plan: VotingPlan, content: Transcript) -> None:
    """The labels and the statement."""
    from dpcli.predict.documents.pate_statement import statement

    rows = [(query, label, "teachers") for query, label in content.labels.items()]
    rows += [(query, label, "student") for query, label in content.reinforced.items()]
    text = "query,label,by\n" + "".join(f"{query},{label},{by}\n" for query, label, by in sorted(rows))
    replaced(os.path.join(plan.folder, LABELS), text.encode())
    published = plan.pate.accounting == "data-dependent"
    markdown, machine = statement(plan, content, sanitised(plan, content) if published else None)
    replaced(os.path.join(plan.folder, STATEMENT), markdown.encode())
    replaced(os.path.join(plan.folder, MACHINE), (json.dumps(machine, indent=2) + "\n").encode())
