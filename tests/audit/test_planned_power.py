"""What `dpcli audit --dry-run` states before an audit is what the audit states after it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from dpcli.audit.audit_settings import AuditSettings
from dpcli.audit.bounds import Counts
from dpcli.audit.claim import stated_claim
from dpcli.audit.gradient_scores import ObservedRun, SampledSteps
from dpcli.audit.noise_statistics import detectable_factor
from dpcli.audit.one_run import one_run_audit, planned_guessing_power
from dpcli.audit.scores import Scores
from dpcli.audit.two_runs import threshold_power, two_run_audit
from dpcli.mechanisms.neighbours import Adjacency
from tests.command import dpcli

CLAIM = stated_claim(2.0, 1e-5, Adjacency.ADD_REMOVE)
STEPS = (SampledSteps(10, 0.3, 2.0),)


def scores(count: int, balanced: bool = False) -> Scores:
    rng = np.random.default_rng(random.randrange(2**32))
    members = np.arange(count) % 2 == 0 if balanced else rng.random(count) < 0.5
    return Scores(members, rng.standard_normal(count))


@pytest.mark.parametrize("steps", [(), STEPS], ids=["records", "gradients"])
@pytest.mark.parametrize("guesses", [None, 60])
def test_one_run(steps: tuple[SampledSteps, ...], guesses: int | None) -> None:
    settings = AuditSettings(kind="one-run", guesses=guesses)
    after = one_run_audit(scores(200), CLAIM, settings, "here", ObservedRun(steps) if steps else None)
    assert planned_guessing_power(200, CLAIM, settings, steps) == after.power


@pytest.mark.parametrize("trials", [200, 1_001])
def test_two_runs(trials: int, tmp_path: Path) -> None:
    """The command's own count of the runs that test the threshold."""
    (tmp_path / "own.py").write_text("def data(rng): return 1, 0\ndef score(data, rng): return data + rng.normal()\n")
    planned = dpcli(
        "audit", "--function", "own:score", "--data", "own:data", "--trials", str(trials), "--epsilon", "2", "--delta", "1e-5",
        "--dry-run", "-f", "json", folder=tmp_path,
    )  # fmt: skip
    assert planned.code == 0, planned.err
    after = two_run_audit(scores(2 * trials, balanced=True), CLAIM, AuditSettings(kind="two-run"), "here")
    assert json.loads(planned.out)["power"] == list(after.power)
    assert threshold_power(Counts(trials, trials, 0, 0), CLAIM, 0.95) != after.power  # were no score kept for the choice


def test_a_replay_of_a_function_is_planned_for_a_single_step(tmp_path: Path) -> None:
    planned = dpcli("audit", "--kind", "replay", "--function", "own:none", "--data", "own:none", "--dry-run", folder=tmp_path)
    assert planned.code == 0 and "5 replays of 1 step would detect" in planned.out and "no clipping" in planned.out
    missing = dpcli("audit", "--epsilon", "2", "--delta", "1e-5", "--dry-run", folder=tmp_path)
    assert missing.code == 2 and "expected a number of canaries" in missing.err


def test_noise_that_a_replay_is_said_to_detect_is_detected_as_often() -> None:
    """By the lower tail of chi-square, simulated."""
    rng, level = np.random.default_rng(5), 1e-3
    for count in (10, 100, 1_000):
        factor = detectable_factor(count, level)
        right = np.sort((rng.standard_normal((20_000, count)) ** 2).sum(1))
        wrong = (rng.standard_normal((4_000, count)) ** 2).sum(1) / factor**2
        assert (wrong <= right[int(level * len(right))]).mean() == pytest.approx(0.9, abs=0.06)
