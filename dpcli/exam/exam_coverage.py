"""The coverage of the exam: which combinations of mechanism type, adjacency, sampling scheme and accountant it examines, and how.

`python -m dpcli.exam` prints it as a table. The exam compares bounds with an *enumeration* of all outcomes on small data (questions.py),
and tests *laws* that hold for any mechanism (mechanism_laws.py) on *subjects*, which are random valid files (subjects.py). A *question*
asks an accountant for bounds on the cost of enumerated releases, and a *reply* is its answer (questions.py). A combination that valid files
can have and that no enumeration covers is a gap (`combinations_without_enumeration`): the exam of its mechanism type reports it as a fault.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from dpcli.base.lazy import load
from dpcli.base.registry import ACCOUNTANTS, MECHANISMS
from dpcli.exam.enumeration.bracket import draws_within_a_run
from dpcli.exam.mechanism_laws import ACCOUNTANTS as ACCOUNTANTS_OF_LAWS
from dpcli.exam.questions import questions_about, replies
from dpcli.exam.subjects import SEED, drawn

SEEDS = 3  # number of seeds with which files are drawn; one seed alone might miss a combination; more take longer

LEGEND = (
    "E: compared with an enumeration of the worst release. L: tested by the laws of any mechanism. -: it gives a reason, and no number.",
    "~: it claims no bound, and decides nothing. !: not examined.",
)


@dataclass(frozen=True, slots=True, order=True)
class Combination:
    """A mechanism type (`kind`) with an adjacency, a sampling scheme and an accountant."""

    kind: str
    adjacency: str
    scheme: str
    accountant: str


def sound_accountants() -> tuple[str, ...]:
    """Return the names of the accountants whose numbers are bounds."""
    return tuple(name for name, target in ACCOUNTANTS.items() if load(target).sound)


@functools.cache
def valid_combinations(kind: str) -> frozenset[Combination]:
    """Return the combinations that occur in valid files, which are drawn at random, with every sound accountant.

    Samples that are drawn within a run are left out, because an enumeration covers only whole runs.
    """
    seeds = (str(SEED), *(f"{SEED}/{k}" for k in range(1, SEEDS)))
    subjects = chain.from_iterable(drawn(kind, seed) for seed in seeds)
    pairs = {(subject.adjacency, subject.scheme) for subject in subjects if not draws_within_a_run(kind, subject.scheme)}
    return frozenset(_combinations(kind, pairs, sound_accountants()))


def enumerated_combinations(kind: str) -> set[Combination]:
    """Return the combinations, with every sound accountant, whose bounds are compared with an enumeration."""
    return _combinations(kind, {(question.adjacency, question.scheme) for question in questions_about(kind)}, sound_accountants())


def combinations_under_laws(kind: str) -> set[Combination]:
    """Return the combinations for which the laws of any mechanism are tested, with the few accountants that the laws use."""
    return _combinations(kind, {(subject.adjacency, subject.scheme) for subject in drawn(kind, str(SEED))}, ACCOUNTANTS_OF_LAWS)


def _combinations(kind: str, pairs: Iterable[tuple[str, str]], accountants: Iterable[str]) -> set[Combination]:
    return {Combination(kind, *pair, name) for pair in pairs for name in accountants}


# The examinations by their letters in LEGEND, the stronger one first.
EXAMINERS: dict[str, Callable[[str], set[Combination]]] = {"E": enumerated_combinations, "L": combinations_under_laws}


def combinations_without_enumeration(kind: str) -> frozenset[Combination]:
    """Return the combinations of valid files that no enumeration covers."""
    return valid_combinations(kind) - enumerated_combinations(kind)


def table(kinds: Iterable[str] = MECHANISMS) -> Iterator[str]:
    """Yield the lines of a table with a row for each type, adjacency and scheme, and a column for each accountant.

    LEGEND explains the letters.
    """
    yield " ".join([f"{'type':18} {'adjacency':11} {'sampling':13}", *ACCOUNTANTS])
    for kind in kinds:
        examined = {letter: examiner(kind) for letter, examiner in EXAMINERS.items()}
        pairs = {(combination.adjacency, combination.scheme) for combination in valid_combinations(kind).union(*examined.values())}
        for adjacency, scheme in sorted(pairs):
            cells = ((name, _cell(Combination(kind, adjacency, scheme, name), examined)) for name in ACCOUNTANTS)
            yield " ".join([f"{kind:18} {adjacency:11} {scheme:13}", *(f"{cell:{len(name)}}" for name, cell in cells)])


def _cell(combination: Combination, examined: dict[str, set[Combination]]) -> str:
    """Return the letters of the examinations that cover a combination, or another sign of LEGEND."""
    accountant = load(ACCOUNTANTS[combination.accountant])
    if not accountant.sound:
        return "~"
    letters = "".join(letter for letter, combinations in examined.items() if combination in combinations)
    pair = (combination.adjacency, combination.scheme)
    questions = [question for question in questions_about(combination.kind) if (question.adjacency, question.scheme) == pair]
    if questions and next(replies(accountant, questions), None) is None:
        return "-"
    return letters or "!"
