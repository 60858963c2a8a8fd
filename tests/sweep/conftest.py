"""A cache of training plans for the tests of sweeps. A plan solves for the noise of its target epsilon, mostly for the same few files."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from dpcli.sweep import sweep_plan as plans

if TYPE_CHECKING:
    from dpcli.train.plan.plan import TrainingPlan

_solved: dict[tuple[str, bytes], TrainingPlan] = {}


@pytest.fixture(autouse=True)
def _plans_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    plan_of = plans.plan_of

    def cached_plan_of(path: str, data: bytes) -> TrainingPlan:
        key = ("" if b'"digits"' in data else os.path.dirname(path), data)
        if key not in _solved:
            _solved[key] = plan_of(path, data)
        return replace(_solved[key], path=path)

    monkeypatch.setattr(plans, "plan_of", cached_plan_of)
