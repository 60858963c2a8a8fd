"""The exam of a registered mechanism type, accountant, filter or format. It consists of questions, each with cases and faults."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
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
from dpcli.exam.known import Known, Reply, answers, one_of_each
from dpcli.exam.mechanism_laws import LAWS
from dpcli.exam.plants import PLANTS, undetected
from dpcli.exam.subjects import drawn
from dpcli.exam.views import VIEWS, ReducedView, contradictions, has_view
from dpcli.exam.written import OMISSIONS, documents, left_out, render_of
from dpcli.exam.written import undetected as undetected_in_format
from dpcli.file.pipeline.model import Pipeline
from dpcli.ledger.plugin import FILTERS
from dpcli.mechanisms.mechanism import Mechanism

MOST_FAULTS = 8  # largest number of faults that are reported for one question


@dataclass(frozen=True, slots=True)
class ExamLine:
    """A question of the exam, the number of its cases, and its first MOST_FAULTS faults."""

    question: str
    cases: int
    faults: tuple[str, ...] = ()


def examine(name: str, seed: int) -> Iterator[ExamLine]:
    """Yield the line of every question about the mechanism type, accountant, filter or format with the given name.

    Raises InputError if the name is unknown.
    """
    for names, examiner in EXAMINERS:
        if name in names():
            return examiner(name, str(seed))
    choices = ", ".join(chain.from_iterable(names() for names, _ in EXAMINERS))
    raise InputError(f"expected a mechanism type, an accountant, a filter or a format, found {name!r}; known names: {choices}")


def mechanism(kind: str, seed: str) -> Iterator[ExamLine]:
    """Examine a mechanism type by enumeration, accountants, coverage, views, laws and planted bugs."""
    if not references_of(kind):
        yield ExamLine(
            "it has references", 1, (f"no references; its plugin must set references = {{{kind!r}: 'module:REFERENCES'}}",)
        )
    rows = (row(*situated) for situated in situations(kind))
    yield exam_line(
        "lower bound <= enumeration <= upper bound", ((bracket_row.label, bracket_row.faults()) for bracket_row in rows)
    )
    questions = itertools.product(one_of_each(kind, seed), sound())
    yield exam_line(
        "no accountant's answer is false",
        ((f"{name}, {question.label}", false_answers(name, question)) for question, name in questions),
    )
    yield exam_line("every valid combination is enumerated", [(kind, sorted(unexamined(kind)))])
    subjects = drawn(kind, seed)
    mechanisms = [(subject.text, mechanism) for subject in subjects for mechanism, _ in subject.steps]
    yield exam_line("no view contradicts another", ((text, contradictions(mechanism)) for text, mechanism in mechanisms))
    yield exam_line("laws of any mechanism hold", ((subject.text, lawless(subject.pipeline)) for subject in subjects))
    yield detection("planted bugs are detected", PLANTS, lambda plant: undetected(kind, plant))
    attaining = [mechanism for _, mechanism in mechanisms if mechanism.attained() and not mechanism.summed]
    yield detection("a view that is ten times too small is detected", VIEWS, lambda view: undetected_view(attaining, view))


def false_answers(name: str, question: Known) -> Iterator[Reply]:
    """Yield the replies of the named accountant that the enumeration contradicts."""
    return (reply for reply in answers(load(ACCOUNTANTS[name]), [question]) if reply.false)


def lawless(pipeline: Pipeline) -> Iterator[str]:
    """Yield each violation of the laws that hold for every mechanism."""
    for law in LAWS:
        with suppress(InputError):
            yield from (f"{law.__name__}: {fault}" for fault in law(pipeline))


def undetected_view(attaining: Sequence[Mechanism], view: str) -> bool:
    """Return whether the exam does not detect a planted bug that makes the view ten times too small.

    Args:
        attaining: Mechanisms that attain their dominating pairs. The bug is planted in each that has the view.
    """
    with_view = [mechanism for mechanism in attaining if has_view(mechanism, view)]
    planted = (ReducedView(mechanism, view) for mechanism in with_view)
    return bool(with_view) and not any(next(contradictions(bug), None) is not None for bug in planted)


def accountant(name: str, seed: str) -> Iterator[ExamLine]:
    """Examine an accountant by every enumeration and by planted bugs."""
    examined = load(ACCOUNTANTS[name])
    questions = [question for kind in MECHANISMS for question in one_of_each(kind, seed)]
    if examined.sound:
        yield exam_line("no answer is false", ((question.label, false_answers(name, question)) for question in questions))
        is_silent = next(answers(examined, questions), None) is None
        yield exam_line("it answers a question", [(name, ["no answer to any question"] if is_silent else [])])
    bugs = {plant: bug for plant, bug in ACCOUNTANT_PLANTS.items() if examined.sound or bug.claims}
    yield detection("planted bugs are detected", bugs, lambda plant: not detected(bugs[plant], examined))


def privacy_filter(name: str, seed: str) -> Iterator[ExamLine]:
    """Examine a privacy filter by its laws and by planted bugs."""
    sample_runs = (*runs(), *drawn_runs(f"{seed}/{name}"))
    ledgers = (opened(name, *opening) for opening in OPENINGS)
    yield exam_line(
        "laws of any filter hold", ((f"{ledger.epsilon}, {ledger.delta}", broken(ledger, sample_runs)) for ledger in ledgers)
    )
    yield detection("planted bugs are detected", FILTER_PLANTS, lambda plant: undetected_in_filter(name, plant))


def output_format(name: str, seed: str) -> Iterator[ExamLine]:
    """Examine an output format. It must show every part that it declares, and the exam must detect a part that is left out."""
    yield exam_line("it declares the parts that it shows", [(name, [] if shows(name) else ["it declares no part"])])
    drawings = (document for document, _ in documents(name, seed))
    yield exam_line(
        "no declared part is left out", ((document.title, left_out(name, render_of(name), document)) for document in drawings)
    )
    yield detection("omissions are detected", OMISSIONS, lambda omission: undetected_in_format(name, omission, seed))


def exam_line(question: str, cases: Iterable[tuple[str, Iterable[object]]]) -> ExamLine:
    """Return the line of a question, with its first MOST_FAULTS faults.

    Args:
        cases: Label and faults of each case.
    """
    count = 0
    faults: list[str] = []
    for label, case_faults in cases:
        count += 1
        shown_faults = islice(case_faults, MOST_FAULTS - len(faults))
        faults += [f"{label}: {fault}" for fault in shown_faults]
    return ExamLine(question, count, tuple(faults))


def detection(question: str, planted: Collection[str], is_undetected: Callable[[str], bool]) -> ExamLine:
    """Return the line of a question whose cases are planted faults, of which the undetected ones are listed."""
    undetected_names = (name for name in planted if is_undetected(name))
    return ExamLine(question, len(planted), tuple(islice(undetected_names, MOST_FAULTS)))


EXAMINERS: tuple[tuple[Callable[[], Mapping[str, str]], Callable[[str, str], Iterator[ExamLine]]], ...] = (
    (lambda: MECHANISMS, mechanism),
    (lambda: ACCOUNTANTS, accountant),
    (lambda: FILTERS, privacy_filter),
    (lambda: FORMATS, output_format),
)
