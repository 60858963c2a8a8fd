"""Shared settings of the tests."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_QUIET = [HealthCheck.too_slow, HealthCheck.differing_executors]
settings.register_profile("dev", deadline=None, max_examples=25, suppress_health_check=_QUIET)
settings.register_profile("ci", deadline=None, max_examples=25, suppress_health_check=_QUIET, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=400, suppress_health_check=_QUIET)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))
