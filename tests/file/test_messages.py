"""Tests of messages: they name the mistake and not its consequence, and thousands of equal ones take one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpcli.analysis.account import account
from dpcli.file.pipeline.read import parse
from dpcli.file.toml.shown import NAMED, first_names
from dpcli.file.toml.syntax import _REWORDED, reworded
from dpcli.lint.rule_info import HEAD, TRAIN, edited
from dpcli.lint.run import lint_bytes
from tests.command import dpcli

from .samples import said


def test_tomli_is_understood_in_the_words_of_its_lowest_version() -> None:
    """Version 2.0.0 says `Can not`, and quotes with double quotes."""
    for words in _REWORDED:
        older = words.replace("Cannot", "Can not").replace("'", '"')
        assert reworded(older, "x = 1") == reworded(words, "x = 1"), words
        assert reworded(older, "x = 1")[0] != "valid TOML", words


@pytest.mark.parametrize("unit", ["exmaple", "examples", "exampel", "Example"])
def test_a_misspelt_example_is_asked_about_first(unit: str) -> None:
    (found,) = said(edited(HEAD, '"example"', f'"{unit}"') + TRAIN)
    assert found.startswith("DP005 4:1 privacy.unit: ")
    assert found.endswith('did you mean unit = "example"?')


@pytest.mark.parametrize("unit", ["user", "household", "patient", "sample"])
def test_another_unit_is_asked_for_its_records(unit: str) -> None:
    (found,) = said(edited(HEAD, '"example"', f'"{unit}"') + TRAIN)
    assert (
        f"privacy.max_contributions: expected the largest number of records that one '{unit}' contributes, found nothing" in found
    )


def test_an_adaptive_pipeline_is_not_told_that_there_are_no_filters() -> None:
    result = account(parse((HEAD + "adaptive = true\n" + TRAIN).encode(), "x"))
    reasons = {row.accountant.name: row.reason for row in result.rows if row.reason}
    assert "a ledger offers more filters for runs chosen one after another: dpcli budget init --filter" in (reasons["rdp"] or "")
    assert not [reason for reason in reasons.values() if reason and "no privacy filter" in reason]


@pytest.mark.parametrize(("sensitivity", "discrete"), [("1", True), ("2.0", True), ("1.5", False), ("0.1", False)])
def test_discrete_noise_is_proposed_for_whole_numbers_only(sensitivity: str, discrete: bool) -> None:
    noisy = f'\n[[mechanism]]\nname = "sum"\ntype = "gaussian"\nsigma = 4.0\nsensitivity = {sensitivity}\n'
    (found,) = lint_bytes((edited(HEAD, "final-model", "outputs") + noisy).encode(), "x")
    assert found.rule == "DP201"
    assert ("discrete-gaussian" in found.message) == discrete


@pytest.mark.parametrize("count", [0, 1, NAMED, NAMED + 1, 3_000])
def test_eight_are_named_and_the_others_counted(count: int) -> None:
    told = first_names((f"n{k}" for k in range(count)), "nothing")
    expected = ", ".join(f"n{k}" for k in range(min(count, 8))) or "nothing"
    assert told == expected + (f" and {count - 8:,} more" if count > 8 else "")


ENTRY = '[[mechanism]]\nname = "number-{}"\ntype = "{}"\nnoise_multiplier = 900.0\n'
PRIVACY = '[privacy]\nunit = "example"\nadjacency = "add-remove"\ndelta = 0.0\n'
TABLES = {
    "train": '[train]\nmechanism = "other"\n',
    "federated": '[federated]\nmechanism = "other"\n',
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("arguments", "table"),
    [
        (("calibrate", "--solve", "noise", "-m", "other", "--target-epsilon", "1", "--delta", "1e-6"), ""),
        (("calibrate", "--solve", "noise", "--target-epsilon", "1", "--delta", "1e-6"), ""),
        (("account",), ""),
        (("account",), TABLES["train"]),
        (("account",), TABLES["federated"]),
        (("train", "--dry-run"), TABLES["train"]),
        (("pate", "account"), "[pate]\n"),
        (("generate", "--dry-run"), "[generate]\n"),
    ],
)
def test_no_line_of_a_refusal_grows_with_the_file(arguments: tuple[str, ...], table: str, tmp_path: Path) -> None:
    entries = "".join(ENTRY.format(k, "gaussian") for k in range(1_500))
    (tmp_path / "many.toml").write_text(f"format = 1\n{PRIVACY}{table}{entries}")
    name, *flags = arguments
    said = (
        dpcli(name, *flags[:1], "many.toml", *flags[1:], folder=tmp_path)
        if name == "pate"
        else dpcli(name, "many.toml", *flags, folder=tmp_path)
    )
    assert said.code and max(map(len, said.err.splitlines())) < 700, said.err[:1000]
