"""Teachers that are prompts: each votes in a process of its own, which is given its demonstrations and no other's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from dpcli.predict.models.model_answers import require_same_content
from dpcli.predict.private_calls import unless_it_fails
from dpcli.predict.prompt.demonstrations import Demonstration, Shape, fitted, shape_of
from dpcli.predict.prompt.labeller import Labeller, labeller_of
from dpcli.predict.prompt.prompt_plan import Prompt, PromptPlan
from dpcli.predict.shard_processes import Apart, cores
from dpcli.predict.voting.vote_counts import VoteCounts
from dpcli.predict.voting.vote_counts import counted as counted_votes
from dpcli.predict.warmed_process import Preparation

GONE = "a process of a teacher was killed, or out of memory: --resume goes on"
PART = 32  # texts that each teacher is asked about in one process


@dataclass(frozen=True, slots=True)
class Voting:
    """The public part of every teacher: all but its demonstrations."""

    prompt: Prompt
    path: str
    place: str = "the labeller"

    def prepared(self) -> Preparation:
        labeller, shape = labeller_of(self.prompt, self.path), shape_of(self.prompt)
        return Preparation(labeller.content, lambda ballot: ballot.votes(shape, labeller))


@dataclass(frozen=True, slots=True)
class Ballot:
    """The work of one teacher. alone: for each text, the label that the text without any demonstration gets."""

    shown: tuple[Demonstration, ...]
    texts: tuple[str, ...]
    alone: tuple[int, ...]

    def votes(self, shape: Shape, labeller: Labeller) -> list[int]:
        """Return a vote for each text.

        Where the labeller fails, the text alone votes: an error would tell that something in the demonstrations made it.
        """

        def fits(prompt: str) -> bool:
            return unless_it_fails(lambda: labeller.fits(prompt), False)

        labels = []
        for text, alone in zip(self.texts, self.alone, strict=True):
            prompt = fitted(shape, self.shown, text, fits)
            labels.append(unless_it_fails(lambda prompt=prompt: labeller.label(prompt), alone))  # type: ignore[misc]
        return labels


@dataclass(frozen=True, slots=True)
class PromptTeachers:
    """All teachers. labeller: of public texts, in this process."""

    apart: Apart
    labeller: Labeller
    shape: Shape
    demonstrations: list[tuple[Demonstration, ...]]
    labels: int

    def votes(self, texts: Sequence[str]) -> VoteCounts:
        """Return a row for each text. Raises InputError where the labeller fails on one of them alone."""
        by_teacher = self.labels_of(texts)
        rows = [list(row) for row in zip(*by_teacher.values(), strict=True)]
        return counted_votes(rows, len(by_teacher), self.labels, "votes")

    def labels_of(self, texts: Sequence[str]) -> dict[int, list[int]]:
        """Return the label that each teacher, by its number, gives each text. Raises as `votes` does."""
        alone = tuple(self.labeller.label(self.shape.prompt((), text)) for text in texts)
        return dict(
            self.apart.each((number, Ballot(shown, tuple(texts), alone)) for number, shown in enumerate(self.demonstrations))
        )

    def in_parts(self, texts: Sequence[str], known: Callable[[str], bool]) -> Callable[[str], VoteCounts]:
        """Return the votes on a text, made for several that have no answer yet whenever one is asked for."""
        made: dict[str, VoteCounts] = {}

        def votes(text: str) -> VoteCounts:
            if text not in made:
                made.clear()
                part = [one for one in texts[texts.index(text) :] if not known(one)][:PART]
                rows = self.votes(part)
                made.update({one: rows.row(place) for place, one in enumerate(part)})
            return made[text]

        return votes


@contextmanager
def prompt_teachers(
    plan: PromptPlan, labeller: Labeller, demonstrations: list[tuple[Demonstration, ...]]
) -> Iterator[PromptTeachers]:
    """Start the teachers. Raises InputError where the model is another one when it is loaded again."""
    with Apart(Voting(plan.prompt, plan.path), GONE, threads=cores()) as apart:
        require_same_content(labeller.content, apart.content)
        yield PromptTeachers(apart, labeller, shape_of(plan.prompt), demonstrations, len(plan.prompt.labels))
