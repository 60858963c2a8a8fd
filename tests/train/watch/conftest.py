"""Fixtures of the tests of a watch: a folder with own.toml, which declares Poisson samples of the records of `dataset`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import TensorDataset

from tests.train.loop.conftest import FILE

N, BATCH, STEPS = 400, 20, 30
POISSON = FILE.replace("dataset_size = 60", f"dataset_size = {N}").replace("steps = 4", f"steps = {STEPS}")


def dataset(count: int = N) -> TensorDataset:
    torch.manual_seed(1)
    return TensorDataset(torch.randn(count, 5), torch.randint(0, 3, (count,)))


class PoissonSampler:
    """A sampler of a user's own data loader."""

    def __init__(self, count: int = N, rate: float = BATCH / N) -> None:
        self.count, self.rate = count, rate
        self.generator = torch.Generator().manual_seed(11)

    def __iter__(self) -> Any:
        for _ in range(len(self)):
            yield torch.nonzero(torch.rand(self.count, generator=self.generator) < self.rate).flatten().tolist()

    def __len__(self) -> int:
        return int(1 / self.rate)


@pytest.fixture(autouse=True)
def own_file(folder: Path) -> None:
    (folder / "own.toml").write_text(POISSON)
