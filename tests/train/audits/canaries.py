"""Helpers for audits by canary gradients (train/replay/canaries.py): real runs on small files, and the audit of what they leave."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dpcli.audit.audit_result import Audit
from dpcli.audit.audit_settings import AuditSettings
from dpcli.audit.claim import file_claim
from dpcli.audit.evidence import read_evidence
from dpcli.audit.one_run import one_run_audit
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.random.streams import insecure_seed
from dpcli.train.plan.plan import TrainingPlan
from dpcli.train.run.ranks import Ranks
from dpcli.train.step import prepare as prepare_module
from dpcli.train.step.prepare import Prepared, prepare
from tests.train.entries import BALLS, BANDED, BUFFERED, FULL, HEAD, MAIN, SHUFFLE, TREE

CANARIES = 300
SIZE = HEAD.replace("1_000", "2_100")
OFTEN_SEEN = MAIN.replace("batch_size = 50", "rate = 0.3")
QUIET = {
    "multiplier = 2.0": "multiplier = 8.0",
    "multiplier = 5.0": "multiplier = 20.0",
}  # beyond epsilon 6, 300 coins prove nothing
AUDIT = f'[audit]\nkind = "one-run"\ncanary = "gradient"\ncanaries = {CANARIES}\n'


def taken(plan: TrainingPlan, seed: int) -> Prepared:
    """The real run after its last step."""
    prepared = prepare(plan, insecure_seed(seed), Ranks(), None, "")
    for stage in plan.stages:
        prepared.take_steps(stage, lambda step: None, lambda: False)
    return prepared


def audited(plan: TrainingPlan, seed: int, **settings: object) -> Audit:
    """The real run's steps, and the audit of what they left."""
    prepared = taken(plan, seed)
    assert prepared.canaries is not None
    Path("left").mkdir(exist_ok=True)
    prepared.canaries.write_scores("left", prepared.problem)
    found = read_evidence("left")
    assert found.scores is not None
    claim = file_claim(plan.pipeline, None, Adjacency.ADD_REMOVE)
    return one_run_audit(found.scores, claim, AuditSettings(kind="one-run", **settings), "left", found.observed)  # type: ignore[arg-type]


def less_noise(factor: float, patch: pytest.MonkeyPatch) -> None:
    real = prepare_module.noise_of
    patch.setattr(prepare_module, "noise_of", lambda spec, bound, stream: real(spec, bound / factor, stream))


def refuted_by_guesses(audit: Audit) -> bool:
    return replace(audit, checks=()).violated


def factor_of(audit: Audit) -> float:
    """The loss of noise that the guesses alone find."""
    return float(audit.power[1].partition("divided by ")[2].split()[0])


def quiet(entry: str) -> str:
    for loud, more in QUIET.items():
        entry = entry.replace(loud, more)
    return entry


ENTRIES = {
    "poisson": OFTEN_SEEN,
    "full": quiet(FULL),
    "shuffle": quiet(SHUFFLE),
    "balls": quiet(BALLS),
    "tree": quiet(TREE),
    "banded": quiet(BANDED),
    "buffered": quiet(BUFFERED),
    "adaptive": OFTEN_SEEN,
}
