"""A disclosure statement: the answers by chapter, and passages in plain words about what is promised and what is not."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpcli.analysis.budget_verdict import warning_level
from dpcli.analysis.curve import trade_off
from dpcli.analysis.meaning import Belief, GroupMeaning, Meaning
from dpcli.disclosure.disclosed_facts import Facts, amplified
from dpcli.disclosure.item_answers import at_most, charged, listing, stated_epsilon, window
from dpcli.disclosure.items import ASKED_BY, NOT_STATED, REGISTRY, REGISTRY_ASKED_BY, STATEMENT, Answer, Chapter
from dpcli.document.document import Passage
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.plots.drawing import bound, few, percent_up

ALARM = 0.01  # false positive rate of the attack that the statement describes
LARGEST_EPSILON = 30.0  # a larger epsilon is called no protection, since odds may change by a factor of e^30
USELESS = 0.999  # from this true positive rate on, the statement says that the bound rules out next to nothing

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

    They say what is promised, what an attacker can still find out, what the guarantee rests on, what it leaves out, and what the file does
    not state.
    """
    promised = (_promise(facts), _no_bound(facts)) if facts.meaning is None else (_promise(facts), _attack(facts, facts.meaning))
    rest = () if facts.meaning is None else (_groups(facts, facts.meaning), _rests_on(facts))
    return (*_refused(facts), *promised, *rest, _left_out(facts), *_to_ask(facts, answers))


def _refused(facts: Facts) -> tuple[Passage, ...]:
    """Return a passage with the rules that call the file unsound; an empty tuple if there are none."""
    if not facts.unsound:
        return ()
    broken = tuple(f"{one.rule}: {one.key + ': ' if one.key else ''}{one.message}" for one in facts.unsound)
    return (
        Passage("NOT SOUND", ("Do not rely on the number below: the file breaks a rule without which it does not hold.",), broken),
    )


def _promise(facts: Facts) -> Passage:
    if facts.meaning is None:
        return Passage("What is promised", ("Nothing: " + stated_epsilon(facts.account) + ".",))
    slack = (
        ""
        if facts.account.delta == 0.0
        else f" Delta ({facts.account.delta!r}) is added on top of every probability that this limit bounds; it should be far smaller than "
        f"one over the number of records{_of_records(facts)}."
    )
    return Passage(
        "What is promised",
        (
            f"There is a limit on how much the release can depend on any one {facts.unit}: {at_most(facts.account)}.",
            f"Smaller numbers promise more. With both at 0 the release would not depend on any one {facts.unit} at all.{slack}",
            *_budget(facts),
        ),
    )


def _of_records(facts: Facts) -> str:
    size = facts.privacy.dataset_size
    return f" (1/n is {1.0 / size:.2g} here)" if size else f" (their number is {NOT_STATED})"


def _budget(facts: Facts) -> tuple[str, ...]:
    budget = facts.account.budget
    if budget is None:
        return (f"No budget caps it: {NOT_STATED} in the file.",)
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
    verdict = " This limit rules out next to nothing." if caught >= USELESS else ""
    return Passage(
        "What an attacker can still find out",
        (
            f"Suppose that an attacker sees the release, already knows everything else about the data, and asks {secret}.",
            f"If they accept false alarms in {few(100.0 * ALARM)} % of the cases where {miss}, they recognise at most "
            f"{percent_up(caught)} of the cases where {hit}; without the release, {few(100.0 * ALARM)} %.{verdict}",
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
        f"right; without the release, {few(100.0 * belief.blind)} %."
    )


def _groups(facts: Facts, meaning: Meaning) -> Passage:
    groups = [f"{group.size} {facts.unit}s together: {_limit(group)}" for group in meaning.groups if group.size > 1]
    return Passage(
        "One person, several records",
        (
            _unit_sentence(facts),
            f"Groups of {facts.unit}s get less protection. {'; '.join(groups)} (at the same delta, adjacency and sampling; each by the "
            "accountant that bounds it best).",
        ),
    )


def _limit(group: GroupMeaning) -> str:
    if group.reason:
        return f"no limit is known ({group.reason})"
    return f"epsilon <= {bound(group.epsilon)}" + (", which is no protection" if group.epsilon > LARGEST_EPSILON else "")


def _unit_sentence(facts: Facts) -> str:
    unit, most = facts.privacy.unit, facts.privacy.max_contributions
    if unit is None:
        return (
            f"What one individual is, is {NOT_STATED}: the limit is about one record, and promises little to a person with several."
        )
    if most is None or unit == "example":
        return f"The limit is about one {unit}. A person with several gets less protection."
    if most == 1:
        return f"The limit is about one {unit} with at most one record."
    return f"The limit is about one {unit} with all of at most {most:,} records; the program must enforce that bound."


def _rests_on(facts: Facts) -> Passage:
    drawn = [entry.name for entry in facts.pipeline.mechanisms if amplified(entry)]
    return Passage(
        "What the number rests on",
        (
            f"It counts {listing(charged(facts))}, with the noise that the file states. The random numbers must stay secret.",
            *((f"It is about one part of the data: {window(facts)}.",) if window(facts) else ()),
            *(_drawn(drawn, facts) if drawn else ()),
        ),
    )


def _drawn(names: list[str], facts: Facts) -> tuple[str, ...]:
    if facts.unamplified is None:
        otherwise = "no other guarantee has been computed"
    else:
        otherwise = f"the statement becomes: {stated_epsilon(facts.unamplified)}"
    return (
        f"It relies on each batch being drawn at random as stated ({listing(names)}), and on nobody knowing which records are in it. "
        f"If the program goes through the data in shuffled or fixed order instead, as many data loaders do, {otherwise}.",
    )


def _left_out(facts: Facts) -> Passage:
    return Passage(
        "What it does not cover",
        ("The limit is silent on these:",),
        (
            "What the release shows about people in general, and so about those who are not in the data as well.",
            _other_releases(facts),
            "Anybody who can reach the raw data, or what the run leaves behind.",
            "Mistakes in the program: the number is about the file, and the program was not checked.",
        ),
    )


def _other_releases(facts: Facts) -> str:
    """Name other releases of the same data, in the words of the file where it has some."""
    stated = facts.pipeline.disclosure.other_releases
    known = f" ({' '.join(stated.split())})" if stated else ""
    return f"Other releases from the same data{known}: their costs add up."


def _to_ask(facts: Facts, answers: tuple[Answer, ...]) -> tuple[Passage, ...]:
    """Return the items that the file does not state, and the warnings of the rules."""
    silent = [answer.item.question for answer in answers if not answer.stated]
    warnings = [f"{diagnostic.rule}: {diagnostic.message}" for diagnostic in facts.diagnostics if diagnostic.severity != "error"]
    if not silent and not warnings:
        return ()
    silence = f"The file is silent on {len(silent)} of {len(answers)} items" if silent else "The file states every item"
    more = f"; {len(warnings)} warning{'s' if len(warnings) > 1 else ''} by dpcli lint" if warnings else ""
    return (Passage("What is still to be asked", (f"{silence}{more}:",), (*warnings, *silent)),)


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """A disclosure about one pipeline.

    Attributes:
        chapters: Title and answers, in the order of the form.
        asked_by: The documents that its letters stand for.
        passages: Plain words, if the form has any.
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
        """The answers that the file does not state."""
        return tuple(answer for answer in self.answers if not answer.stated)


def disclosure(facts: Facts) -> Statement:
    """Return the disclosure statement."""
    chapters = _answered(STATEMENT, facts)
    answers = tuple(answer for _, chapter in chapters for answer in chapter)
    return Statement("Disclosure statement", facts, chapters, ASKED_BY, plain(facts, answers))


def registry_entry(facts: Facts) -> Statement:
    """Return the entry for a registry of deployments."""
    return Statement("Registry entry", facts, _answered(REGISTRY, facts), REGISTRY_ASKED_BY)


def _answered(chapters: tuple[Chapter, ...], facts: Facts) -> tuple[tuple[str, tuple[Answer, ...]], ...]:
    return tuple((chapter.title, tuple(Answer(item, item.answer(facts)) for item in chapter.items)) for chapter in chapters)
