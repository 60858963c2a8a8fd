"""The private texts in shards, and the fine-tuning of one model on each shard.

Texts are first sharded by unit, and then cut into records. Each model is fine-tuned in a separate process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import methodcaller

from dpcli.base.errors import InputError
from dpcli.predict.models.model_answers import require_same_content
from dpcli.predict.models.texts import OwnedTexts, TextSource, owned_texts
from dpcli.predict.pmixed.pmixed_plan import Pmixed, PmixedPlan
from dpcli.predict.pmixed.public_side import PublicSide, Records, public_side
from dpcli.predict.shard_processes import ShardProcesses
from dpcli.predict.shards import shards_of_texts
from dpcli.predict.warmed_process import Preparation

KILLED_MESSAGE = "a process that fine-tunes a model was killed, or ran out of memory: --resume continues with the next model"


def private_texts(plan: PmixedPlan) -> OwnedTexts:
    """Return the private texts. Raises InputError, which quotes none of them, if they cannot be read."""
    table = plan.pmixed
    return owned_texts(TextSource(table.data, plan.path, "pmixed.data", table.text, table.units, table.record, plan.rows))


def shard_texts(plan: PmixedPlan, texts: OwnedTexts) -> list[list[str]]:
    """Return the texts of each shard, in order.

    The shard of a text depends on its unit alone, so that one change affects one shard. Blank texts are left out. If a change adds or
    removes a whole shard, each unit is a shard.
    """
    if plan.spec.change == "remove-shard":
        return _texts_by_unit(plan, texts)
    names_owners, adjacency = plan.pmixed.units is not None, plan.pipeline.privacy.adjacency
    shards = shards_of_texts(texts.texts, texts.units, names_owners, adjacency, plan.spec.shards, plan.pmixed.salt)
    return [[texts.texts[index] for index in indices] for indices in shards]


def _texts_by_unit(plan: PmixedPlan, texts: OwnedTexts) -> list[list[str]]:
    """Return the texts of each unit. Raises InputError if the number of units is not the number of shards."""
    by_unit = texts.by_unit()
    if len(by_unit) != plan.spec.shards:
        raise InputError(
            f"{plan.path}: pmixed.units: expected {plan.spec.shards} units, as each is a shard that may be added or removed (their actual "
            "number is private)"
        )
    return [[text for text in by_unit[unit] if text.strip()] for unit in sorted(by_unit, key=str)]


@dataclass(frozen=True, slots=True)
class ShardTuning:
    """The work of the shard processes: a call of a method of the public side.

    The public side is built once, in the process from which the others are forked.
    """

    table: Pmixed
    path: str
    place: str = "the models of shards"

    def prepare(self) -> Preparation:
        side = public_side(self.table, self.path)
        if hasattr(side.model, "ready"):  # The forks then inherit the layers of a transformer's adapter.
            side.model.ready()
        return Preparation(side.content, lambda work: work(side))


@contextmanager
def tuning_processes(plan: PmixedPlan, side: PublicSide) -> Iterator[ShardProcesses]:
    """Start the processes in which models are fine-tuned.

    Args:
        side: Public side of this process, which is never given private data.

    Raises:
        InputError: If the public model has another content when it is built again.
    """
    with ShardProcesses(ShardTuning(plan.pmixed, plan.path), KILLED_MESSAGE) as processes:
        require_same_content(side.content, processes.content)
        yield processes


def cut_records(processes: ShardProcesses, shards: Sequence[Sequence[str]]) -> list[Records]:
    """Return the records of each shard. Raises InputError as `PublicSide.private_records` does."""
    calls = [(shard, methodcaller("private_records", texts)) for shard, texts in enumerate(shards)]
    records_by_shard = dict(processes.results(calls))
    return [records_by_shard[shard] for shard in range(len(shards))]


def rehearse(processes: ShardProcesses) -> None:
    """Raise InputError as `PublicSide.rehearse` does."""
    list(processes.results([(0, methodcaller("rehearse"))]))


def teach_shards(processes: ShardProcesses, records: Iterable[tuple[int, Records]]) -> Iterator[tuple[int, bytes]]:
    """Yield the number of each shard, and the parameters that a model learns from its records alone."""
    return processes.results((shard, methodcaller("learn", shard_records)) for shard, shard_records in records)
