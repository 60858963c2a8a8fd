"""Tests of the catalogue of failures: every rule has a bad and a good example, texts, a severity, and a code of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from dpcli.base.errors import InputError
from dpcli.lint.catalogue import (
    ELSEWHERE,
    FILE_RULES,
    LEDGER_RULES,
    READER_RULES,
    SECTION_RULES,
    checked_codes,
    codes,
    entry_of,
    explain,
    rule,
)
from dpcli.lint.run import lint
from tests.cases import of_each

REGISTRIES = (READER_RULES, FILE_RULES, SECTION_RULES, ELSEWHERE, LEDGER_RULES)
# The second column of the failure catalogue: refused without a waiver (E*), refused (E), warned of (W).
NEVER_WAIVED = {"DP001", "DP002", "DP003", "DP004", "DP005", "DP103", "DP107", "DP111", "DP112", "DP201", "DP206", "DP208"}
ERRORS = {"DP102", "DP104", "DP105", "DP110", "DP113", "DP115", "DP116", "DP204", "DP209", "DP210"}
# Refused by the catalogue, and warned of here, as dpcli counts what the file says on the safe side; the text of each says so.
SOFTENED = {"DP101", "DP112", "DP201", "DP213"}


def found(text: str, folder: Path) -> set[str]:
    file = folder / "pipeline.toml"
    file.write_text(text, encoding="utf-8")
    return {diagnostic.rule for diagnostic in lint(str(file))}


@of_each("code", codes())
def test_the_bad_example_gives_its_rule_alone(code: str, tmp_path: Path) -> None:
    unread = {"DP002"} if code in SECTION_RULES else set()  # a key that no command reads
    assert found(rule(code).bad, tmp_path) == {code} | unread


@of_each("code", codes())
def test_the_good_example_gives_nothing(code: str, tmp_path: Path) -> None:
    assert found(rule(code).good, tmp_path) == set()


def test_codes_are_sorted_unique_and_well_formed() -> None:
    assert list(codes()) == sorted(set(codes()))
    assert all(re.fullmatch(r"DP\d\d\d", code) for code in codes())


@of_each("code", codes())
def test_every_rule_says_all_that_explain_needs(code: str) -> None:
    info = rule(code)
    assert all((info.title, info.what, info.why, info.fix, info.source, info.bad, info.good))


@of_each("code", codes())
def test_only_the_reader_rules_have_no_check(code: str) -> None:
    assert (rule(code).check is None) == (code in READER_RULES)


def test_codes_may_be_written_in_lower_case() -> None:
    assert rule("dp101") is rule("DP101")


@of_each(
    "code, message",
    [
        ("D101", "expected the code of a rule, found 'D101'; did you mean DP101?"),
        ("DP999", f"expected the code of a rule, found 'DP999'; the manual page dpcli(1) lists them, from DP001 to {max(codes())}"),
        ("sigma", f"expected the code of a rule, found 'sigma'; the first is {codes()[0]}, the last {codes()[-1]}"),
    ],
)
def test_an_unknown_code_is_refused_with_a_hint(code: str, message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        rule(code)


def test_no_code_is_in_two_registries() -> None:
    everywhere = [code for registry in REGISTRIES for code in registry]
    assert len(everywhere) == len(set(everywhere))


@of_each("code", [*ELSEWHERE, *LEDGER_RULES])
def test_what_no_file_can_show_says_what_catches_it(code: str) -> None:
    info = entry_of(code)
    assert info.code == code
    assert all((info.title, info.what, info.why, info.fix, getattr(info, "caught", None), info.source))
    assert code not in codes()


def test_the_catalogue_has_no_row_without_words() -> None:
    """Every code of the catalogue of known failures: a rule, or words about what catches it."""
    rows = [*range(1, 6), *range(101, 108), *range(109, 114), 115, 116, 117, 119, *range(201, 214), 301, 304, *range(401, 410)]
    assert {f"DP{row:03d}" for row in rows} <= {code for registry in REGISTRIES for code in registry}


@of_each("code", codes())
def test_severity_and_waiver_are_the_catalogues(code: str) -> None:
    info = rule(code)
    assert info.waivable == (code not in NEVER_WAIVED)
    assert info.severity == ("error" if code in (NEVER_WAIVED | ERRORS) - SOFTENED else "warning")


@of_each("code", sorted(SOFTENED))
def test_a_softened_rule_says_why(code: str) -> None:
    assert "warning" in rule(code).what


def test_rules_about_sections_are_left_alone_where_there_is_none() -> None:
    assert set(checked_codes(has_sections=True)) - set(checked_codes(has_sections=False)) == set(SECTION_RULES)
    assert not set(checked_codes(has_sections=True)) & set(READER_RULES)


@of_each("code", [*codes(), *ELSEWHERE, *LEDGER_RULES])
def test_every_rule_fits_100_columns_of_plain_text(code: str) -> None:
    lines = explain(code).splitlines()
    assert max(map(len, lines)) <= 100
    assert all(line.rstrip() == line and line.isprintable() for line in lines)


def test_the_parts_come_in_order() -> None:
    text = explain("DP105")
    parts = [text.index(part) for part in ("\n\nwhat: ", "\n\nwhy: ", "\n\nfix: ", "\n\nsource: ", "\n\nbad:\n\n", "\n\ngood:\n\n")]
    assert text.startswith("DP105: delta too large for the dataset (error, may be waived)\n\n")
    assert parts == sorted(parts)


@of_each("code", codes())
def test_the_examples_are_shown_as_they_stand(code: str) -> None:
    shown = [line.removeprefix("    ") for line in explain(code).splitlines()]
    assert all(line in shown for line in (rule(code).bad + rule(code).good).splitlines())


def test_what_no_file_can_show_is_explained_too() -> None:
    text = explain("dp205")
    parts = [text.index(f"\n\n{part}: ") for part in ("what", "why", "fix", "caught by", "source")]
    assert text.startswith("DP205: random state reused after a fork or a resume (not decided by a file)\n\n")
    assert parts == sorted(parts)


def test_explaining_one_rule_loads_no_other_group() -> None:
    program = (
        "import sys; from dpcli.lint.catalogue import explain; explain('DP105'); "
        "print([m for m in sys.modules if m in ('dpcli.lint.sampling', 'dpcli.lint.guarantees', 'dpcli.lint.guarantees')])"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
