"""A disclosure statement: the answers by chapter, and passages in plain words.

`dpcli report` prints it (documents/disclosure.py). A *form* is a list of *items*, questions that a paper or a registry asks about a private
release, in chapters (items.py); an answer is taken from the file and its *account*, the certified epsilon and delta (disclosed_facts.py).
An item without an answer is printed as NOT STATED. A *passage* is paragraphs under a title, and perhaps a list. The passages say what is
promised, what an attacker can still find out, what the number rests on, and what it does not cover; upper bounds in them are rounded up.
People who cannot check the number read this text: each sentence must hold for every file that gets it, and the rules that call a file
unsound come first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from dpcli.analysis.budget_verdict import warning_level
from dpcli.analysis.curve import trade_off
from dpcli.analysis.meaning import Belief, GroupMeaning, Meaning
from dpcli.base.rounding import counted, up
from dpcli.disclosure.disclosed_facts import Facts, amplified
from dpcli.disclosure.item_answers import at_most, charged_mechanisms, stated_epsilon, window
from dpcli.disclosure.items import ASKED_BY, NOT_STATED, REGISTRY, REGISTRY_ASKED_BY, STATEMENT, Answer, Chapter
from dpcli.disclosure.mechanism_words import listing
from dpcli.document.document import Passage
from dpcli.document.short_numbers import short_number, short_percent_up
from dpcli.mechanisms.neighbours import Adjacency

# The three are arbitrary. They choose what the statement says; its numbers are bounds for any choice.
ALARM = 0.01  # false positive rate of the attack that the statement describes
LARGEST_EPSILON = 30.0  # A larger epsilon is called no protection: it lets odds change by more than a factor of e^30.
USELESS = 0.999  # From this true positive rate on, the statement says that the bound rules out almost nothing.

Form = Literal["report", "registry"]
PROMISE, ATTACK = "What is promised", "What an attacker can still find out"  # titles of passages


@dataclass(frozen=True, slots=True)
class AttackerQuestion:
    """The question of an attacker about one unit, as words with {unit}.

    hit: the case that the attacker tries to recognise.
    miss: the other case, in which this is a false alarm.
    """

    secret: str
    hit: str
    miss: str


QUESTIONS = {
    Adjacency.ADD_REMOVE: AttackerQuestion("whether one {unit} is in the data", "this {unit} is", "this {unit} is not in the data"),
    Adjacency.REPLACE_ONE: AttackerQuestion(
        "which of two versions of one {unit} is in the data", "the first version is", "the second version is in the data"
    ),
    Adjacency.ZERO_OUT: AttackerQuestion(
        "whether one {unit} is in the data or was blanked out", "this {unit} is in the data", "this {unit} was blanked out"
    ),
}


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """A disclosure about one pipeline.

    form: name of the form, and of the JSON schema.
    chapters: title and answers of each chapter, in the order of the form.
    asked_by: documents for which the letters in `asked_by` of the items stand.
    passages: passages in plain words; () if the form has none.
    """

    form: Form
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
        """The answers that the file does not state."""
        return tuple(answer for answer in self.answers if not answer.stated)


def disclosure(facts: Facts) -> Statement:
    """Return the disclosure statement, with passages in plain words."""
    chapters = _answer_chapters(STATEMENT, facts)
    answers = tuple(answer for _, chapter in chapters for answer in chapter)
    return Statement("report", "Disclosure statement", facts, chapters, ASKED_BY, _plain_words(facts, answers))


def registry_entry(facts: Facts) -> Statement:
    """Return the entry for a registry of deployments, which has no passages."""
    return Statement("registry", "Registry entry", facts, _answer_chapters(REGISTRY, facts), REGISTRY_ASKED_BY)


def _answer_chapters(chapters: tuple[Chapter, ...], facts: Facts) -> tuple[tuple[str, tuple[Answer, ...]], ...]:
    return tuple((chapter.title, tuple(_answered(chapter, facts))) for chapter in chapters)


def _answered(chapter: Chapter, facts: Facts) -> Iterator[Answer]:
    """Yield the answers of a chapter. An item that neither has an answer nor a key that could state it is left out."""
    for item in chapter.items:
        text = item.answer(facts)
        if item.keys or text is not None:
            yield Answer(item, text)


def _plain_words(facts: Facts, answers: tuple[Answer, ...]) -> tuple[Passage, ...]:
    """Return the passages in plain words. The last ones name the items that the file does not state."""
    guarantee: tuple[Passage, ...]
    if facts.meaning is None:
        guarantee = _no_guarantee(facts)
    else:
        guarantee = (_promise(facts), _attack(facts, facts.meaning), _groups(facts, facts.meaning), _assumptions(facts))
    return (*_unsound_passage(facts), *guarantee, _not_covered(facts), *_open_questions(facts, answers))


def _unsound_passage(facts: Facts) -> tuple[Passage, ...]:
    """Return a passage with the rules that call the file unsound; an empty tuple if there are none."""
    if not facts.unsound:
        return ()
    broken = []
    for diagnostic in facts.unsound:
        place = f"{diagnostic.key}: " if diagnostic.key else ""
        broken.append(f"{diagnostic.rule}: {place}{diagnostic.message}")
    warning = "Do not rely on the number below. The file breaks a rule that the number depends on."
    return (Passage("NOT SOUND", (warning,), tuple(broken)),)


def _no_guarantee(facts: Facts) -> tuple[Passage, Passage]:
    everything = f"Possibly everything about one {facts.unit}: no bound is known. Treat the release like the raw data."
    return Passage(PROMISE, (f"Nothing: {stated_epsilon(facts.account)}.",)), Passage(ATTACK, (everything,))


def _promise(facts: Facts) -> Passage:
    limit = f"There is a limit on how much the release can depend on any one {facts.unit}: {at_most(facts.account)}."
    scale = f"Smaller numbers promise more. With both at 0 the release would not depend on any one {facts.unit} at all."
    if facts.account.delta != 0.0:
        scale += f" {_delta_sentences(facts)}"
    return Passage(PROMISE, (limit, scale, _budget_sentence(facts)))


def _delta_sentences(facts: Facts) -> str:
    size = facts.privacy.dataset_size
    inverse_size = f"1/n is {1.0 / size:.2g} here" if size else f"their number is {NOT_STATED}"
    return (
        f"Delta ({facts.account.delta!r}) is added to every probability that this limit bounds. It should be far smaller than one over "
        f"the number of records ({inverse_size})."
    )


def _budget_sentence(facts: Facts) -> str:
    budget = facts.account.budget
    if budget is None:
        return f"No budget limits it: {NOT_STATED} in the file."
    words = {
        "pass": "The release is within its budget",
        "warn": f"The release is within its budget, but above its {warning_level(facts.account.pipeline)}",
        "fail": "The release is OVER its budget",
        "unknown": "Whether the release is within its budget cannot be certified",
    }
    return f"{words[budget.verdict]}: {budget.words()}."


def _attack(facts: Facts, meaning: Meaning) -> Passage:
    question = QUESTIONS[facts.privacy.adjacency]
    secret, hit, miss = (words.format(unit=facts.unit) for words in (question.secret, question.hit, question.miss))
    (missed,) = trade_off(meaning.curve, [ALARM])  # a lower bound on the false negative rate
    hit_rate = 1.0 - float(missed)
    alarm = f"{short_number(100.0 * ALARM)} %"
    rates = (
        f"If they accept false alarms in {alarm} of the cases where {miss}, they recognise at most {short_percent_up(hit_rate)} of the "
        f"cases where {hit}. Without the release, they recognise {alarm}."
    )
    if hit_rate >= USELESS:
        rates += " This limit rules out almost nothing."
    return Passage(
        ATTACK,
        (
            f"Suppose that an attacker sees the release, already knows everything else about the data, and asks {secret}.",
            rates,
            *(_posterior_sentence(belief, meaning) for belief in meaning.beliefs),
            _guess_sentence(min(meaning.beliefs, key=lambda belief: belief.blind)),  # the observer who knows least beforehand
        ),
    )


def _posterior_sentence(belief: Belief, meaning: Meaning) -> str:
    if math.isinf(meaning.pointwise):
        after = "nothing limits how sure they may be afterwards"
    else:
        after = f"they are at most {short_percent_up(belief.posterior)} sure afterwards"
        if meaning.exception > 0.0:
            after += f", except with a probability of at most {meaning.exception!r}"
    return f"If they were {short_number(100.0 * belief.prior)} % sure of it beforehand, {after}."


def _guess_sentence(belief: Belief) -> str:
    return (
        f"If they were {short_number(100.0 * belief.prior)} % sure of it beforehand, at most {short_percent_up(belief.success)} of their "
        f"guesses are right. Without the release, {short_number(100.0 * belief.blind)} % are."
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
    limit = f"epsilon <= {up(group.epsilon)}"
    return f"{limit}, which is no protection" if group.epsilon > LARGEST_EPSILON else limit


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
    counted = listing(charged_mechanisms(facts))
    paragraphs = [f"It counts {counted}, with the noise that the file states. The random numbers must stay secret."]
    if facts.proof is not None:
        paragraphs.append(f"It is {facts.proof.words}.")
    if window(facts):
        paragraphs.append(f"It is about one part of the data: {window(facts)}.")
    sampled = [entry.name for entry in facts.pipeline.mechanisms if amplified(entry)]
    if sampled:
        paragraphs.append(_sampling_sentences(sampled, facts))
    return Passage("What the number rests on", tuple(paragraphs))


def _sampling_sentences(names: list[str], facts: Facts) -> str:
    if facts.unamplified is None:
        otherwise = "no other guarantee has been computed"
    else:
        otherwise = f"the statement becomes: {stated_epsilon(facts.unamplified)}"
    return (
        f"It relies on each batch being drawn at random as stated ({listing(names)}), and on the records of a batch staying secret. "
        f"If the program reads the data in shuffled or fixed order instead, as many data loaders do, {otherwise}."
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
    summary = f"The file does not state {len(silent)} of {len(answers)} items" if silent else "The file states every item"
    if warnings:
        summary += f"; {counted(len(warnings), 'warning')} by dpcli lint"
    return (Passage("Open questions", (f"{summary}:",), (*warnings, *silent)),)
