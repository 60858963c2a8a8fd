"""Teachers that are prompts: each votes in a process of its own, which is given its demonstrations and no other's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from dpcli.predict.apart import Apart, cores
from dpcli.predict.models.asked import unless_it_fails
from dpcli.predict.models.content import require_same_content
from dpcli.predict.prompt.labeller import Labeller, labeller_of
from dpcli.predict.prompt.plan import PromptPlan
from dpcli.predict.prompt.prompts import Demonstration, Shape, fitted, shape_of
from dpcli.predict.prompt.settings import Prompt
from dpcli.predict.voting.votes import VoteCounts
from dpcli.predict.voting.votes import counted as counted_votes
from dpcli.predict.warmed import Preparation

GONE = "a process of a teacher was killed, or out of memory: --resume goes on"
PART = 32  # texts that each teacher is asked about in one process


@dataclass(frozen=True, slots=True)
class Voting:
    """What every teacher is but its demonstrations; public."""

    prompt: Prompt
    path: str
    place: str = "the labeller"

    def prepared(self) -> Preparation:
        labeller, shape = labeller_of(self.prompt, self.path), shape_of(self.prompt)
        return Preparation(labeller.content, lambda ballot: ballot.votes(shape, labeller))


@dataclass(frozen=True, slots=True)
class Ballot:
    """What one teacher is given. alone: for each text, the label that the text without any demonstration gets."""

    shown: tuple[Demonstration, ...]
    texts: tuple[str, ...]
    alone: tuple[int, ...]

    def votes(self, shape: Shape, labeller: Labeller) -> list[int]:
        """One for each text.

        Where the labeller fails, the text alone votes: an error would tell that something in the demonstrations made it.
        """

        def fits(prompt: str) -> bool:
            return unless_it_fails(lambda: labeller.fits(prompt), False)

        found = []
        for text, alone in zip(self.texts, self.alone, strict=True):
            prompt = fitted(shape, self.shown, text, fits)
            found.append(unless_it_fails(lambda prompt=prompt: labeller.label(prompt), alone))  # type: ignore[misc]
        return found


@dataclass(frozen=True, slots=True)
class PromptTeachers:
    """labeller: of public texts, in this process."""

    apart: Apart
    labeller: Labeller
    shape: Shape
    demonstrations: list[tuple[Demonstration, ...]]
    labels: int

    def votes(self, texts: Sequence[str]) -> VoteCounts:
        """A row for each text. Raises InputError where the labeller fails on one of them alone."""
        by_teacher = self.labels_of(texts)
        rows = [list(row) for row in zip(*by_teacher.values(), strict=True)]
        return counted_votes(rows, len(by_teacher), self.labels, "votes")

    def labels_of(self, texts: Sequence[str]) -> dict[int, list[int]]:
        """What each teacher, by its number, says of each text. Raises as `votes` does."""
        alone = tuple(self.labeller.label(self.shape.prompt((), text)) for text in texts)
        return dict(
            self.apart.each((number, Ballot(shown, tuple(texts), alone)) for number, shown in enumerate(self.demonstrations))
        )

    def in_parts(self, texts: Sequence[str], known: Callable[[str], bool]) -> Callable[[str], VoteCounts]:
        """The votes on each text, found for several that have no answer yet whenever one is asked for."""
        found: dict[str, VoteCounts] = {}

        def votes(text: str) -> VoteCounts:
            if text not in found:
                found.clear()
                part = [one for one in texts[texts.index(text) :] if not known(one)][:PART]
                rows = self.votes(part)
                found.update({one: rows.row(place) for place, one in enumerate(part)})
            return found[text]

        return votes


@contextmanager
def prompt_teachers(
    plan: PromptPlan, labeller: Labeller, demonstrations: list[tuple[Demonstration, ...]]
) -> Iterator[PromptTeachers]:
    """Raises InputError where the model is another one when it is loaded again."""
    with Apart(Voting(plan.prompt, plan.path), GONE, threads=cores()) as apart:
        require_same_content(labeller.content, apart.content)
        yield PromptTeachers(apart, labeller, shape_of(plan.prompt), demonstrations, len(plan.prompt.labels))
