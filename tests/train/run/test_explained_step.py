"""`dpcli train --explain-step` describes what a step really does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

from dpcli.base.registry import SAMPLING
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.random.streams import system_entropy
from dpcli.train.documents.step import DRAWS, MOVES
from dpcli.train.plan.plan import plan_of
from dpcli.train.run.ranks import Ranks
from dpcli.train.step.prepare import prepare
from tests.cases import require_each
from tests.command import dpcli
from tests.train.samples import FILE

STYLES = {
    "flat": "{ norm = 1.0 }",
    "automatic": '{ norm = 1.0, style = "automatic" }',
    "per-layer": '{ norm = 1.0, style = "per-layer" }',
    "adaptive": '{ norm = 1.0, style = "adaptive", quantile_noise = 10.0 }',
}


def explained(text: str, folder: Path) -> list[str]:
    (folder / "tiny.toml").write_text(text)
    result = dpcli("train", "tiny.toml", "--explain-step", "-f", "json", folder=folder)
    assert result.code == 0, result.err
    assert [path.name for path in folder.iterdir()] == ["tiny.toml"]  # nothing was trained
    (stage,) = json.loads(result.out)["stages"]
    lines: list[str] = stage["step"]
    return lines


def test_the_noise_is_the_noise_that_a_step_draws(tmp_path: Path) -> None:
    def agrees(style: str) -> None:
        lines = explained(FILE.replace(STYLES["flat"], STYLES[style]), tmp_path)
        (said,) = (
            float(match[1]) for line in lines if (match := re.search(r"standard deviation ([0-9.e+-]+) in each number", line))
        )
        prepared = prepare(plan_of(str(tmp_path / "tiny.toml")), system_entropy(), Ranks(), None, "")
        trainer, noise = prepared.trainer, prepared.noise(prepared.plan.stages[0])
        scale = 1.0 if trainer.adaptive_norm is None else trainer.adaptive_norm.clip.bound
        drawn = torch.cat([value.flatten() for _ in range(40) for value in noise.next(trainer.shapes).values()])
        assert float(drawn.std()) * scale == pytest.approx(said, rel=0.03)  # 26,000 numbers: 0.4 % each way
        assert any("650 numbers in 2 tensors (1.weight 10x64, 1.bias 10)" in line for line in lines)
        assert any(line.startswith("count: ") for line in lines) == (style == "adaptive")

    require_each(STYLES, agrees)


def test_a_step_is_told_in_order(tmp_path: Path) -> None:
    lines = explained(FILE, tmp_path)
    assert [line.partition(":")[0] for line in lines] == ["draw", "gradients", "clip", "sum", "noise", "size", "divide", "update"]
    assert "each of 1,437 records with probability 0.0445372, independently: about 64" in lines[0]
    assert "one record more or less moves the sum by at most C" in lines[3]
    assert lines[6].startswith("divide: by 64, a public number")
    cut = explained(FILE.replace("batch_size = 64", "batch_size = 64, max_batch_size = 120"), tmp_path)
    assert cut[0].endswith("of more than 120, others are left out at random")
    replaced = explained(FILE.replace("add-remove", "replace-one"), tmp_path)
    assert "another record in the place of one moves the sum by at most 2 C" in replaced[3]


def test_every_scheme_and_adjacency_has_words() -> None:
    assert set(DRAWS) == set(SAMPLING) - {"cyclic"}  # training refuses cyclic passes
    assert set(MOVES) == set(Adjacency)
