"""A run of the worst model there is, audited by its canaries: what is right passes at its own claim, half of the noise does not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from dpcli.train.plan.plan import plan_of
from dpcli.train.run.training_run import train
from dpcli.train.step import prepare
from tests.command import ROOT, dpcli

EXAMPLE = ROOT / "examples" / "audit" / "worst-case.toml"


@pytest.mark.sampled(0, 1)
@pytest.mark.long
@pytest.mark.parametrize(("factor", "code", "words"), [(1.0, 0, "no violation found at 95 %"), (0.5, 1, "VIOLATION at 95 %")])
def test_half_of_the_noise_is_found(factor: float, code: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    monkeypatch.chdir(tmp_path)
    real = prepare.noise_of
    monkeypatch.setattr(prepare, "noise_of", lambda spec, bound, stream: real(spec, factor * bound, stream))
    outcome = train(plan_of(str(EXAMPLE)), insecure_seed=1)  # seeded, so that the verdict is always the same
    found = dpcli("audit", str(EXAMPLE), "--scores", outcome.folder, "--picture", "trade-off.svg", folder=tmp_path)
    assert found.code == code
    assert words in found.out
    assert words in (tmp_path / "trade-off.svg").read_text()
