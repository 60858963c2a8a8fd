"""A whole disclosure: the answers by chapter, and the plain words."""

from __future__ import annotations

from dataclasses import dataclass

from dpcli.disclosure import items, registry_form
from dpcli.disclosure.facts import Facts
from dpcli.disclosure.item import Answer, Chapter
from dpcli.disclosure.plain import PlainPassage, plain


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """What is disclosed about one pipeline.

    chapters: title and answers, in the order of the form. asked_by: what its letters stand for. passages: the plain words, if the form
    has any.
    """

    title: str
    facts: Facts
    chapters: tuple[tuple[str, tuple[Answer, ...]], ...]
    asked_by: tuple[str, ...]
    passages: tuple[PlainPassage, ...] = ()

    @property
    def answers(self) -> tuple[Answer, ...]:
        """All of them, in order."""
        return tuple(answer for _, found in self.chapters for answer in found)

    @property
    def silent(self) -> tuple[Answer, ...]:
        """Those that the file does not state."""
        return tuple(answer for answer in self.answers if not answer.stated)


def disclosure(facts: Facts) -> Statement:
    """The disclosure statement."""
    chapters = _answered(items.STATEMENT, facts)
    answers = tuple(answer for _, found in chapters for answer in found)
    return Statement("Disclosure statement", facts, chapters, items.ASKED_BY, plain(facts, answers))


def registry_entry(facts: Facts) -> Statement:
    """The entry for a registry of deployments."""
    return Statement("Registry entry", facts, _answered(registry_form.FORM, facts), registry_form.ASKED_BY)


def _answered(chapters: tuple[Chapter, ...], facts: Facts) -> tuple[tuple[str, tuple[Answer, ...]], ...]:
    return tuple((chapter.title, tuple(Answer(item, item.answer(facts)) for item in chapter.items)) for chapter in chapters)
