"""Labelled texts, prompts that demonstrate with them, the private ones of each teacher, and the student's, which are public.

No message quotes a text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dpcli.audit.user_code import FAILURES
from dpcli.base.errors import InputError
from dpcli.ledger.blocks.rows import RowWindow
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.predict.models.texts import READERS, TextSource, read_columns, require_owners, require_texts
from dpcli.predict.prompt.labeller import Labeller
from dpcli.predict.prompt.prompt_plan import Prompt
from dpcli.predict.shards import shards_of, spread_names
from dpcli.sessions.plan import fingerprint

Demonstration = tuple[str, int]  # a text, and the number of its label


@dataclass(frozen=True, slots=True)
class LabelledTexts:
    """texts, labels (numbers among the declared ones) and units: n of each."""

    texts: tuple[str, ...]
    labels: tuple[int, ...]
    units: tuple[str | int, ...]

    @property
    def digest(self) -> str:
        """Return a digest, which is as private as the texts."""
        return fingerprint(asdict(self))


def labelled(
    source: str, prompt: Prompt, path: str, key: str, units: str | None = None, rows: RowWindow | None = None
) -> LabelledTexts:
    """Return the labelled texts of a file, or of module:function.

    Args:
        path, key: of the file with [prompt], and of the key that names the source. rows: of a file, those that may be read; all where None.

    Raises:
        InputError: they cannot be read, are none, or some have no label or owner. Unavailable: a package that reads them is missing.
    """
    place = TextSource(source, path, f"prompt.{key}", rows=rows)
    columns = read_columns(place, [prompt.text, prompt.label, *([units] if units else [])], tuple(READERS))
    texts = columns[0]
    require_texts(texts, place)
    if len({len(column) for column in columns}) != 1:
        raise place.refused(f"as many labels{' and units' if units else ''} as texts", "lists of different lengths")
    owners = require_owners(columns[2], place) if units else tuple(texts)
    return LabelledTexts(tuple(texts), tuple(_numbers(columns[1], prompt.labels, path)), owners)


def _numbers(labels: list[Any], declared: tuple[str, ...], path: str) -> list[int]:
    """Return each label's place among the declared ones."""
    places = {name.strip(): number for number, name in enumerate(declared)}
    try:
        return [places[str(label).strip()] for label in labels]
    except FAILURES:  # KeyError, or what a label of the user's own raises
        raise InputError(
            f"{path}: prompt.labels: expected every label of the data among them (which one is not is private)"
        ) from None


@dataclass(frozen=True, slots=True)
class Shape:
    """The public form of all prompts."""

    instruction: str
    template: str
    separator: str
    words: tuple[str, ...]

    def prompt(self, demonstrations: Sequence[Demonstration], text: str) -> str:
        shown = [self.template.replace("{text}", one) + self.words[label] for one, label in demonstrations]
        parts = [*([self.instruction] if self.instruction else []), *shown, self.template.replace("{text}", text)]
        return self.separator.join(parts)


def shape_of(prompt: Prompt) -> Shape:
    """Return the form that [prompt] states."""
    return Shape(prompt.instruction or "", prompt.template, prompt.separator or "\n", prompt.words)


def fitted(shape: Shape, demonstrations: Sequence[Demonstration], text: str, fits: Callable[[str], bool]) -> str:
    """Return the prompt with as many of the demonstrations as fit, the last ones left out.

    A private demonstration that is too long must not be refused: the error would tell that it is.
    """
    for count in range(len(demonstrations), 0, -1):
        prompt = shape.prompt(demonstrations[:count], text)
        if fits(prompt):
            return prompt
    return shape.prompt((), text)


def in_turn(records: Sequence[Demonstration], labels: int) -> list[Demonstration]:
    """Return records of all labels in turn, each label's in their order, so that the first few are of as many labels as can be."""
    queues = [[record for record in records if record[1] == label] for label in range(labels)]
    longest = max(map(len, queues), default=0)
    return [queue[turn] for turn in range(longest) for queue in queues if turn < len(queue)]


def teachers(private: LabelledTexts, prompt: Prompt, adjacency: Adjacency) -> list[tuple[Demonstration, ...]]:
    """Return the demonstrations of each teacher, from its shard alone; none where that is empty."""
    names = spread_names(private.units, prompt.units is not None, adjacency)
    shards = [
        [(private.texts[place][: prompt.longest], private.labels[place]) for place in shard if private.texts[place].strip()]
        for shard in shards_of(names, prompt.teachers)
    ]
    return [tuple(in_turn(records, len(prompt.labels))[: prompt.demonstrations]) for records in shards]


@dataclass(frozen=True, slots=True)
class Student:
    """The prompt of public texts with noisy labels that agrees best with the other noisy labels: made of what was released, for free.

    agreement: share of the other noisy labels that the prompt gives; None where there are no others.
    """

    demonstrations: tuple[Demonstration, ...]
    agreement: float | None


def student(
    answered: Sequence[Demonstration], shape: Shape, labeller: Labeller, candidates: int, size: int, labels: int
) -> Student:
    """Return the best of `candidates` prompts with `size` demonstrations each; the empty prompt where nothing was answered."""
    best = Student((), None)
    for chosen in _candidates(answered, candidates, size, labels):
        others = [one for one in answered if one not in chosen]
        texts = [(shape.prompt(chosen, text), label) for text, label in others]
        if not all(labeller.fits(text) for text, _ in texts):
            continue
        right = sum(labeller.label(text) == label for text, label in texts)
        candidate = Student(chosen, right / len(others) if others else None)
        if best.agreement is None or (candidate.agreement or 0.0) > best.agreement:
            best = candidate
    return best


def _candidates(answered: Sequence[Demonstration], count: int, size: int, labels: int) -> list[tuple[Demonstration, ...]]:
    """Return different choices, each by the answered texts in an order of its own: a hash of them, as nothing needs to be secret."""
    choices = []
    for number in range(4 * count):
        ordered = sorted(answered, key=lambda one: hashlib.sha256(f"{number} {one[0]}".encode("utf-8", "surrogatepass")).digest())
        choices.append(tuple(in_turn(ordered, labels)[:size]))
    return list(dict.fromkeys(choice for choice in choices if choice))[:count]
