"""One item of a disclosure: what is asked, who asks it, which keys of the file state it, and how it is answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dpcli.disclosure.facts import Facts

NOT_STATED = "NOT STATED"


@dataclass(frozen=True, slots=True)
class Item:
    """One line of a disclosure.

    id: stable, for the machine form. asked_by: the document and the place in it.
    keys: of the file, any of which states the answer; none where the answer follows from keys that every file has.
    answer: one line of text, None where the file is silent; never a guess.
    """

    id: str
    question: str
    asked_by: str
    keys: tuple[str, ...]
    answer: Callable[[Facts], str | None]


@dataclass(frozen=True, slots=True)
class Chapter:
    """Items that belong together."""

    title: str
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """An item with what the file answers."""

    item: Item
    text: str | None

    @property
    def stated(self) -> bool:
        return self.text is not None

    @property
    def line(self) -> str:
        """The answer as it is shown: NOT STATED, with the key that would state it, where the file is silent."""
        return self.text if self.text is not None else f"{NOT_STATED} ({' or '.join(self.item.keys)})"
