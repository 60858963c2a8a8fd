"""PromptPATE: the teachers vote on public texts, what is answered labels these, and of these a prompt is made."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import Denied, InputError
from dpcli.predict.lines import refuse_others
from dpcli.predict.prompt.labelled import labelled, queries
from dpcli.predict.prompt.labeller import Labeller, labeller_of
from dpcli.predict.prompt.plan import PromptPlan
from dpcli.predict.prompt.prompts import Demonstration, Shape, fitted, shape_of, teachers
from dpcli.predict.prompt.student import Student, student
from dpcli.predict.prompt.voters import prompt_teachers
from dpcli.predict.queries.counted import counted, require_count_of
from dpcli.predict.session import RESTORED, session_of
from dpcli.predict.voting.session import VoteTranscript, VotingSession
from dpcli.predict.voting.votes import VoteCounts
from dpcli.random.streams import SystemStream
from dpcli.sessions.charged import charge, commit, noted, reason
from dpcli.sessions.folder import exclusive, replaced

if TYPE_CHECKING:
    from dpcli.ledger.ledger import Ledger
    from dpcli.random.streams import Stream
    from dpcli.sessions.charged import Session

TRANSCRIPT, LABELS, PROMPT, STATEMENT = "transcript.jsonl", "labels.jsonl", "prompt.txt", "statement.md"
Report = Callable[[int, int], None]  # queries done, of how many


@dataclass(frozen=True, slots=True)
class PromptOutcome:
    """What a session came to. All of it may be published, but for run and folder, which nobody needs.

    asked: queries charged up to now. answered: of the texts of this file. waiting: texts that the budget was not enough for. accuracy: on
    labelled texts that are declared public, of the student's prompt and of a prompt without demonstrations.
    """

    plan: PromptPlan
    folder: str
    run: str
    charged: bool
    asked: int
    texts: int
    answered: int
    waiting: int
    student: Student
    prompt: str
    accuracy: tuple[float, float] | None


def vote_and_teach(
    plan: PromptPlan,
    ledger: Ledger | None = None,
    resume: bool = False,
    moved: bool = False,
    report: Report = lambda done, all_: None,
    stream: Stream | None = None,
) -> PromptOutcome:
    """Answer the public texts by the noisy votes of teachers that are prompts, and make a prompt of the answers.

    Args:
        ledger: charged in full before the first noise.
        resume, moved: --resume and --moved.
        stream: the noise; the system's where None.

    Raises:
        InputError: what the file asks for cannot be done. Denied: the file's budget or the ledger says no. LedgerError: ledger or count
            cannot be relied on.
    """
    plan.require_budget()
    labeller, texts = labeller_of(plan.prompt, plan.path), queries(plan.prompt, plan.path)
    public = _public(plan)
    _require_fitting(labeller, shape_of(plan.prompt), texts, f"{plan.path}: prompt.queries")
    _require_fitting(labeller, shape_of(plan.prompt), [text for text, _ in public or ()], f"{plan.path}: prompt.public")
    with exclusive(plan.folder):
        private = labelled(plan.prompt.data, plan.prompt, plan.path, "data", plan.prompt.units, plan.rows)
        session = session_of(plan, plan.folder, resume, ledger, {"private texts": private.digest, "labeller": labeller.content})
        kept = os.path.join(plan.folder, TRANSCRIPT)
        refuse_others(kept, session.counted)
        shown = teachers(private, plan.prompt, plan.pipeline.privacy.adjacency)
        with ExitStack() as open_:
            votes = open_.enter_context(prompt_teachers(plan, labeller, shown))
            session = charge(session, plan.pipeline, ledger, reason("prompt", plan.path, plan.pipeline))
            budget = open_.enter_context(counted(session, ledger, plan.asked, plan.prompt.count, moved, things="queries"))
            answers = None
            if plan.answered is not None:
                answers = open_.enter_context(counted(session, ledger, plan.answered, plan.prompt.count, moved, "answers"))
            session = noted(session)
            transcript = VoteTranscript(kept, len(plan.prompt.labels))
            require_count_of(kept, transcript.last, budget)
            voting = VotingSession(plan.aggregator, budget, answers, transcript, stream or SystemStream())
            of = votes.in_parts(texts, lambda text: transcript.known(text) is not None)
            released = list(_released(voting, of, texts, report))
            asked = budget.taken()
        answered = [(text, label) for text, label in released if label is not None]
        outcome = _taught(plan, session, asked, len(texts), len(released), answered, labeller, public)
        _leave(outcome, released)
        commit(session, ledger)
    return outcome


def _released(
    voting: VotingSession, votes: Callable[[str], VoteCounts], texts: tuple[str, ...], report: Report
) -> Iterator[tuple[str, int | None]]:
    """Each text with its label, up to where no more may be asked."""
    for number, text in enumerate(texts):
        try:
            found = voting.ask(text, lambda text=text: votes(text))  # type: ignore[misc]
        except Denied:
            return
        yield text, found.label
        report(number + 1, len(texts))


def _require_fitting(labeller: Labeller, shape: Shape, texts: Sequence[str], place: str) -> None:
    """Before anything is charged: nothing may fail once the votes are cast."""
    for number, text in enumerate(texts, 1):
        if not labeller.fits(shape.prompt((), text)):
            raise InputError(
                f"{place}: expected texts that fit into the model's context without any demonstration, found text {number}, which is "
                "empty or longer; a prompt is not cut"
            )


def _public(plan: PromptPlan) -> list[Demonstration] | None:
    prompt = plan.prompt
    if prompt.public is None:
        return None
    found = labelled(prompt.public, prompt, plan.path, "public")
    return list(zip(found.texts, found.labels, strict=True))


def _taught(
    plan: PromptPlan,
    session: Session,
    asked: int,
    texts: int,
    released: int,
    answered: list[Demonstration],
    labeller: Labeller,
    public: Any,
) -> PromptOutcome:
    prompt, shape = plan.prompt, shape_of(plan.prompt)
    chosen = student(answered, shape, labeller, prompt.candidates, prompt.student_demonstrations, len(prompt.labels))
    accuracy = None
    if public:
        accuracy = (_accuracy(labeller, shape, chosen.demonstrations, public), _accuracy(labeller, shape, (), public))
    written = shape.prompt(chosen.demonstrations, "{text}")
    return PromptOutcome(
        plan, plan.folder, session.run, session.charged, asked, texts, len(answered), texts - released, chosen, written, accuracy
    )


def _accuracy(labeller: Labeller, shape: Shape, shown: tuple[Demonstration, ...], public: list[Demonstration]) -> float:
    """A text that does not fit behind the demonstrations is asked about with fewer of them."""
    return sum(labeller.label(fitted(shape, shown, text, labeller.fits)) == label for text, label in public) / len(public)


def _leave(outcome: PromptOutcome, released: list[tuple[str, int | None]]) -> None:
    """Labels, prompt and statement, each in one piece."""
    from dpcli.predict.documents.prediction_statement import statement

    names = outcome.plan.prompt.labels
    lines = [{"text": text, "label": None if label is None else names[label]} for text, label in released]
    content = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    replaced(os.path.join(outcome.folder, LABELS), content.encode("utf-8", "surrogatepass"))
    replaced(os.path.join(outcome.folder, PROMPT), outcome.prompt.encode("utf-8", "surrogatepass"))
    replaced(os.path.join(outcome.folder, STATEMENT), statement(outcome.plan, said(outcome)).encode())


def said(outcome: PromptOutcome) -> dict[str, str]:
    """What the session did, as answers of the disclosure statement; `done` is its first paragraph."""
    plan = outcome.plan
    return {
        "done": (
            f"{plan.prompt.teachers:,} teachers, prompts with private demonstrations, voted on {outcome.asked:,} of at most {plan.asked:,} "
            f"public texts; {outcome.answered:,} of the labels are in {LABELS}, and the prompt in {PROMPT} was chosen among them by these "
            "labels alone. All that may be asked is charged for, asked or not."
            f"{'' if outcome.charged else f' {RESTORED}'}"
        ),
        "randomness": "noise on the votes is drawn from the operating system; no seed exists and nothing is saved",
        "floating_point": "noise in double precision on whole votes; only the winner, or that there is none, is released",
        "clipping": "each unit's records are in one shard, and a shard has one vote",
        "query_model": "one-release",
    }
