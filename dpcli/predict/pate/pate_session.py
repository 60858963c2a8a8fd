"""A voting session of `dpcli pate label`: the queries of a [pate] table are answered by noisy votes of teachers, in parts.

A *teacher* is a model of one shard of private data, and votes for one label of each public *query*. The noisy vote of all teachers gives
the *answer*, with a threshold only if it is clear enough (aggregators.py). A *session* is everything that one charge pays for; the
*ledger*, if there is one, is the record of what was spent on a dataset. The *student* is a public model that learns from the labels
(student.py). Every query is charged, whether or not it is answered, and no query is put twice. Each step is recorded durably in the
transcript (transcript.py) before the next step begins, so that a session that was interrupted continues where it stopped. The session ends
by releasing the cost given the votes, if [pate] has `sanitise` (vote_release.py), and by writing labels.csv and the statement.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError
from dpcli.numerics.arrays import Array, np
from dpcli.predict.pate.records import queries_digest, query_inputs
from dpcli.predict.pate.transcript import Transcript, TranscriptFile, open_transcript, read_transcript
from dpcli.predict.pate.vote_files import read_votes
from dpcli.predict.pate.vote_release import read_sanitised, require_sanitisable, sanitise
from dpcli.predict.prediction_session import STATEMENT, AnswerLimit, Report, begin_session, require_count_of
from dpcli.sessions.charged import commit, existing_session, require_same_ledger
from dpcli.sessions.folder import exclusive, replace_file

if TYPE_CHECKING:
    from dpcli.analysis.account import Account
    from dpcli.ledger.ledger import Ledger
    from dpcli.predict.pate.pate_plan import VotingPlan
    from dpcli.predict.query_counts import AnswerCounter
    from dpcli.predict.vote_counts import VoteCounts
    from dpcli.random.streams import Stream

LABELS, STATEMENT_JSON = "labels.csv", "statement.json"
PARTS = 100  # number of parts into which the queries are split; a crash loses the answers of at most one part, which stays charged
# (transcript so far, first, stop) -> the student's probabilities of labels, (stop - first, classes), for queries first to stop - 1
Predict = Callable[[Transcript, int, int], Array]


@dataclass(frozen=True, slots=True)
class SessionOutcome:
    """The outcome of a session.

    Attributes:
        queries: Number of queries in the votes, limited to the number that the file pays for. For a session that had ended before, the
            number that it asked, or the number that the file pays for if it used all answers.
        had_ended: Whether the session had ended before, so that no query was put now.
        exact_account: Account of a file that would pay for exactly these queries; None if the session's file pays for no more.
    """

    plan: VotingPlan
    transcript: Transcript
    queries: int
    had_ended: bool
    exact_account: Account | None


def hold_session(
    plan: VotingPlan,
    ledger: Ledger | None,
    insecure_seed: int | None,
    report: Report,
    student: Callable[[], Predict],
    moved: bool = False,
) -> SessionOutcome:
    """Label the queries of a plan, or continue a session that did not end.

    Args:
        ledger: Ledger to charge in full before any noise is drawn; None if there is none.
        insecure_seed: Seed of reproducible noise, which is NOT PRIVATE, and is refused with a ledger. None for private noise.
        report: Function that is called after each part with the numbers of queries done and of all queries.
        student: Function that returns a `Predict`. It is called only if the threshold needs predictions.
        moved: Whether --moved was given, which confirms that no copy of the folder is left at its earlier path.

    Raises:
        InputError: If there are no votes, or the folder holds another session.
        Denied: If the ledger does not allow the session.
    """
    if ledger is not None and insecure_seed is not None:
        raise InputError("--insecure-seed: cannot be used with --ledger, as noise that can be reproduced protects nobody")
    require_sanitisable(plan)  # Errors that depend on the file alone come before the charge.
    with exclusive(plan.folder):  # locked, so that one command at a time uses it
        transcript = read_transcript(plan)
        if transcript is not None:
            _require_same(plan, transcript, ledger, private=insecure_seed is None)
        had_ended = transcript is not None and transcript.closed
        needs_votes = transcript is None or not had_ended or _awaits_release(plan, transcript)
        votes = read_votes(plan) if needs_votes else None
        if votes is not None:
            transcript = _continue_session(plan, votes, ledger, insecure_seed, report, student, moved)
        elif not had_ended:
            raise InputError(f"{plan.folder}: no votes of teachers; run dpcli pate fit {plan.path} first")
        assert transcript is not None
        if votes is not None and not had_ended:
            queries = _query_count(plan, votes)
        else:
            # A session that ended before it used all answers had asked all its queries.
            queries = plan.queries if len(transcript.answered) >= plan.answers else len(transcript)
        _write_outputs(plan, transcript)
        commit(transcript.session, ledger)  # records the end of the run in the ledger, if there is one and no earlier call did
        return SessionOutcome(plan, transcript, queries, had_ended, _exact_account(plan, queries))


def _awaits_release(plan: VotingPlan, transcript: Transcript) -> bool:
    """Return whether the file asks for a release of the cost given the votes that the session has not made."""
    return plan.pate.sanitise is not None and transcript.private and transcript.sanitised is None


def _exact_account(plan: VotingPlan, queries: int) -> Account | None:
    """Return the account of a file that pays for this number of queries; None if the plan pays for no more."""
    from dpcli.analysis.account import account

    if queries >= plan.queries:
        return None
    return account(plan.with_limits(queries, min(queries, plan.answers)))


def _require_same(plan: VotingPlan, transcript: Transcript, ledger: Ledger | None, private: bool) -> None:
    """Raise InputError unless the session began with this ledger and this kind of noise.

    Otherwise part of the session might be charged to no ledger, or have reproducible noise.
    """
    if transcript.private != private:
        expected = "no --insecure-seed" if transcript.private else "--insecure-seed"
        raise InputError(f"{plan.folder}: expected {expected}, as when the session began")
    require_same_ledger(plan.folder, transcript.session.charged, ledger, "session")


def _continue_session(
    plan: VotingPlan,
    votes: VoteCounts,
    ledger: Ledger | None,
    insecure_seed: int | None,
    report: Report,
    student: Callable[[], Predict],
    moved: bool,
) -> Transcript:
    """Charge the session if it is not charged yet, ask its remaining queries, release its cost if asked, and return its transcript."""
    predict = student() if plan.pate.check == "student" else None
    inputs = {"votes": votes.digest()}  # digests, which must be the same if the session is continued
    if plan.pate.queries is not None:
        inputs["queries"] = queries_digest(query_inputs(plan.pate, plan.path))
    limits = [
        AnswerLimit(plan.queries, "queries"),
        AnswerLimit(plan.answers, name="answers"),
        AnswerLimit(1, name="sanitised costs"),
    ]
    resume = existing_session(plan.folder) is not None
    session, (queries, answers, costs) = begin_session(plan, "pate label", ledger, inputs, limits, resume=resume, moved=moved)
    file = open_transcript(plan, session, private=insecure_seed is None)
    if not file.content.closed:
        parts = QueryParts(plan, votes, file, queries, answers, _stream(insecure_seed, len(file.content)), predict)
        parts.record_lost()
        parts.ask_remaining(report)
        file.add({"what": "end"})
    sanitise(plan, votes, file, costs)
    return file.content


def _query_count(plan: VotingPlan, votes: VoteCounts) -> int:
    """Return the number of queries in the votes, limited to the number that the file pays for."""
    return min(plan.queries, len(votes))


def _stream(insecure_seed: int | None, charged: int) -> Stream:
    """Return the source of the noise. With a seed, it depends on the number of queries charged before, so that no noise is repeated."""
    from dpcli.random.streams import SeededStream, SystemStream

    return SystemStream() if insecure_seed is None else SeededStream(insecure_seed, charged)


@dataclass(frozen=True, slots=True)
class QueryParts:
    """The queries of a voting session, which are put in parts.

    Attributes:
        queries, answers: Durable counts of charged queries and answers. After a crash they may exceed the transcript's.
        predict: Function that predicts labels for the threshold; None if the threshold applies to the largest count.
    """

    plan: VotingPlan
    votes: VoteCounts
    file: TranscriptFile
    queries: AnswerCounter
    answers: AnswerCounter
    stream: Stream
    predict: Predict | None

    def record_lost(self) -> None:
        """Record the counted queries whose outcome a crash lost as charged and answered, because some of them may have been answered."""
        content, charged = self.file.content, self.queries.taken()
        require_count_of(self.file.path, len(content), self.queries)
        if len(content) < charged:
            self.file.record_charge(len(content), charged, None)
        lost = [query for query in content.lost if query not in content.answered]
        if lost:
            self.file.record_answers(lost)

    def ask_remaining(self, report: Report) -> None:
        """Ask the queries in parts, from the first query that was never charged."""
        queries = _query_count(self.plan, self.votes)
        part = -(-queries // PARTS)  # rounded up
        while (first := self.queries.taken()) < queries and self.answers.taken() < self.answers.total:
            stop = min(first + part, queries)
            self.ask_part(first, stop)
            report(stop, queries)

    def ask_part(self, first: int, stop: int) -> None:
        """Ask queries first to stop - 1: charge them, compare with the threshold, charge the answers, and release them."""
        predictions = None if self.predict is None else self.predict(self.file.content, first, stop)
        largest = self.votes.largest[first:stop] if predictions is None else self.votes.differences(first, predictions)
        self.queries.take(stop - first)
        self.file.record_charge(first, stop, predictions)
        remaining = self.answers.total - self.answers.taken()
        reached = np.flatnonzero(self.plan.aggregator.reached(largest, self.stream))
        # Queries that reach the threshold after the last answer that is paid for get none. Their comparison stays charged.
        answered = [first + index for index in reached[:remaining].tolist()]
        labels: dict[int, int] = {}
        if answered:
            self.answers.take(len(answered))
            self.file.record_answers(answered)
            winners = self.plan.aggregator.winners(self.votes.counts[answered], self.stream)
            labels = dict(zip(answered, winners, strict=True))
        self.file.record_outcome(first, stop, labels, self._student_labels(predictions, first, labels))

    def _student_labels(self, predictions: Array | None, first: int, labels: dict[int, int]) -> dict[int, int]:
        """Return the student's confident labels of unanswered queries. They depend only on public inputs and released labels."""
        if predictions is None:
            return {}
        student_labels = {}
        for query, prediction in enumerate(predictions, first):
            if query not in labels and prediction.max() >= self.plan.pate.confidence:
                student_labels[query] = int(prediction.argmax())
        return student_labels


def _write_outputs(plan: VotingPlan, transcript: Transcript) -> None:
    """Write the labels and the statement."""
    from dpcli.predict.documents.statements import pate_statement

    rows = [(query, label, "teachers") for query, label in transcript.labels.items()]
    rows += [(query, label, "student") for query, label in transcript.student_labels.items()]
    text = "query,label,by\n" + "".join(f"{query},{label},{by}\n" for query, label, by in sorted(rows))
    replace_file(os.path.join(plan.folder, LABELS), text.encode())
    published = plan.pate.accounting == "data-dependent"
    markdown, machine = pate_statement(plan, transcript, read_sanitised(plan, transcript) if published else None)
    replace_file(os.path.join(plan.folder, STATEMENT), markdown.encode())
    replace_file(os.path.join(plan.folder, STATEMENT_JSON), (json.dumps(machine, indent=2) + "\n").encode())
