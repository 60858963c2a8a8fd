from __future__ import annotations

import subprocess
import sys

import pytest

from dpcli.base.errors import InputError
from dpcli.lint.catalogue import ELSEWHERE, LEDGER_RULES, codes, explain, rule
from tests.cases import of_each


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


def test_tuning_names_the_mechanism_that_pays_for_it() -> None:
    assert "repeat-and-select" in explain("DP110")


def test_an_unknown_code_is_refused() -> None:
    with pytest.raises(InputError, match="expected the code of a rule"):
        explain("DP999")


def test_explaining_one_rule_loads_no_other_group() -> None:
    program = (
        "import sys; from dpcli.lint.catalogue import explain; explain('DP105'); "
        "print([m for m in sys.modules if m in ('dpcli.lint.sampling', 'dpcli.lint.guarantees', 'dpcli.lint.guarantees')])"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
