"""The teachers of `dpcli prompt`: prompts with private demonstrations, each of which votes on public texts.

A *demonstration* is a labelled text of a teacher's shard of the private data (demonstrations.py), and a *labeller* a language model or a
user's function that gives a prompt a label (labellers.py). prompt_session.py asks for the votes. Each teacher votes in a process of its own
(shard_processes.py), so that what a model remembers of one teacher reaches no other. The process of the command asks the model about public
texts only. If the model fails on a teacher's prompt, the teacher votes as a prompt without demonstrations does: an error would reveal
something about them. No message quotes a text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from dpcli.predict.models.model_answers import default_on_error, require_same_content
from dpcli.predict.prompt.demonstrations import Demonstration, PromptShape, prompt_shape, prompt_that_fits
from dpcli.predict.prompt.labellers import Labeller, labeller_of
from dpcli.predict.prompt.prompt_plan import Prompt, PromptPlan
from dpcli.predict.shard_processes import ShardProcesses
from dpcli.predict.vote_counts import VoteCounts, counts_of_labels
from dpcli.predict.warmed_process import Preparation

KILLED_MESSAGE = "a process of a teacher was killed, or ran out of memory: --resume continues"
# Number of texts on which each process of a teacher votes. An interruption or an exhausted budget wastes the votes of at most one part.
PART = 32


@dataclass(frozen=True, slots=True)
class PromptTeacherWork:
    """The public part of every teacher: all of its prompt except the demonstrations. Messages about a failure begin with `place`."""

    prompt: Prompt
    path: str
    place: str = "the labeller"

    def prepare(self) -> Preparation:
        labeller, shape = labeller_of(self.prompt, self.path), prompt_shape(self.prompt)
        return Preparation(labeller.content, lambda ballot: ballot.votes(shape, labeller))


@dataclass(frozen=True, slots=True)
class Ballot:
    """The votes to be given by one teacher.

    Attributes:
        demonstrations: Private demonstrations of the teacher.
        texts: Public texts to vote on.
        defaults: Label of each text in a prompt without demonstrations.
    """

    demonstrations: tuple[Demonstration, ...]
    texts: tuple[str, ...]
    defaults: tuple[int, ...]

    def votes(self, shape: PromptShape, labeller: Labeller) -> list[int]:
        """Return a vote for each text.

        If the labeller fails, the vote is the text's label in a prompt without demonstrations.
        """

        def fits(prompt: str) -> bool:
            return default_on_error(lambda: labeller.fits(prompt), False)

        labels = []
        for text, default in zip(self.texts, self.defaults, strict=True):
            prompt = prompt_that_fits(shape, self.demonstrations, text, fits)
            labels.append(default_on_error(lambda prompt=prompt: labeller.label(prompt), default))  # type: ignore[misc]
        return labels


@dataclass(frozen=True, slots=True)
class PromptTeachers:
    """All teachers.

    Attributes:
        labeller: Labeller in this process, which is asked about public texts only.
        demonstrations: Private demonstrations of each teacher.
        labels: Number of labels.
    """

    processes: ShardProcesses
    labeller: Labeller
    shape: PromptShape
    demonstrations: list[tuple[Demonstration, ...]]
    labels: int

    def votes(self, texts: Sequence[str]) -> VoteCounts:
        """Return the vote counts of each text. Raises InputError if the labeller fails on a text without demonstrations."""
        by_teacher = self.labels_of(texts)  # in any order of the teachers, because votes are only counted
        rows = [list(row) for row in zip(*by_teacher.values(), strict=True)]
        return counts_of_labels(rows, len(by_teacher), self.labels, "votes")

    def labels_of(self, texts: Sequence[str]) -> dict[int, list[int]]:
        """Return the label that each teacher gives each text, by the teacher's number.

        Raises InputError if the labeller fails on a text without demonstrations.
        """
        defaults = tuple(self.labeller.label(self.shape.prompt((), text)) for text in texts)
        ballots = [Ballot(demonstrations, tuple(texts), defaults) for demonstrations in self.demonstrations]
        return dict(self.processes.results(enumerate(ballots)))

    def votes_in_parts(self, texts: Sequence[str], is_answered: Callable[[str], bool]) -> Callable[[str], VoteCounts]:
        """Return a function that returns the votes on one of the texts.

        Its first call computes the votes on the next PART texts that are not answered yet. Later calls about these texts reuse them.
        """
        computed: dict[str, VoteCounts] = {}

        def votes(text: str) -> VoteCounts:
            if text not in computed:
                computed.clear()
                part = [following for following in texts[texts.index(text) :] if not is_answered(following)][:PART]
                counts = self.votes(part)
                computed.update({member: counts.row(index) for index, member in enumerate(part)})
            return computed[text]

        return votes


@contextmanager
def prompt_teachers(
    plan: PromptPlan, labeller: Labeller, demonstrations: list[tuple[Demonstration, ...]]
) -> Iterator[PromptTeachers]:
    """Start the teachers. Raises InputError if their process loads another model than this one, by the `content` of both."""
    with ShardProcesses(PromptTeacherWork(plan.prompt, plan.path), KILLED_MESSAGE) as processes:
        require_same_content(labeller.content, processes.content)
        yield PromptTeachers(processes, labeller, prompt_shape(plan.prompt), demonstrations, len(plan.prompt.labels))
