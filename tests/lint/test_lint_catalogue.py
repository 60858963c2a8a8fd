from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpcli.errors import InputError
from dpcli.lint.catalogue import codes, rule
from dpcli.lint.run import lint

READING = ("DP001", "DP002", "DP003", "DP004", "DP005")


def found(text: str, folder: Path) -> set[str]:
    file = folder / "pipeline.toml"
    file.write_text(text, encoding="utf-8")
    return {diagnostic.rule for diagnostic in lint(str(file))}


@pytest.mark.parametrize("code", codes())
def test_the_bad_example_gives_its_rule_alone(code: str, tmp_path: Path) -> None:
    assert found(rule(code).bad, tmp_path) == {code}


@pytest.mark.parametrize("code", codes())
def test_the_good_example_gives_nothing(code: str, tmp_path: Path) -> None:
    assert found(rule(code).good, tmp_path) == set()


def test_codes_are_sorted_unique_and_well_formed() -> None:
    assert list(codes()) == sorted(set(codes()))
    assert all(re.fullmatch(r"DP\d\d\d", code) for code in codes())


@pytest.mark.parametrize("code", codes())
def test_a_registry_line_leads_to_the_rule_of_its_code(code: str) -> None:
    assert rule(code).code == code


@pytest.mark.parametrize("code", codes())
def test_every_rule_says_all_that_explain_needs(code: str) -> None:
    info = rule(code)
    assert all((info.title, info.what, info.why, info.fix, info.source, info.bad, info.good))


@pytest.mark.parametrize("code", codes())
def test_only_the_reader_rules_have_no_check(code: str) -> None:
    assert (rule(code).check is None) == (code in READING)


def test_codes_may_be_written_in_lower_case() -> None:
    assert rule("dp101") is rule("DP101")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("D101", "expected the code of a rule, found 'D101'; did you mean DP101?"),
        ("sigma", "expected the code of a rule, found 'sigma'; the first is DP001, the last DP306"),
    ],
)
def test_an_unknown_code_is_refused_with_a_hint(code: str, message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        rule(code)
