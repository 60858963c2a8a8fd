"""A disclosure statement: the answers by chapter, and passages in plain words about the guarantee and its limits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from dpcli.analysis.budget_verdict import warning_level
from dpcli.analysis.curve import trade_off
from dpcli.analysis.meaning import Belief, GroupMeaning, Meaning
from dpcli.disclosure.disclosed_facts import Facts, amplified
from dpcli.disclosure.item_answers import at_most, charged_mechanisms, listing, stated_epsilon, window
from dpcli.disclosure.items import ASKED_BY, NOT_STATED, REGISTRY, REGISTRY_ASKED_BY, STATEMENT, Answer, Chapter
from dpcli.document.document import Passage
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.plots.drawing import bound, few, percent_up

ALARM = 0.01  # false positive rate of the attack that the statement describes
LARGEST_EPSILON = 30.0  # a larger epsilon is called no protection, as it lets odds change by more than a factor of e^30
USELESS = 0.999  # from this true positive rate on, the statement calls the bound almost useless

SECRETS = {
    Adjacency.ADD_REMOVE: "whether one {unit} is in the data",
    Adjacency.REPLACE_ONE: "which of two versions of one {unit} is in the data",
    Adjacency.ZERO_OUT: "whether one {unit} is in the data or was blanked out",
}
HITS = {
    Adjacency.ADD_REMOVE: ("this {unit} is", "this {unit} is not in the data"),
    Adjacency.REPLACE_ONE: ("the first version is", "the second version is in the data"),
    Adjacency.ZERO_OUT: ("this {unit} is in the data", "this {unit} was blanked out"),
}


def plain(facts: Facts, answers: tuple[Answer, ...]) -> tuple[Passage, ...]:
    """Return the passages in plain words.

    They explain the guarantee, the attacks that remain possible, the assumptions of the guarantee, its limits, and the items that the file
    does not state.
    """
    guarantee = (_promise(facts), _no_bound(facts)) if facts.meaning is None else (_promise(facts), _attack(facts, facts.meaning))
    rest = () if facts.meaning is None else (_groups(facts, facts.meaning), _assumptions(facts))
    return (*_unsound_passage(facts), *guarantee, *rest, _not_covered(facts), *_open_questions(facts, answers))


def _unsound_passage(facts: Facts) -> tuple[Passage, ...]:
    """Return a passage with the rules that call the file unsound; an empty tuple if there are none."""
    if not facts.unsound:
        return ()
    broken = tuple(f"{one.rule}: {one.key + ': ' if one.key else ''}{one.message}" for one in facts.unsound)
    return (Passage("NOT SOUND", ("Do not rely on the number below. The file breaks a rule that the number depends on.",), broken),)


def _promise(facts: Facts) -> Passage:
    if facts.meaning is None:
        return Passage("What is promised", ("Nothing: " + stated_epsilon(facts.account) + ".",))
    slack = (
        ""
        if facts.account.delta == 0.0
        else f" Delta ({facts.account.delta!r}) is added to every probability that this limit bounds. It should be far smaller than one "
        f"over the number of records{_inverse_size(facts)}."
    )
    return Passage(
        "What is promised",
        (
            f"There is a limit on how much the release can depend on any one {facts.unit}: {at_most(facts.account)}.",
            f"Smaller numbers promise more. With both at 0 the release would not depend on any one {facts.unit} at all.{slack}",
            *_budget(facts),
        ),
    )


def _inverse_size(facts: Facts) -> str:
    size = facts.privacy.dataset_size
    return f" (1/n is {1.0 / size:.2g} here)" if size else f" (their number is {NOT_STATED})"


def _budget(facts: Facts) -> tuple[str, ...]:
    budget = facts.account.budget
    if budget is None:
        return (f"No budget limits it: {NOT_STATED} in the file.",)
    words = {
        "pass": "The release is within its budget",
        "warn": f"The release is within its budget, but above its {warning_level(facts.account.pipeline)}",
        "fail": "The release is OVER its budget",
        "unknown": "Whether the release is within its budget cannot be certified",
    }
    return (f"{words[budget.verdict]}: {budget.words()}.",)


def _no_bound(facts: Facts) -> Passage:
    return Passage(
        "What an attacker can still find out",
        (f"Possibly everything about one {facts.unit}: no bound is known. Treat the release like the raw data.",),
    )


def _attack(facts: Facts, meaning: Meaning) -> Passage:
    secret, hit, miss = (
        words.format(unit=facts.unit) for words in (SECRETS[facts.privacy.adjacency], *HITS[facts.privacy.adjacency])
    )
    caught = 1.0 - float(trade_off(meaning.curve, [ALARM])[0])
    verdict = " This limit rules out almost nothing." if caught >= USELESS else ""
    return Passage(
        "What an attacker can still find out",
        (
            f"Suppose that an attacker sees the release, already knows everything else about the data, and asks {secret}.",
            f"If they accept false alarms in {few(100.0 * ALARM)} % of the cases where {miss}, they recognise at most "
            f"{percent_up(caught)} of the cases where {hit}. Without the release, they recognise {few(100.0 * ALARM)} %.{verdict}",
            *(_posterior_sentence(belief, meaning) for belief in meaning.beliefs),
            _guess_sentence(min(meaning.beliefs, key=lambda belief: belief.blind)),
        ),
    )


def _posterior_sentence(belief: Belief, meaning: Meaning) -> str:
    surely = "" if meaning.exception == 0.0 else f", except with a probability of at most {meaning.exception!r}"
    after = (
        "nothing limits how sure they may be afterwards"
        if math.isinf(meaning.pointwise)
        else f"they are at most {percent_up(belief.posterior)} sure afterwards{surely}"
    )
    return f"If they were {few(100.0 * belief.prior)} % sure of it beforehand, {after}."


def _guess_sentence(belief: Belief) -> str:
    return (
        f"If they were {few(100.0 * belief.prior)} % sure of it beforehand, at most {percent_up(belief.success)} of their guesses are "
        f"right. Without the release, {few(100.0 * belief.blind)} % are."
    )


def _groups(facts: Facts, meaning: Meaning) -> Passage:
    groups = [f"{group.size} {facts.unit}s together: {_limit(group)}" for group in meaning.groups if group.size > 1]
    return Passage(
        "One person, several records",
        (
            _unit_sentence(facts),
            f"Groups of {facts.unit}s get less protection. {'; '.join(groups)} (at the same delta, adjacency and sampling, each by the "
            "accountant with the smallest bound).",
        ),
    )


def _limit(group: GroupMeaning) -> str:
    if group.reason:
        return f"no limit is known ({group.reason})"
    return f"epsilon <= {bound(group.epsilon)}" + (", which is no protection" if group.epsilon > LARGEST_EPSILON else "")


def _unit_sentence(facts: Facts) -> str:
    unit, most = facts.privacy.unit, facts.privacy.max_contributions
    if unit is None:
        return f"The protected individual is {NOT_STATED}. The limit is about one record, and protects a person with several records less."
    if most is None or unit == "example":
        return f"The limit is about one {unit}. A person with several {unit}s gets less protection."
    if most == 1:
        return f"The limit is about one {unit} with at most one record."
    return f"The limit is about one {unit} with all of at most {most:,} records; the program must enforce that bound."


def _assumptions(facts: Facts) -> Passage:
    drawn = [entry.name for entry in facts.pipeline.mechanisms if amplified(entry)]
    return Passage(
        "What the number rests on",
        (
            f"It counts {listing(charged_mechanisms(facts))}, with the noise that the file states. The random numbers must stay secret.",
            *(() if facts.proof is None else (f"It is {facts.proof.words}.",)),
            *((f"It is about one part of the data: {window(facts)}.",) if window(facts) else ()),
            *(_sampling_sentences(drawn, facts) if drawn else ()),
        ),
    )


def _sampling_sentences(names: list[str], facts: Facts) -> tuple[str, ...]:
    if facts.unamplified is None:
        otherwise = "no other guarantee has been computed"
    else:
        otherwise = f"the statement becomes: {stated_epsilon(facts.unamplified)}"
    return (
        f"It relies on each batch being drawn at random as stated ({listing(names)}), and on the records of a batch staying secret. "
        f"If the program reads the data in shuffled or fixed order instead, as many data loaders do, {otherwise}.",
    )


def _not_covered(facts: Facts) -> Passage:
    return Passage(
        "What it does not cover",
        ("The limit says nothing about these:",),
        (
            "What the release reveals about people in general, including those who are not in the data.",
            _other_releases(facts),
            "Anybody with access to the raw data, or to the files of the run.",
            "Mistakes in the program. The number is about the file, and the program was not checked.",
        ),
    )


def _other_releases(facts: Facts) -> str:
    """Return a sentence about other releases of the same data, with the file's description of them if it has one."""
    stated = facts.pipeline.disclosure.other_releases
    known = f" ({' '.join(stated.split())})" if stated else ""
    return f"Other releases from the same data{known}. Their costs add up."


def _open_questions(facts: Facts, answers: tuple[Answer, ...]) -> tuple[Passage, ...]:
    """Return a passage with the items that the file does not state and the warnings of the rules; () if there are neither."""
    silent = [answer.item.question for answer in answers if not answer.stated]
    warnings = [f"{diagnostic.rule}: {diagnostic.message}" for diagnostic in facts.diagnostics if diagnostic.severity != "error"]
    if not silent and not warnings:
        return ()
    silence = f"The file does not state {len(silent)} of {len(answers)} items" if silent else "The file states every item"
    more = f"; {len(warnings)} warning{'s' if len(warnings) > 1 else ''} by dpcli lint" if warnings else ""
    return (Passage("Open questions", (f"{silence}{more}:",), (*warnings, *silent)),)


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """A disclosure about one pipeline.

    Attributes:
        chapters: Title and answers of each chapter, in the order of the form.
        asked_by: Documents for which the letters in the items stand.
        passages: Passages in plain words; () if the form has none.
    """

    title: str
    facts: Facts
    chapters: tuple[tuple[str, tuple[Answer, ...]], ...]
    asked_by: tuple[str, ...]
    passages: tuple[Passage, ...] = ()

    @property
    def answers(self) -> tuple[Answer, ...]:
        return tuple(answer for _, chapter in self.chapters for answer in chapter)

    @property
    def silent(self) -> tuple[Answer, ...]:
        """Return the answers to items about which the file says nothing."""
        return tuple(answer for answer in self.answers if not answer.stated)


def disclosure(facts: Facts) -> Statement:
    """Return the disclosure statement."""
    chapters = _answer_chapters(STATEMENT, facts)
    answers = tuple(answer for _, chapter in chapters for answer in chapter)
    return Statement("Disclosure statement", facts, chapters, ASKED_BY, plain(facts, answers))


def registry_entry(facts: Facts) -> Statement:
    """Return the entry for a registry of deployments."""
    return Statement("Registry entry", facts, _answer_chapters(REGISTRY, facts), REGISTRY_ASKED_BY)


def _answer_chapters(chapters: tuple[Chapter, ...], facts: Facts) -> tuple[tuple[str, tuple[Answer, ...]], ...]:
    return tuple((chapter.title, tuple(_answered(chapter, facts))) for chapter in chapters)


def _answered(chapter: Chapter, facts: Facts) -> Iterator[Answer]:
    """Yield the answers of a chapter. An item that neither has an answer nor a key that could state it is left out."""
    for item in chapter.items:
        text = item.answer(facts)
        if item.keys or text is not None:
            yield Answer(item, text)
