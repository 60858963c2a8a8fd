"""Prompts: an instruction, demonstrations, and the text that is asked about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpcli.mechanisms.neighbours import Adjacency
from dpcli.predict.prompt.labelled import LabelledTexts
from dpcli.predict.prompt.settings import Prompt
from dpcli.predict.shards import shards_of, spread_names

Demonstration = tuple[str, int]  # a text, and the number of its label


@dataclass(frozen=True, slots=True)
class Shape:
    """How prompts are written; public."""

    instruction: str
    template: str
    separator: str
    words: tuple[str, ...]

    def prompt(self, demonstrations: Sequence[Demonstration], text: str) -> str:
        shown = [self.template.replace("{text}", one) + self.words[label] for one, label in demonstrations]
        parts = [*([self.instruction] if self.instruction else []), *shown, self.template.replace("{text}", text)]
        return self.separator.join(parts)


def shape_of(prompt: Prompt) -> Shape:
    """As [prompt] says."""
    return Shape(prompt.instruction or "", prompt.template, prompt.separator or "\n", prompt.words)


def teachers(private: LabelledTexts, prompt: Prompt, adjacency: Adjacency) -> list[tuple[Demonstration, ...]]:
    """The demonstrations of each teacher, from its shard alone; none where that is empty."""
    found = []
    names = spread_names(private.units, prompt.units is not None, adjacency)
    for shard in shards_of(names, prompt.teachers):
        records = [
            (private.texts[place][: prompt.longest], private.labels[place]) for place in shard if private.texts[place].strip()
        ]
        found.append(tuple(in_turn(records, len(prompt.labels))[: prompt.demonstrations]))
    return found


def in_turn(records: Sequence[Demonstration], labels: int) -> list[Demonstration]:
    """Records of all labels in turn, each label's in their order, so that the first few are of as many labels as can be."""
    queues = [[record for record in records if record[1] == label] for label in range(labels)]
    longest = max(map(len, queues), default=0)
    return [queue[turn] for turn in range(longest) for queue in queues if turn < len(queue)]


def fitted(shape: Shape, demonstrations: Sequence[Demonstration], text: str, fits: Callable[[str], bool]) -> str:
    """The prompt with as many of the demonstrations as fit, the last ones left out.

    A private demonstration that is too long must not be refused: that it is would be told.
    """
    for count in range(len(demonstrations), 0, -1):
        found = shape.prompt(demonstrations[:count], text)
        if fits(found):
            return found
    return shape.prompt((), text)
