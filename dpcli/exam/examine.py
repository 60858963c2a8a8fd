"""The questions of the exam for each registered mechanism type, accountant, filter and output format, and their results.

`examine` is the entry point: `python -m dpcli.exam` and the tests give it a registered name, and get an `ExamLine` for each question. A
question is asked about several *cases*, each of which passes if it has no fault. The other files of this folder find the faults. Their
words:

* A *reference* is an entry of a file with the releases that it allows; an enumeration of their outcomes on small data gives their delta. A
  *situation* is an adjacency, a sampling scheme and the size of units and groups (enumeration/).
* A *view* is one representation of a mechanism's cost. A mechanism *attains* its bounds if some data have exactly the cost that it reports.
* A *plant* is a bug that the exam builds into its subject, to see whether its own questions detect it.
* An *opening* is the cap (epsilon, delta) of a ledger, with which a privacy filter is tried.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, islice

from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.registry import ACCOUNTANTS, FORMATS, MECHANISMS
from dpcli.document.formats.facts import shows
from dpcli.exam.accountant_plants import ACCOUNTANT_PLANTS, is_detected
from dpcli.exam.enumeration.bracket import references_of, row, situations
from dpcli.exam.exam_coverage import combinations_without_enumeration, sound_accountants
from dpcli.exam.filter_laws import OPENINGS, drawn_runs, runs, violations
from dpcli.exam.filter_plants import FILTER_PLANTS, examined_ledger, undetected_in_filter
from dpcli.exam.format_omissions import OMISSIONS, drawn_documents, renderer, rendering_faults, undetected_in_format
from dpcli.exam.mechanism_laws import LAWS
from dpcli.exam.mechanism_plants import PLANTS, undetected_in_mechanism
from dpcli.exam.questions import ExamQuestion, Reply, question_sample, replies
from dpcli.exam.subjects import drawn
from dpcli.exam.views import VIEWS, ReducedView, contradictions, has_view
from dpcli.file.pipeline.model import Pipeline
from dpcli.ledger.plugin import FILTERS
from dpcli.mechanisms.mechanism import Mechanism

MOST_FAULTS = 8  # largest number of faults that are reported for one question, which saves time and leaves the report readable


@dataclass(frozen=True, slots=True)
class ExamLine:
    """The result of one question.

    Attributes:
        question: The property that every case must have. `examine` puts the kind of subject before it.
        cases: Number of cases. After MOST_FAULTS faults, the rest of them may be untested.
        faults: The first MOST_FAULTS faults, in words; empty if there are none.
    """

    question: str
    cases: int
    faults: tuple[str, ...] = ()


def examine(name: str, seed: int) -> Iterator[ExamLine]:
    """Return an iterator over the results of all questions about a registered name, which it computes one by one.

    A name may have several subjects, such as a mechanism type and an accountant. All of them are examined, with random cases from the seed.
    Raises InputError if the name is unknown.
    """
    examiners = [(subject, examiner) for subject, (names, examiner) in EXAMINERS.items() if name in names()]
    if not examiners:
        choices = ", ".join(dict.fromkeys(chain.from_iterable(names() for names, _ in EXAMINERS.values())))
        raise InputError(f"expected a mechanism type, an accountant, a filter or a format, found {name!r}; known names: {choices}")
    return (
        replace(line, question=f"{subject}: {line.question}")
        for subject, examiner in examiners
        for line in examiner(name, str(seed))
    )


def mechanism(kind: str, seed: str) -> Iterator[ExamLine]:
    """Yield the results for a mechanism type. A type without references is a fault by itself, because nothing can then be enumerated."""
    if not references_of(kind):
        yield ExamLine(
            "it has references", 1, (f"no references; its plugin must set references = {{{kind!r}: 'module:REFERENCES'}}",)
        )
    rows = (row(reference, scheme, situation) for reference, scheme, situation in situations(kind))
    yield exam_line(
        "lower bound <= enumeration <= upper bound", ((bracket_row.label, bracket_row.faults()) for bracket_row in rows)
    )
    questions = itertools.product(question_sample(kind, seed), sound_accountants())
    yield exam_line(
        "no accountant's answer is false",
        ((f"{name}, {question.label}", false_answers(name, question)) for question, name in questions),
    )
    yield exam_line("every valid combination is enumerated", [(kind, sorted(combinations_without_enumeration(kind)))])
    subjects = drawn(kind, seed)
    mechanisms = [(subject.text, mechanism) for subject in subjects for mechanism, _ in subject.steps]
    yield exam_line("no view contradicts another", ((text, contradictions(mechanism)) for text, mechanism in mechanisms))
    yield exam_line("laws of any mechanism hold", ((subject.text, lawless(subject.pipeline)) for subject in subjects))
    yield detection("planted bugs are detected", PLANTS, lambda plant: undetected_in_mechanism(kind, plant))
    # The tails of a composition of parts are bounds from a grid, and the laws about tails do not apply to it.
    attaining = [mechanism for _, mechanism in mechanisms if mechanism.attained() and not mechanism.is_composition]
    yield detection("a view that is ten times too small is detected", VIEWS, lambda view: undetected_view(attaining, view))


def false_answers(name: str, question: ExamQuestion) -> Iterator[Reply]:
    """Return an iterator over the replies of the named accountant that the enumeration contradicts."""
    return (reply for reply in replies(load(ACCOUNTANTS[name]), [question]) if reply.is_false)


def lawless(pipeline: Pipeline) -> Iterator[str]:
    """Yield each violation of the laws of any mechanism. A law is skipped if it cannot be tested on this pipeline."""
    for law in LAWS:
        with suppress(InputError):
            yield from (f"{law.__name__}: {fault}" for fault in law(pipeline))


def undetected_view(attaining: Sequence[Mechanism], view: str) -> bool:
    """Return whether no contradiction reveals a planted bug that makes a view ten times too small. False if no mechanism has the view.

    Args:
        attaining: Mechanisms that attain their dominating pairs. The bug is planted in each that has the view.
        view: Name of the view, a key of VIEWS.
    """
    with_view = [mechanism for mechanism in attaining if has_view(mechanism, view)]
    planted = (ReducedView(mechanism, view) for mechanism in with_view)
    return bool(with_view) and not any(next(contradictions(bug), None) is not None for bug in planted)


def accountant(name: str, seed: str) -> Iterator[ExamLine]:
    """Yield the results for an accountant. If it claims no bounds, only bugs that claim bounds are planted."""
    examined = load(ACCOUNTANTS[name])
    questions = [question for kind in MECHANISMS for question in question_sample(kind, seed)]
    if examined.sound:
        yield exam_line("no answer is false", ((question.label, false_answers(name, question)) for question in questions))
        is_silent = next(replies(examined, questions), None) is None
        yield exam_line("it answers a question", [(name, ["no answer to any question"] if is_silent else [])])
    bugs = {plant: bug for plant, bug in ACCOUNTANT_PLANTS.items() if examined.sound or bug.claims}
    yield detection("planted bugs are detected", bugs, lambda plant: not is_detected(bugs[plant], examined))


def privacy_filter(name: str, seed: str) -> Iterator[ExamLine]:
    """Yield the results for a privacy filter: its laws under several caps, and planted bugs."""
    sample_runs = (*runs(), *drawn_runs(f"{seed}/{name}"))
    ledgers = (examined_ledger(name, *opening) for opening in OPENINGS)
    yield exam_line(
        "laws of any filter hold", ((f"{ledger.epsilon}, {ledger.delta}", violations(ledger, sample_runs)) for ledger in ledgers)
    )
    yield detection("planted bugs are detected", FILTER_PLANTS, lambda plant: undetected_in_filter(name, plant))


def output_format(name: str, seed: str) -> Iterator[ExamLine]:
    """Yield the results for an output format: it shows every part that it declares, and an omitted part is detected."""
    yield exam_line("it declares the parts that it shows", [(name, [] if shows(name) else ["it declares no part"])])
    documents = (document for document, _ in drawn_documents(name, seed))
    render = renderer(name)
    yield exam_line(
        "no declared part is left out", ((document.title, rendering_faults(name, render, document)) for document in documents)
    )
    yield detection("omissions are detected", OMISSIONS, lambda omission: undetected_in_format(name, omission, seed))


def exam_line(question: str, cases: Iterable[tuple[str, Iterable[object]]]) -> ExamLine:
    """Return the result of a question. Every case is counted; faults beyond MOST_FAULTS are not read.

    Args:
        cases: Label and faults of each case. The text of a fault is its `str`.
    """
    count = 0
    faults: list[str] = []
    for label, case_faults in cases:
        count += 1
        shown_faults = islice(case_faults, MOST_FAULTS - len(faults))
        faults += [f"{label}: {fault}" for fault in shown_faults]
    return ExamLine(question, count, tuple(faults))


def detection(question: str, planted: Collection[str], is_undetected: Callable[[str], bool]) -> ExamLine:
    """Return the result of a question whose cases are planted bugs. Each undetected bug is a fault.

    Args:
        planted: Names of the bugs.
        is_undetected: Function from a name to whether the exam misses the bug.
    """
    undetected_names = (name for name in planted if is_undetected(name))
    return ExamLine(question, len(planted), tuple(islice(undetected_names, MOST_FAULTS)))


# For each kind of subject: a function that returns its registry, and a function that yields the results for a name and a seed. Registries
# are read only when they are used, because they may be replaced.
EXAMINERS: dict[str, tuple[Callable[[], Mapping[str, str]], Callable[[str, str], Iterator[ExamLine]]]] = {
    "mechanism": (lambda: MECHANISMS, mechanism),
    "accountant": (lambda: ACCOUNTANTS, accountant),
    "filter": (lambda: FILTERS, privacy_filter),
    "format": (lambda: FORMATS, output_format),
}
