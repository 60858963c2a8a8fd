"""Every rule has its generator, and finds what that plants wherever it stands, and nothing of it in the repaired file."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpcli.lint.catalogue import codes
from dpcli.lint.run import lint_bytes
from tests.lint.generators import CODES, drawn


def found(text: str) -> set[str]:
    return {diagnostic.rule for diagnostic in lint_bytes(text.encode(), "generated.toml")}


def test_every_rule_has_a_generator() -> None:
    assert tuple(CODES) == codes()


@pytest.mark.parametrize("code", CODES)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_a_planted_fault_is_found_and_its_repair_is_not(code: str, data: st.DataObject) -> None:
    bad, good = drawn(data.draw, code)
    assert code in found(bad), bad
    assert code not in found(good), good
    assert found(bad) - found(good) == {code}, bad
