"""One run on several processes: torchrun --nproc-per-node N -m dpcli train FILE.

Each step has one sample, drawn by the first process and shared out; each process clips and sums its part; the first adds the noise, once
in total, and everybody steps with the same noisy sum. Everybody takes part in every step, also where its part is empty, so that
nobody waits for one who does not come.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from dpcli.train.run.processes import several_processes

T = TypeVar("T")


class Ranks(Protocol):
    """The processes of a run."""

    @property
    def first(self) -> bool:
        """Whether this process draws, charges and writes."""

    def same(self, value: T | None) -> T:
        """The first one's value, everywhere."""

    def part(self, batch: Tensor) -> Tensor:
        """This process' part of the sample."""

    def summed(self, sums: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The sums over all processes; of use in the first."""

    def spread(self, values: dict[str, Tensor]) -> dict[str, Tensor]:
        """The first one's tensors, everywhere; elsewhere given for their shapes."""

    def number(self, value: float) -> float:
        """The sum of a number over all processes."""

    def part_ways(self) -> None:
        """At the end: nobody leaves before everybody is done."""


class Alone:
    """One process."""

    first = True

    def same(self, value: T | None) -> T:
        assert value is not None
        return value

    def part(self, batch: Tensor) -> Tensor:
        return batch

    def summed(self, sums: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return dict(sums)

    def spread(self, values: dict[str, Tensor]) -> dict[str, Tensor]:
        return values

    def number(self, value: float) -> float:
        return value

    def part_ways(self) -> None:
        """Nobody waits."""


class Several:
    """Processes that torchrun started; gloo on processors, nccl on GPUs."""

    def __init__(self, device: str) -> None:
        if not dist.is_initialized():
            dist.init_process_group("nccl" if device.startswith("cuda") else "gloo")
        self.rank, self.world = dist.get_rank(), dist.get_world_size()

    @property
    def first(self) -> bool:
        return self.rank == 0

    def same(self, value: T | None) -> T:
        held: list[Any] = [value if self.first else None]
        dist.broadcast_object_list(held, 0)
        found: T = held[0]
        return found

    def part(self, batch: Tensor) -> Tensor:
        return batch[self.rank :: self.world]

    def summed(self, sums: Mapping[str, Tensor]) -> dict[str, Tensor]:
        flat = torch.cat([value.reshape(-1).double() for value in sums.values()])  # also where a process had one micro-batch
        dist.reduce(flat, 0)
        return _split(flat, sums)

    def spread(self, values: dict[str, Tensor]) -> dict[str, Tensor]:
        flat = torch.cat([value.reshape(-1) for value in values.values()])
        dist.broadcast(flat, 0)
        return _split(flat, values)

    def number(self, value: float) -> float:
        held: list[Any] = [None] * self.world
        dist.all_gather_object(held, value)
        return float(sum(held))

    def part_ways(self) -> None:
        dist.barrier()
        dist.destroy_process_group()  # its threads must not outlive it


def _split(flat: Tensor, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    parts = torch.split(flat, [value.numel() for value in like.values()])
    return {name: part.view(value.shape) for part, (name, value) in zip(parts, like.items(), strict=True)}


def ranks_of(device: str) -> Ranks:
    """The processes of this run, as the environment of torchrun says."""
    return Several(device) if several_processes() else Alone()
