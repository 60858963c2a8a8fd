"""A PromptPATE session: teachers, which are prompts with private demonstrations, vote on public texts, which then make a public prompt.

A *demonstration* is a labelled text that a prompt shows. A public text to label is a *query*, and the label that its noisy vote releases is
its *answer* (aggregators.py). All queries are charged before the first vote, to a *ledger* (the record of what was spent on a dataset) if
there is one. Each query is counted durably before its noise is drawn. Its answer is saved in the transcript in the session's folder, under
a hash of the text; a query that is asked again gets the saved answer, at no cost. The labelled texts then make the *student*, a prompt that
may be published. `dpcli prompt` calls `vote_and_teach`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from dpcli.base.errors import Denied, InputError
from dpcli.predict.models.texts import TextSource, owned_texts
from dpcli.predict.prediction_session import (
    RESTORED,
    STATEMENT,
    AnswerLimit,
    Report,
    add_line,
    begin_session,
    require_count_of,
    whole_lines,
)
from dpcli.predict.prompt.demonstrations import (
    Demonstration,
    PromptShape,
    Student,
    best_student,
    labelled_texts,
    prompt_shape,
    prompt_that_fits,
    teacher_demonstrations,
)
from dpcli.predict.prompt.labellers import Labeller, labeller_of
from dpcli.predict.prompt.prompt_plan import PromptPlan
from dpcli.predict.prompt.prompt_teachers import prompt_teachers
from dpcli.predict.vote_counts import VoteCounts
from dpcli.random.streams import Stream, SystemStream
from dpcli.sessions.charged import Session, commit
from dpcli.sessions.folder import exclusive, replace_file

if TYPE_CHECKING:
    from dpcli.ledger.ledger import Ledger
    from dpcli.predict.aggregators import Aggregator
    from dpcli.predict.query_counts import AnswerCounter

TRANSCRIPT, LABELS, PROMPT = "transcript.jsonl", "labels.jsonl", "prompt.txt"  # files in the session's folder
DISCLOSURE_ANSWERS = {  # texts by key of [disclosure], for the statement
    "randomness": "noise on the votes is drawn from the operating system; there is no seed, and no random number is saved",
    "floating_point": "noise is added to vote counts in double precision; only the winner is released, or that there is no winner",
    "clipping": "each unit's records are in one shard, and a shard has one vote",
    "query_model": "one-release",
}


@dataclass(frozen=True, slots=True)
class PromptOutcome:
    """The outcome of a session. Everything in it may be published, except `session`, which has a digest of the private texts.

    Attributes:
        queries: Number of queries that were counted in all calls.
        texts: Number of public texts.
        answered: Number of public texts that got a label.
        waiting: Number of public texts that have no result because no query or answer was left.
        prompt: Text of the student's prompt, with {text} in place of the text to label.
        accuracy: Accuracy of the student's prompt on labelled texts that are declared public; None if the file names none.
        accuracy_without_demonstrations: Accuracy of a prompt without demonstrations on these texts.
    """

    plan: PromptPlan
    session: Session
    queries: int
    texts: int
    answered: int
    waiting: int
    student: Student
    prompt: str
    accuracy: float | None
    accuracy_without_demonstrations: float | None


def vote_and_teach(
    plan: PromptPlan,
    ledger: Ledger | None = None,
    resume: bool = False,
    moved: bool = False,
    report: Report = lambda done, total: None,
    stream: Stream | None = None,
) -> PromptOutcome:
    """Label the public texts by the noisy votes of teachers, which are prompts, and make a prompt from the labelled texts.

    Args:
        ledger: Ledger to charge in full before any noise is drawn; None if there is none.
        report: Function that is called after each text with the numbers of texts done and of all texts.
        stream: Source of the noise; the operating system if None.

    Raises:
        InputError: If a text or the model cannot be used, or an input has changed since the session began.
        Unavailable: If a package that the model needs is not installed.
        Denied: If the file's budget or the ledger does not allow the session.
        LedgerError: If the ledger or the count of queries cannot be relied on.
    """
    plan.require_budget()
    prompt, path = plan.prompt, plan.path
    labeller = labeller_of(prompt, path)
    queries = owned_texts(TextSource(prompt.queries, path, "prompt.queries", column=prompt.text))
    texts = tuple(dict.fromkeys(queries.texts))  # equal texts are one query
    public = _public(plan)
    _require_fitting(labeller, prompt_shape(prompt), texts, f"{path}: prompt.queries")
    _require_fitting(labeller, prompt_shape(prompt), [demonstration.text for demonstration in public], f"{path}: prompt.public")
    with exclusive(plan.folder):  # locked, so that one command at a time uses it
        private = labelled_texts(prompt.data, prompt, path, "data", prompt.units, plan.rows)
        inputs = {"private texts": private.digest, "labeller": labeller.content}  # must be the same if the session is continued
        demonstrations = teacher_demonstrations(private, prompt, plan.pipeline.privacy.adjacency)
        with prompt_teachers(plan, labeller, demonstrations) as teachers:
            session, voting = _begin_voting(plan, ledger, resume, moved, inputs, stream or SystemStream())
            votes = teachers.votes_in_parts(texts, lambda text: voting.transcript.answer(text) is not None)
            released = list(_released_labels(voting, votes, texts, report))
        outcome = _outcome(plan, session, voting.queries.taken(), len(texts), released, labeller, public)
        _write_outputs(outcome, released)
        commit(session, ledger)  # records the end of the run in the ledger, if there is one
    return outcome


def _begin_voting(
    plan: PromptPlan, ledger: Ledger | None, resume: bool, moved: bool, inputs: Mapping[str, str], stream: Stream
) -> tuple[Session, VotingSession]:
    """Charge the session, or continue it, and return it with its transcript and counts.

    Raises InputError if an input has changed, Denied if the ledger refuses, and LedgerError if the ledger or a count cannot be relied on.
    """
    path = os.path.join(plan.folder, TRANSCRIPT)
    limits = [AnswerLimit(plan.queries, "queries")]
    if plan.answers is not None:
        limits.append(AnswerLimit(plan.answers, name="answers"))
    session, (queries, *answers) = begin_session(
        plan, "prompt", ledger, inputs, limits, resume=resume, moved=moved, place=plan.prompt.count, released=path
    )
    transcript = VoteTranscript(path, len(plan.prompt.labels))
    require_count_of(path, transcript.last, queries)
    answer_counter = answers[0] if answers else None
    return session, VotingSession(plan.aggregator, queries, answer_counter, transcript, stream)


def _public(plan: PromptPlan) -> list[Demonstration]:
    """Return the labelled texts that are declared public; empty if the file names none."""
    if plan.prompt.public is None:
        return []
    public = labelled_texts(plan.prompt.public, plan.prompt, plan.path, "public")
    return list(map(Demonstration, public.texts, public.labels))


def _require_fitting(labeller: Labeller, shape: PromptShape, texts: Sequence[str], place: str) -> None:
    """Raise InputError if a text is empty, or too long for the model even without a demonstration.

    The check precedes the charge, so that a session does not fail after it has used some of its queries.
    """
    for number, text in enumerate(texts, 1):
        if not labeller.fits(shape.prompt((), text)):
            raise InputError(
                f"{place}: expected texts that fit into the model's context without any demonstration, found text {number}, which is "
                "empty or too long; prompts are never cut"
            )


class PublicText(NamedTuple):
    """A public text with the number of its released label; None if the votes did not agree."""

    text: str
    label: int | None


def _released_labels(
    voting: VotingSession, votes: Callable[[str], VoteCounts], texts: tuple[str, ...], report: Report
) -> Iterator[PublicText]:
    """Yield each text with its released label, until no query or answer is left."""
    for count, text in enumerate(texts, 1):
        try:
            answer = voting.ask(text, partial(votes, text))
        except Denied:
            return
        yield PublicText(text, answer.label)
        report(count, len(texts))


def _outcome(
    plan: PromptPlan,
    session: Session,
    queries: int,
    texts: int,
    released: list[PublicText],
    labeller: Labeller,
    public: list[Demonstration],
) -> PromptOutcome:
    """Choose the student's prompt by the released labels, and return the outcome. Only public and released data are used."""
    prompt, shape = plan.prompt, prompt_shape(plan.prompt)
    answered = [Demonstration(text, label) for text, label in released if label is not None]
    student = best_student(answered, shape, labeller, prompt.candidates, prompt.student_demonstrations, len(prompt.labels))

    def accuracy(demonstrations: tuple[Demonstration, ...]) -> float:
        prompts = [prompt_that_fits(shape, demonstrations, text, labeller.fits) for text, _ in public]
        correct = sum(labeller.label(prompt) == label for prompt, (_, label) in zip(prompts, public, strict=True))
        return correct / len(public)

    return PromptOutcome(
        plan=plan,
        session=session,
        queries=queries,
        texts=texts,
        answered=len(answered),
        waiting=texts - len(released),
        student=student,
        prompt=shape.prompt(student.demonstrations, "{text}"),
        accuracy=accuracy(student.demonstrations) if public else None,
        accuracy_without_demonstrations=accuracy(()) if public else None,
    )


def _write_outputs(outcome: PromptOutcome, released: list[PublicText]) -> None:
    """Write the labels, the prompt and the statement, each file atomically."""
    from dpcli.predict.documents.statements import guarantee, statement

    plan, names = outcome.plan, outcome.plan.prompt.labels
    lines = [{"text": text, "label": None if label is None else names[label]} for text, label in released]
    content = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    replace_file(os.path.join(plan.folder, LABELS), content.encode("utf-8", "surrogatepass"))
    replace_file(os.path.join(plan.folder, PROMPT), outcome.prompt.encode("utf-8", "surrogatepass"))
    restored = "" if outcome.session.charged else f" {RESTORED}"  # a warning if no ledger counts the answers
    summary = (
        f"{plan.prompt.teachers:,} teachers, which are prompts with private demonstrations, voted on {outcome.queries:,} of at most "
        f"{plan.queries:,} public texts. {outcome.answered:,} labels are in {LABELS}. The prompt in {PROMPT} was chosen by these labels "
        f"alone. All queries are charged, asked or not: {guarantee(plan.account)}.{restored}"
    )
    replace_file(os.path.join(plan.folder, STATEMENT), statement(plan, summary, DISCLOSURE_ANSWERS).encode())


@dataclass(frozen=True, slots=True)
class ReleasedAnswer:
    """The released answer to a query.

    Attributes:
        number: Number of the query among all queries of the session that were counted, from 1.
        label: Number of the label; None if the votes did not agree.
    """

    number: int
    label: int | None


class VoteTranscript:
    """The answers of a session, by query, in a file to which lines are appended. A missing file has no answers.

    An incomplete last line, which a crash may leave, is removed from the file.

    Raises InputError if a complete line of the file is not an answer.
    """

    def __init__(self, path: str, labels: int) -> None:
        self._path = path
        self._answers = dict(_transcript_lines(path, labels))

    @property
    def last(self) -> int:
        """Return the number of the last answer; 0 if there is none."""
        return max((released.number for released in self._answers.values()), default=0)

    def answer(self, query: str) -> ReleasedAnswer | None:
        """Return the answer that was released for a query; None if there is none."""
        return self._answers.get(query_digest(query))

    def add(self, query: str, released: ReleasedAnswer) -> None:
        """Append an answer to the file, durably. Raises OSError if it cannot be written."""
        add_line(self._path, {"query": query_digest(query), "number": released.number, "label": released.label})
        self._answers[query_digest(query)] = released


@dataclass(frozen=True, slots=True)
class VotingSession:
    """Answers queries one at a time by noisy votes, as long as queries and answers are left.

    Attributes:
        queries: Durable count of the queries.
        answers: Durable count of the answers; None if the entry does not limit them.
    """

    aggregator: Aggregator
    queries: AnswerCounter
    answers: AnswerCounter | None
    transcript: VoteTranscript
    stream: Stream

    def ask(self, query: str, votes: Callable[[], VoteCounts]) -> ReleasedAnswer:
        """Return the answer to a public query, and save it.

        A query that is in the transcript gets the answer saved there, and is not counted again.

        Args:
            votes: Function that returns the votes on this query, one row. It is not called if no votes are needed.

        Raises:
            Denied: If no query or answer is left.
            LedgerError: If a count cannot be relied on. Nothing is then released.
        """
        earlier = self.transcript.answer(query)
        if earlier is not None:
            return earlier
        for count in (self.queries, self.answers):  # A session that is used up is refused before any votes are computed.
            if count is not None and count.taken() == count.total:
                count.take()  # raises Denied
        counts = votes()
        number = self.queries.take()
        label = None
        (is_answered,) = self.aggregator.reached(counts.largest, self.stream)  # always true without a threshold
        if is_answered:
            if self.answers is not None:
                self.answers.take()
            (label,) = self.aggregator.winners(counts.counts, self.stream)
        released = ReleasedAnswer(number, label)
        self.transcript.add(query, released)
        return released


def query_digest(query: str) -> str:
    """Return the SHA-256 of a query's text in hexadecimal, the name of the query in the transcript."""
    return hashlib.sha256(query.encode("utf-8", "surrogatepass")).hexdigest()


def _transcript_lines(path: str, labels: int) -> Iterator[tuple[str, ReleasedAnswer]]:
    """Yield the digest of each query of the transcript, and its answer. Raises InputError for a line that is not an answer."""
    for line in whole_lines(path):
        try:
            entry = json.loads(line)
            query, number, label = entry["query"], entry["number"], entry["label"]
            if type(query) is not str or type(number) is not int:  # JSON's true is not a number
                raise TypeError
            if label is not None and not (type(label) is int and 0 <= label < labels):
                raise ValueError
        except (ValueError, KeyError, TypeError, RecursionError):
            raise InputError(f"{path}: expected the transcript of a session; a line is damaged, or this is another file") from None
        yield query, ReleasedAnswer(number, label)
