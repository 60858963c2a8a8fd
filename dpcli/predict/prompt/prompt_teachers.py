"""Teachers that are prompts with private demonstrations, each in a separate process, and the student's prompt, which is public.

A language model labels a prompt by the largest probability among the first tokens of the labels' words. A function written by the user may
label instead. No message quotes a text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from dpcli.audit.own_code import FAILURES, call_user_code, raised_at
from dpcli.base.errors import InputError
from dpcli.file.toml.shown import first_names
from dpcli.ledger.blocks.rows import RowWindow
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.numerics.arrays import np
from dpcli.predict.models.model_answers import (
    LanguageModel,
    Vocabulary,
    content_of,
    default_on_error,
    next_token,
    require_same_content,
    token_ids,
)
from dpcli.predict.models.texts import READERS, TextSource, read_columns, require_owners, require_texts
from dpcli.predict.prompt.prompt_plan import Prompt, PromptPlan
from dpcli.predict.shard_processes import ShardProcesses
from dpcli.predict.shards import shards_of, unit_names
from dpcli.predict.vote_counts import VoteCounts, counts_of_labels
from dpcli.predict.warmed_process import Preparation
from dpcli.sessions.priced import fingerprint
from dpcli.train.tasks.user_code import user


class Labeller(Protocol):
    """A labeller of prompts.

    Attributes:
        content: Content of the language model, as `content_of` returns it; "" for a function, which may ask a service.
    """

    @property
    def content(self) -> str: ...

    def label(self, prompt: str) -> int:
        """Return the number of the prompt's label."""
        ...

    def fits(self, prompt: str) -> bool:
        """Return whether the prompt is short enough. A prompt that is too long is never cut."""
        ...


@dataclass(frozen=True, slots=True)
class ModelLabeller:
    """A labeller by a language model.

    Attributes:
        words: First token of the word of each label.
        place: Beginning of every message.
    """

    model: LanguageModel
    vocabulary: Vocabulary
    words: tuple[int, ...]
    place: str
    content: str

    def label(self, prompt: str) -> int:
        scores = next_token(self.model, self._ids(prompt), self.place)
        return int(np.argmax(scores[list(self.words)]))

    def fits(self, prompt: str) -> bool:
        return 1 <= len(self._ids(prompt)) <= self.model.context

    def _ids(self, prompt: str) -> list[int]:
        return token_ids(self.vocabulary, prompt, self.model.vocabulary, f"{self.place}: tokenizer")


@dataclass(frozen=True, slots=True)
class OwnLabeller:
    """A labeller by the user's function of one prompt, which returns a label or a score for each label."""

    target: str
    function: Callable[[str], Any]
    labels: tuple[str, ...]
    content: str = ""

    def label(self, prompt: str) -> int:
        """Return the label.

        Raises InputError if the function raises, without its message, or returns neither a label nor scores.
        """
        try:  # Reading the result may raise too, as the result may be an object from the user's code.
            label = self._read(self.function(prompt))
        except InputError:
            raise
        except FAILURES as error:
            raise InputError(f"{self.target}: raised {raised_at(error)}") from error
        if label is None:
            raise InputError(f"{self.target}: expected one of the labels, or a score for each of {len(self.labels)}")
        return label

    def fits(self, prompt: str) -> bool:
        return True

    def _read(self, answer: Any) -> int | None:
        if isinstance(answer, str):
            return self.labels.index(answer) if answer in self.labels else None
        scores = np.asarray(answer)
        if scores.shape != (len(self.labels),) or scores.dtype.kind not in "iuf" or np.isnan(scores).any():
            return None
        return int(np.argmax(scores))


def labeller_of(prompt: Prompt, path: str) -> Labeller:
    """Return the labeller that [prompt] names. Raises InputError if it cannot be loaded, or two labels share a first token."""
    if prompt.labeller is not None:
        return OwnLabeller(prompt.labeller, user(prompt.labeller, path), prompt.labels)
    from dpcli.predict.models.model_loading import language_model

    assert prompt.model is not None
    model, vocabulary = language_model(prompt.model, prompt.tokenizer, path, "prompt")
    words = _first_tokens(prompt.words, model, vocabulary, path)
    return ModelLabeller(model, vocabulary, words, f"{path}: prompt.model", content_of(model, vocabulary))


def _first_tokens(words: Sequence[str], model: LanguageModel, vocabulary: Vocabulary, path: str) -> tuple[int, ...]:
    """Return the first token of each label's word. Raises InputError if two labels share a token, or the model lacks one."""
    ids = [next(iter(call_user_code(f"{path}: prompt.tokenizer", vocabulary.ids, word)), -1) for word in words]
    if len(set(ids)) < len(ids):
        raise InputError(f"{path}: prompt.verbalizers: expected words that begin with different tokens, found {first_names(words)}")
    if not all(0 <= token < model.vocabulary for token in ids):
        raise InputError(f"{path}: prompt.verbalizers: expected words for which the model has tokens, found {first_names(words)}")
    return tuple(ids)


Demonstration = tuple[str, int]  # text and number of its label


@dataclass(frozen=True, slots=True)
class LabelledTexts:
    """Texts with their labels and owners. A label is its number among the declared labels."""

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
        key: Key of [prompt] that names the source.
        rows: Rows of the source that may be read; all rows if None.

    Raises:
        InputError: If the texts cannot be read, there are none, or some have no label or owner.
        Unavailable: If a package that reads them is not installed.
    """
    place = TextSource(source, path, f"prompt.{key}", rows=rows)
    columns = read_columns(place, [prompt.text, prompt.label, *([units] if units else [])], tuple(READERS))
    texts = columns[0]
    require_texts(texts, place)
    if len({len(column) for column in columns}) != 1:
        raise place.error(f"as many labels{' and units' if units else ''} as texts", "lists of different lengths")
    owners = require_owners(columns[2], place) if units else tuple(texts)
    return LabelledTexts(tuple(texts), tuple(_label_numbers(columns[1], prompt.labels, path)), owners)


def _label_numbers(labels: list[Any], declared: tuple[str, ...], path: str) -> list[int]:
    """Return the number of each label among the declared labels."""
    places = {name.strip(): number for number, name in enumerate(declared)}
    try:
        return [places[str(label).strip()] for label in labels]
    except FAILURES:  # KeyError, or an error of a label that is an object from the user's code
        raise InputError(
            f"{path}: prompt.labels: expected every label of the data among them (the missing label is private)"
        ) from None


@dataclass(frozen=True, slots=True)
class Shape:
    """The public parts of all prompts."""

    instruction: str
    template: str
    separator: str
    words: tuple[str, ...]

    def prompt(self, demonstrations: Sequence[Demonstration], text: str) -> str:
        """Return the prompt for the label of a text, with these demonstrations."""
        shown = [self.template.replace("{text}", one) + self.words[label] for one, label in demonstrations]
        parts = [*([self.instruction] if self.instruction else []), *shown, self.template.replace("{text}", text)]
        return self.separator.join(parts)


def shape_of(prompt: Prompt) -> Shape:
    """Return the public parts of prompts, as [prompt] states them."""
    return Shape(prompt.instruction or "", prompt.template, prompt.separator or "\n", prompt.words)


def prompt_that_fits(shape: Shape, demonstrations: Sequence[Demonstration], text: str, fits: Callable[[str], bool]) -> str:
    """Return the prompt with the largest number of first demonstrations that fits.

    A private demonstration that is too long must not be refused, as the error would reveal its length.
    """
    for count in range(len(demonstrations), 0, -1):
        prompt = shape.prompt(demonstrations[:count], text)
        if fits(prompt):
            return prompt
    return shape.prompt((), text)


def labels_in_turn(records: Sequence[Demonstration], labels: int) -> list[Demonstration]:
    """Return the records in an order that alternates between labels, so that the first few have many different labels.

    The records of one label keep their order.
    """
    queues = [[record for record in records if record[1] == label] for label in range(labels)]
    longest = max(map(len, queues), default=0)
    return [queue[turn] for turn in range(longest) for queue in queues if turn < len(queue)]


def teacher_demonstrations(private: LabelledTexts, prompt: Prompt, adjacency: Adjacency) -> list[tuple[Demonstration, ...]]:
    """Return the demonstrations of each teacher, from its shard alone. A teacher with an empty shard has none."""
    names = unit_names(private.units, prompt.units is not None, adjacency)
    shards = [
        [(private.texts[place][: prompt.longest], private.labels[place]) for place in shard if private.texts[place].strip()]
        for shard in shards_of(names, prompt.teachers)
    ]
    return [tuple(labels_in_turn(records, len(prompt.labels))[: prompt.demonstrations]) for records in shards]


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
    answered: Sequence[Demonstration], shape: Shape, labeller: Labeller, candidates: int, size: int, labels: int
) -> Student:
    """Return the best of `candidates` prompts with `size` demonstrations each; the empty prompt if no query was answered."""
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
    """Return up to `count` different choices of demonstrations.

    Each choice orders the answered texts by a hash. The choices need not be secret, so that no random stream is needed.
    """
    choices = []
    for number in range(4 * count):
        ordered = sorted(answered, key=lambda one: hashlib.sha256(f"{number} {one[0]}".encode("utf-8", "surrogatepass")).digest())
        choices.append(tuple(labels_in_turn(ordered, labels)[:size]))
    return list(dict.fromkeys(choice for choice in choices if choice))[:count]


KILLED_MESSAGE = "a process of a teacher was killed, or ran out of memory: --resume continues"
PART = 32  # number of texts on which the process of a teacher votes


@dataclass(frozen=True, slots=True)
class Voting:
    """The public part of every teacher, which is everything except its demonstrations."""

    prompt: Prompt
    path: str
    place: str = "the labeller"

    def prepare(self) -> Preparation:
        labeller, shape = labeller_of(self.prompt, self.path), shape_of(self.prompt)
        return Preparation(labeller.content, lambda ballot: ballot.votes(shape, labeller))


@dataclass(frozen=True, slots=True)
class Ballot:
    """The votes to be given by one teacher.

    Attributes:
        shown: Demonstrations of the teacher.
        texts: Texts to vote on.
        defaults: Label of each text in a prompt without demonstrations.
    """

    shown: tuple[Demonstration, ...]
    texts: tuple[str, ...]
    defaults: tuple[int, ...]

    def votes(self, shape: Shape, labeller: Labeller) -> list[int]:
        """Return a vote for each text.

        If the labeller fails, the vote is the text's label in a prompt without demonstrations. An error would reveal something about the
        demonstrations.
        """

        def fits(prompt: str) -> bool:
            return default_on_error(lambda: labeller.fits(prompt), False)

        labels = []
        for text, default in zip(self.texts, self.defaults, strict=True):
            prompt = prompt_that_fits(shape, self.shown, text, fits)
            labels.append(default_on_error(lambda prompt=prompt: labeller.label(prompt), default))  # type: ignore[misc]
        return labels


@dataclass(frozen=True, slots=True)
class PromptTeachers:
    """All teachers.

    Attributes:
        labeller: Labeller in this process, which is asked about public texts only.
        labels: Number of labels.
    """

    processes: ShardProcesses
    labeller: Labeller
    shape: Shape
    demonstrations: list[tuple[Demonstration, ...]]
    labels: int

    def votes(self, texts: Sequence[str]) -> VoteCounts:
        """Return the vote counts of each text. Raises InputError if the labeller fails on a text without demonstrations."""
        by_teacher = self.labels_of(texts)
        rows = [list(row) for row in zip(*by_teacher.values(), strict=True)]
        return counts_of_labels(rows, len(by_teacher), self.labels, "votes")

    def labels_of(self, texts: Sequence[str]) -> dict[int, list[int]]:
        """Return the label that each teacher gives each text, by the teacher's number. Raises as `votes` does."""
        defaults = tuple(self.labeller.label(self.shape.prompt((), text)) for text in texts)
        return dict(
            self.processes.results(
                (number, Ballot(shown, tuple(texts), defaults)) for number, shown in enumerate(self.demonstrations)
            )
        )

    def in_parts(self, texts: Sequence[str], answered: Callable[[str], bool]) -> Callable[[str], VoteCounts]:
        """Return a function that gives the votes on one text.

        The votes are computed for up to PART texts at a time, without the texts that have been answered.
        """
        computed: dict[str, VoteCounts] = {}

        def votes(text: str) -> VoteCounts:
            if text not in computed:
                computed.clear()
                part = [one for one in texts[texts.index(text) :] if not answered(one)][:PART]
                rows = self.votes(part)
                computed.update({one: rows.row(place) for place, one in enumerate(part)})
            return computed[text]

        return votes


@contextmanager
def prompt_teachers(
    plan: PromptPlan, labeller: Labeller, demonstrations: list[tuple[Demonstration, ...]]
) -> Iterator[PromptTeachers]:
    """Start the teachers. Raises InputError if the model has another content when it is loaded again."""
    with ShardProcesses(Voting(plan.prompt, plan.path), KILLED_MESSAGE) as processes:
        require_same_content(labeller.content, processes.content)
        yield PromptTeachers(processes, labeller, shape_of(plan.prompt), demonstrations, len(plan.prompt.labels))
