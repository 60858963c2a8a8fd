"""The exam of one registered mechanism type, accountant, filter or format: its questions, their cases and the faults found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice

from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.registry import ACCOUNTANTS, FORMATS, MECHANISMS
from dpcli.document.formats.facts import shows
from dpcli.exam.accountant_plants import ACCOUNTANT_PLANTS, detected
from dpcli.exam.enumeration.bracket import references_of, row, situations
from dpcli.exam.examined import sound, unexamined
from dpcli.exam.filter_laws import OPENINGS, broken, drawn_runs, runs
from dpcli.exam.filter_plants import FILTER_PLANTS, opened
from dpcli.exam.filter_plants import undetected as undetected_in_filter
from dpcli.exam.known import answers, one_of_each
from dpcli.exam.mechanism_laws import LAWS
from dpcli.exam.plants import PLANTS, undetected
from dpcli.exam.subjects import drawn
from dpcli.exam.views import VIEWS, Tenth, contradictions
from dpcli.exam.views import answers as has_view
from dpcli.exam.written import WITHOUT, documents, left_out, render_of
from dpcli.exam.written import undetected as undetected_in_format
from dpcli.file.pipeline.model import Pipeline
from dpcli.ledger.plugin import FILTERS
from dpcli.mechanisms.mechanism import Mechanism

MOST_FAULTS = 8  # At most this many faults are reported for one question.


@dataclass(frozen=True, slots=True)
class ExamLine:
    """A question of the exam, the number of its cases, and the first few faults."""

    question: str
    cases: int
    faults: tuple[str, ...] = ()


def examine(name: str, seed: int) -> Iterator[ExamLine]:
    """Yield the answer to every question about the mechanism type, accountant, filter or format of this name.

    Raises InputError if none has this name.
    """
    for names, examiner in EXAMINERS:
        if name in names():
            return examiner(name, str(seed))
    choices = ", ".join(chain.from_iterable(names() for names, _ in EXAMINERS))
    raise InputError(f"expected a mechanism type, an accountant, a filter or a format, found {name!r}; there are: {choices}")


def mechanism(kind: str, seed: str) -> Iterator[ExamLine]:
    """Examine a mechanism type by enumeration, accountants, coverage, views, laws and planted bugs."""
    if not references_of(kind):
        yield ExamLine("it has references", 1, (f"none: its plugin states references = {{{kind!r}: 'module:REFERENCES'}}",))
    brackets = (row(*situated) for situated in situations(kind))
    yield exam_line(
        "lower bound <= enumeration <= upper bound",
        ((bracket.label, [str(fault) for fault in bracket.faults()]) for bracket in brackets),
    )
    yield exam_line(
        "no accountant's answer is false",
        (
            (f"{name}, {question.label}", [str(answer) for answer in answers(load(ACCOUNTANTS[name]), [question]) if answer.false])
            for question in one_of_each(kind, seed)
            for name in sound()
        ),
    )
    yield exam_line("what makes sense is enumerated", [(kind, [str(combination) for combination in sorted(unexamined(kind))])])
    subjects = drawn(kind, seed)
    mechanisms = [(subject, mechanism) for subject in subjects for mechanism, _ in subject.steps]
    yield exam_line(
        "no view contradicts another", ((subject.text, list(contradictions(mechanism))) for subject, mechanism in mechanisms)
    )
    yield exam_line("laws of any mechanism hold", ((subject.text, list(lawless(subject.pipeline))) for subject in subjects))
    yield exam_line("planted bugs are seen", ((plant, [plant] if undetected(kind, plant) else []) for plant in PLANTS))
    claiming = [mechanism for _, mechanism in mechanisms if mechanism.attained() and not mechanism.summed]
    yield exam_line("a view that is a tenth is seen", ((view, undetected_view(claiming, view)) for view in VIEWS))


def lawless(pipeline: Pipeline) -> Iterator[str]:
    """Yield each violation of the laws that hold for every mechanism."""
    for law in LAWS:
        with suppress(InputError):
            yield from (f"{law.__name__}: {fault}" for fault in law(pipeline))


def undetected_view(claiming: Sequence[Mechanism], view: str) -> list[str]:
    """Return [view] if the exam misses a tenth of that view, planted in mechanisms that attain their pairs; [] otherwise."""
    answering = [mechanism for mechanism in claiming if has_view(mechanism, view)]
    tenths = (Tenth(mechanism, view) for mechanism in answering)
    return [view] if answering and not any(next(contradictions(tenth), None) is not None for tenth in tenths) else []


def accountant(name: str, seed: str) -> Iterator[ExamLine]:
    """Examine an accountant by every enumeration and by planted bugs."""
    examined = load(ACCOUNTANTS[name])
    questions = [question for kind in MECHANISMS for question in one_of_each(kind, seed)]
    if examined.sound:
        replies = ((question.label, list(answers(examined, [question]))) for question in questions)
        yield exam_line("no answer is false", ((label, [str(reply) for reply in given if reply.false]) for label, given in replies))
        is_silent = next(answers(examined, questions), None) is None
        yield exam_line("it has an answer", [(name, ["none to any question"] if is_silent else [])])
    bugs = {plant: bug for plant, bug in ACCOUNTANT_PLANTS.items() if examined.sound or bug.claims}
    yield exam_line("planted bugs are seen", ((plant, [] if detected(bug, examined) else [plant]) for plant, bug in bugs.items()))


def privacy_filter(name: str, seed: str) -> Iterator[ExamLine]:
    """Examine a privacy filter by its laws and by planted bugs."""
    sample_runs = (*runs(), *drawn_runs(f"{seed}/{name}"))
    ledgers = (opened(name, *opening) for opening in OPENINGS)
    yield exam_line(
        "laws of any filter hold", ((f"{ledger.epsilon}, {ledger.delta}", list(broken(ledger, sample_runs))) for ledger in ledgers)
    )
    yield exam_line(
        "planted bugs are seen", ((plant, [plant] if undetected_in_filter(name, plant) else []) for plant in FILTER_PLANTS)
    )


def output_format(name: str, seed: str) -> Iterator[ExamLine]:
    """Examine an output format: it shows every part that it declares, and the exam notices when a part is dropped."""
    yield exam_line("it says what it shows", [(name, [] if shows(name) else ["nothing"])])
    drawings = [document for document, _ in documents(name, seed)]
    yield exam_line(
        "nothing is left out", ((document.title, list(left_out(name, render_of(name), document))) for document in drawings)
    )
    yield exam_line(
        "what is dropped is missed", ((what, [what] if undetected_in_format(name, what, seed) else []) for what in WITHOUT)
    )


def exam_line(question: str, cases: Iterable[tuple[str, Iterable[str]]]) -> ExamLine:
    """Return the line of a question. cases: (label, faults) of each case; the line has the first MOST_FAULTS faults."""
    count = 0
    faults: list[str] = []
    for label, wrong in cases:
        count += 1
        faults += (
            [f"{label}: {fault}" if fault != label else fault for fault in islice(wrong, MOST_FAULTS - len(faults))]
            if len(faults) < MOST_FAULTS
            else []
        )
    return ExamLine(question, count, tuple(faults))


EXAMINERS: tuple[tuple[Callable[[], Mapping[str, str]], Callable[[str, str], Iterator[ExamLine]]], ...] = (
    (lambda: MECHANISMS, mechanism),
    (lambda: ACCOUNTANTS, accountant),
    (lambda: FILTERS, privacy_filter),
    (lambda: FORMATS, output_format),
)
