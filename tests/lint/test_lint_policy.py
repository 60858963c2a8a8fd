"""Tests that a policy file is recognised by its keys, and read as strictly as the gate reads it."""

from __future__ import annotations

from dpcli.lint.rule_info import HEAD, TRAIN
from dpcli.lint.run import lint_bytes
from tests.cases import of_each

GOOD = 'format = 1\nepsilon = 3.0\n\n[[rule]]\nfiles = "ads/*.toml"\nepsilon = 1.0\n'


def said(text: str) -> list[tuple[str, str, int]]:
    return [(d.rule, d.key, d.line) for d in lint_bytes(text.encode(), "policy.toml")]


def test_a_good_policy_gives_nothing() -> None:
    assert said(GOOD) == []


@of_each(
    "old, new, expected",
    [
        ("epsilon = 3.0", "epsiln = 3.0", ("DP002", "epsiln", 2)),
        ('files = "ads', 'fils = "ads', ("DP002", "rule[1].fils", 5)),
        ("epsilon = 1.0", 'epsilon = "1.0"', ("DP003", "rule[1].epsilon", 6)),
        ("epsilon = 3.0", "epsilon = -3.0", ("DP004", "epsilon", 2)),
        ("epsilon = 1.0\n", "", ("DP005", "rule[1]", 4)),
    ],
)
def test_what_is_wrong_is_said_at_its_place(old: str, new: str, expected: tuple[str, str, int]) -> None:
    assert expected in said(GOOD.replace(old, new))


def test_a_misspelt_key_alone_still_makes_a_policy() -> None:
    assert said("format = 1\nmax_increse = 0.1\n")[0] == ("DP002", "max_increse", 2)


def test_one_key_of_a_pipeline_makes_it_a_pipeline() -> None:
    assert ("DP002", "epsilon", 2) in said("format = 1\nepsilon = 3.0\nname = 'x'\n")
    assert said(HEAD + TRAIN) == []


def test_neither_is_read_as_a_pipeline() -> None:
    assert {key for _, key, _ in said("format = 1\n")} == {"privacy", "mechanism"}
