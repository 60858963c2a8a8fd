"""Teachers on several processes: torchrun --nproc-per-node N -m dpcli pate fit FILE.

Each process fits its part of the teachers and leaves their votes in the one folder, which all of them see; the first one alone holds the
folder, says who is to be fitted, and counts the votes once all have come. Nobody waits for one who is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError
from dpcli.base.extras import require
from dpcli.train.run.processes import several_processes

if TYPE_CHECKING:
    from dpcli.train.run.ranks import Several

PATIENCE = timedelta(days=30)  # for the slowest teacher: one who is gone is told at once
GONE = "a process of teachers was killed, or out of memory: those that were fitted are kept, and the same command goes on"


@dataclass(frozen=True, slots=True)
class FittingRanks:
    """The processes that fit teachers. ranks: None where this one is alone."""

    ranks: Several | None = None

    @property
    def first(self) -> bool:
        return self.ranks is None or self.ranks.first

    @property
    def several(self) -> bool:
        return self.ranks is not None

    def mine(self, numbers: Sequence[int] | None, digest: str) -> list[int]:
        """This process' part of the teachers that the first says are to be fitted (`numbers`).

        Raises InputError where it was given other data than the first (`digest`).
        """
        if self.ranks is None:
            assert numbers is not None
            return list(numbers)
        with _heard():
            of, left = self.ranks.same((digest, list(numbers)) if numbers is not None else None)
        if of != digest:
            raise InputError("expected the same data and queries on each process, found others than the first one's")
        return left[self.ranks.rank :: self.ranks.world]

    def all_done(self) -> None:
        """Wait for the votes of all."""
        if self.ranks is not None:
            with _heard():
                self.ranks.number(1.0)


@contextmanager
def fitting_ranks() -> Iterator[FittingRanks]:
    """The processes of this fit, as torchrun's environment says. Raises InputError where one of them is gone."""
    if not several_processes():
        yield FittingRanks()
        return
    require("torch")
    import torch.distributed as dist

    from dpcli.train.run.ranks import Several

    with _heard():
        dist.init_process_group("gloo", timeout=PATIENCE)
        ranks = Several("cpu")
    yield FittingRanks(ranks)
    with _heard():
        ranks.part_ways()


@contextmanager
def _heard() -> Iterator[None]:
    """What torch raises where a connection is lost, in words."""
    try:
        yield
    except RuntimeError:
        raise InputError(GONE) from None
