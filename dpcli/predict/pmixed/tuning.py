"""What models learn of private shards, each in a process of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from dpcli.predict.apart import Apart, cores
from dpcli.predict.models.content import require_same_content
from dpcli.predict.pmixed.plan import PmixedPlan
from dpcli.predict.pmixed.settings import Pmixed
from dpcli.predict.pmixed.shared import PublicSide, Records, public_side
from dpcli.predict.warmed import Preparation

GONE = "a process that fine-tunes a model was killed, or out of memory: the models that were made are kept, and --resume goes on"


@dataclass(frozen=True, slots=True)
class ShardTuning:
    """The public side, built in the process that others are forked from."""

    settings: Pmixed
    path: str
    place: str = "the models of shards"

    def prepared(self) -> Preparation:
        side = public_side(self.settings, self.path)
        getattr(side.model, "ready", lambda: None)()
        return Preparation(side.content, lambda work: work.done(side))


@dataclass(frozen=True, slots=True)
class Cut:
    """The texts of a shard, to be cut into records."""

    texts: Sequence[str]

    def done(self, side: PublicSide) -> Records:
        found = side.private_records(self.texts)
        side.require_known(found)
        return found


@dataclass(frozen=True, slots=True)
class Learn:
    """The records of a shard, of which a model learns."""

    records: Records

    def done(self, side: PublicSide) -> bytes:
        return side.taught(self.records)


@dataclass(frozen=True, slots=True)
class Rehearse:
    """Nothing, of which a model learns too: an empty shard."""

    def done(self, side: PublicSide) -> None:
        side.tuned(side.taught([]))


@contextmanager
def tuning(plan: PmixedPlan, side: PublicSide) -> Iterator[Apart]:
    """The processes in which models learn.

    side: what is public, by which nothing private is asked. Raises InputError where the public model is another one when it is built again.
    """
    with Apart(ShardTuning(plan.settings, plan.path), GONE, threads=cores()) as apart:
        require_same_content(side.content, apart.content)
        yield apart


def cut(apart: Apart, shards: Sequence[Sequence[str]]) -> list[Records]:
    """The records of each shard. Raises InputError where the tokenizer fails, or has tokens that the model does not know."""
    found = dict(apart.each((shard, Cut(texts)) for shard, texts in enumerate(shards)))
    return [found[shard] for shard in range(len(shards))]


def rehearsed(apart: Apart) -> None:
    """Raise InputError where a model that learnt, of nothing here, is none, or of other tokens than the public one."""
    list(apart.each([(0, Rehearse())]))


def taught(apart: Apart, records: Iterable[tuple[int, Records]]) -> Iterator[tuple[int, bytes]]:
    """The number of each shard, and what a model learns from its records alone."""
    return apart.each((shard, Learn(own)) for shard, own in records)
