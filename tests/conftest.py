"""Shared settings of the tests."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

_QUIET = [HealthCheck.too_slow, HealthCheck.differing_executors]
settings.register_profile("dev", deadline=None, max_examples=15, suppress_health_check=_QUIET)
settings.register_profile("ci", deadline=None, max_examples=15, suppress_health_check=_QUIET, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=400, suppress_health_check=_QUIET)
settings.register_profile(  # for planted bugs: any failure will do, the smallest example is of no interest
    "planted",
    deadline=None,
    max_examples=20,
    suppress_health_check=_QUIET,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))
