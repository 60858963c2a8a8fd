"""Every rule has its generator, and finds what that plants wherever it stands, and nothing of it in the repaired file."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpcli.lint.catalogue import READER_RULES, SECTION_RULES, codes
from dpcli.lint.run import lint_bytes
from tests.lint.generators import CODES, drawn


def found(text: str) -> set[str]:
    return {diagnostic.rule for diagnostic in lint_bytes(text.encode(), "generated.toml")}


def test_every_rule_has_a_generator() -> None:
    assert tuple(CODES) == codes()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("code", CODES)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_a_planted_fault_is_found_and_its_repair_is_not(code: str, data: st.DataObject) -> None:
    bad, good = drawn(data.draw, code)
    assert code in found(bad), bad
    assert code not in found(good), good
    # What a rule tells of in a section is no key of it, or is one with other values: the reader has its say besides.
    reader = set(READER_RULES) if code not in READER_RULES else set()
    assert found(bad) - found(good) - reader == {code}, bad


@pytest.mark.sampled(2)
@pytest.mark.parametrize("code", SECTION_RULES)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_what_a_rule_about_sections_tells_of_is_refused_by_the_reader(code: str, data: st.DataObject) -> None:
    bad, _ = drawn(data.draw, code)
    assert found(bad) & set(READER_RULES), bad
