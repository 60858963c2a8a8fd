"""Demonstrations in prompts: the private ones of each teacher, and the public ones of the student.

A *demonstration* is a labelled text that a prompt shows to a language model before the text to label. A *teacher* of `dpcli prompt` is a
prompt with demonstrations from its shard of the private data alone; teachers vote on the labels of public texts, the *queries*
(prompt_session.py). The *student* is a prompt whose demonstrations are queries with the labels that noisy votes released, so that choosing
among them costs no privacy. No message quotes a text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any, NamedTuple

from dpcli.audit.own_code import FAILURES
from dpcli.base.errors import InputError
from dpcli.ledger.blocks.rows import RowWindow
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.predict.models.texts import READERS, TextSource, read_columns, require_owners, require_texts
from dpcli.predict.prompt.labellers import Labeller
from dpcli.predict.prompt.prompt_plan import Prompt
from dpcli.predict.shards import shards_of_texts
from dpcli.sessions.priced import fingerprint

ORDERS_PER_CHOICE = 4  # orders of the texts that are tried for a choice, since several may begin with the same texts; arbitrary


class Demonstration(NamedTuple):
    """A text with the number of its label among the declared labels."""

    text: str
    label: int


@dataclass(frozen=True, slots=True)
class LabelledTexts:
    """Texts with their labels, as numbers among the declared labels, and owners; each text is its own owner if the file names none."""

    texts: tuple[str, ...]
    labels: tuple[int, ...]
    units: tuple[str | int, ...]

    @property
    def digest(self) -> str:
        """Return a digest, which is as private as the texts."""
        return fingerprint(asdict(self))


def labelled_texts(
    source: str, prompt: Prompt, path: str, key: str, units: str | None = None, rows: RowWindow | None = None
) -> LabelledTexts:
    """Return the labelled texts of a file, or of module:function.

    Args:
        path: Path of the file with [prompt].
        rows: Rows of the source that may be read; all rows if None.

    Raises:
        InputError: If the texts cannot be read, there are none, or some have no label or owner.
        Unavailable: If a package that reads them is not installed.
    """
    text_source = TextSource(source, path, f"prompt.{key}", rows=rows)
    names = [prompt.text, prompt.label, units] if units else [prompt.text, prompt.label]
    columns = read_columns(text_source, names, tuple(READERS))
    texts, labels, *owner_columns = columns
    require_texts(texts, text_source)
    if len({len(column) for column in columns}) != 1:
        expected = "as many labels and units as texts" if units else "as many labels as texts"
        raise text_source.error(expected, "lists of different lengths")
    owners = require_owners(owner_columns[0], text_source) if units else tuple(texts)
    return LabelledTexts(tuple(texts), tuple(_label_numbers(labels, prompt.labels, path)), owners)


def _label_numbers(labels: list[Any], declared: tuple[str, ...], path: str) -> list[int]:
    """Return the number of each label among the declared labels."""
    numbers = {name.strip(): number for number, name in enumerate(declared)}
    try:
        return [numbers[str(label).strip()] for label in labels]
    except FAILURES:  # KeyError, or an error of a label that is an object from the user's code
        raise InputError(
            f"{path}: prompt.labels: expected every label of the data among them (the missing label is private)"
        ) from None


@dataclass(frozen=True, slots=True)
class PromptShape:
    """The public parts of all prompts.

    Attributes:
        instruction: Text at the beginning; "" for none.
        template: Form of a text, in which {text} occurs once.
        separator: Text between two parts of a prompt.
        words: Word of each label, which follows the template in a demonstration.
    """

    instruction: str
    template: str
    separator: str
    words: tuple[str, ...]

    def prompt(self, demonstrations: Sequence[Demonstration], text: str) -> str:
        """Return the prompt for the label of a text, with these demonstrations."""
        parts = [self.instruction] if self.instruction else []
        parts += [self.template.replace("{text}", shown) + self.words[label] for shown, label in demonstrations]
        parts.append(self.template.replace("{text}", text))
        return self.separator.join(parts)


def prompt_shape(prompt: Prompt) -> PromptShape:
    """Return the public parts of prompts, as [prompt] states them."""
    return PromptShape(prompt.instruction or "", prompt.template, prompt.separator or "\n", prompt.words)


def prompt_that_fits(shape: PromptShape, demonstrations: Sequence[Demonstration], text: str, fits: Callable[[str], bool]) -> str:
    """Return the prompt with the largest number of first demonstrations that fits.

    A private demonstration that is too long must not be refused: the error would reveal its length.
    """
    for count in range(len(demonstrations), 0, -1):
        prompt = shape.prompt(demonstrations[:count], text)
        if fits(prompt):
            return prompt
    return shape.prompt((), text)


def labels_in_turn(records: Sequence[Demonstration], labels: int) -> list[Demonstration]:
    """Return the records in an order that alternates between labels, so that the first few have many different labels.

    The records of one label keep their order: records with the labels 0, 0, 0, 1, 1 are returned as 0, 1, 0, 1, 0.
    """
    queues = [[record for record in records if record.label == label] for label in range(labels)]
    return [record for turn in zip_longest(*queues) for record in turn if record is not None]


def teacher_demonstrations(private: LabelledTexts, prompt: Prompt, adjacency: Adjacency) -> list[tuple[Demonstration, ...]]:
    """Return the demonstrations of each teacher, from its shard alone. A teacher with an empty shard has none."""
    by_teacher = []
    for indices in shards_of_texts(private.texts, private.units, prompt.units is not None, adjacency, prompt.teachers):
        records = [Demonstration(private.texts[index][: prompt.longest], private.labels[index]) for index in indices]
        by_teacher.append(tuple(labels_in_turn(records, len(prompt.labels))[: prompt.demonstrations]))
    return by_teacher


@dataclass(frozen=True, slots=True)
class Student:
    """The prompt of public texts with noisy labels that agrees best with the other noisy labels.

    It is post-processing of the released labels, and costs no privacy.

    Attributes:
        agreement: Share of the other noisy labels that the prompt reproduces; None if there are no others.
    """

    demonstrations: tuple[Demonstration, ...]
    agreement: float | None


def best_student(
    answered: Sequence[Demonstration], shape: PromptShape, labeller: Labeller, candidates: int, size: int, labels: int
) -> Student:
    """Return the best of up to `candidates` prompts with up to `size` demonstrations each.

    A prompt is left out if it is too long for the model together with one of the other texts. The empty prompt is returned if no prompt is
    left, or no query was answered.
    """
    best = Student((), None)
    for chosen in _candidates(answered, candidates, size, labels):
        others = [demonstration for demonstration in answered if demonstration not in chosen]
        prompts = [shape.prompt(chosen, other.text) for other in others]
        if not all(map(labeller.fits, prompts)):
            continue
        correct = sum(labeller.label(prompt) == other.label for prompt, other in zip(prompts, others, strict=True))
        candidate = Student(chosen, correct / len(others) if others else None)
        # A candidate replaces the empty prompt, and one with less agreement.
        if best.agreement is None or (candidate.agreement or 0.0) > best.agreement:
            best = candidate
    return best


def _candidates(answered: Sequence[Demonstration], count: int, size: int, labels: int) -> list[tuple[Demonstration, ...]]:
    """Return up to `count` different choices of demonstrations.

    Each choice orders the answered texts by a hash. The choices need not be secret, so no random stream is needed.
    """
    choices = []
    for number in range(ORDERS_PER_CHOICE * count):
        ordered = sorted(
            answered, key=lambda shown: hashlib.sha256(f"{number} {shown.text}".encode("utf-8", "surrogatepass")).digest()
        )
        choices.append(tuple(labels_in_turn(ordered, labels)[:size]))
    return list(dict.fromkeys(choice for choice in choices if choice))[:count]
