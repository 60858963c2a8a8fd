"""Every rule has its generator, and finds what that plants wherever it stands, and nothing of it in the repaired file."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpcli.lint.catalogue import READER_RULES, SECTION_RULES, codes
from dpcli.lint.run import lint_bytes
from tests.cases import of_each
from tests.lint.generators import CODES, drawn


def found(text: str) -> set[str]:
    return {diagnostic.rule for diagnostic in lint_bytes(text.encode(), "generated.toml")}


def test_every_rule_has_a_generator() -> None:
    assert tuple(CODES) == codes()


def drawn_pairs(code: str, examples: int, check: Callable[[str, str], None]) -> None:
    """The check, of files that break a rule and the same files repaired."""

    @settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(data=st.data())
    def each(data: st.DataObject) -> None:
        check(*drawn(data.draw, code))

    each()


EXAMPLES = pytest.mark.parametrize(
    "examples", [2, pytest.param(8, marks=pytest.mark.long), pytest.param(25, marks=pytest.mark.nightly)]
)


@pytest.mark.long
@EXAMPLES
@of_each("code", CODES)
def test_a_planted_fault_is_found_and_its_repair_is_not(code: str, examples: int) -> None:
    # What a rule tells of in a section is no key of it, or is one with other values: the reader has its say besides.
    reader = set(READER_RULES) if code not in READER_RULES else set()

    def check(bad: str, good: str) -> None:
        planted, left = found(bad), found(good)
        assert code in planted, bad
        assert code not in left, good
        assert planted - left - reader - {"DP308"} == {code} - {"DP308"}, bad  # a planted sensitivity may make the noise small, too

    drawn_pairs(code, examples, check)


@pytest.mark.long
@EXAMPLES
@of_each("code", SECTION_RULES)
def test_what_a_rule_about_sections_tells_of_is_refused_by_the_reader(code: str, examples: int) -> None:
    def check(bad: str, _: str) -> None:
        assert found(bad) & set(READER_RULES), bad

    drawn_pairs(code, examples, check)
