"""The warning for an epsilon so large that it protects nobody: account and gate say so first, whatever the cap."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from dpcli.analysis.account import account, large_epsilon
from tests.cases import of_each
from tests.command import dpcli
from tests.strategies import entry, pipeline

FILE = """\
format = 1

[privacy]
unit = "example"
adjacency = "add-remove"
dataset_size = 60_000
delta = 1e-6
releases = "final-model"
dataset = "clicks"

[[mechanism]]
name = "sums"
type = "laplace"
noise_multiplier = {noise}
steps = {steps}
"""


def written(folder: Path, noise: float, steps: int = 1, name: str = "it.toml") -> str:
    file = folder / name
    file.write_text(FILE.format(noise=noise, steps=steps))
    return str(file)


@settings(max_examples=30, deadline=None)
@given(st.floats(0.01, 9.99), st.floats(10.01, 99.9), st.floats(100.1, 1e5), st.integers(1, 50))
def test_what_is_computed_decides(small: float, large: float, absurd: float, steps: int) -> None:
    """Pure noise, whose epsilon is steps / noise_multiplier at delta = 0."""
    for epsilon in (small, large, absurd):
        found = large_epsilon(account(pipeline(entry("laplace", noise_multiplier=steps / epsilon, steps=steps), delta=0.0)))
        words = {small: [], large: ["gives almost no protection"], absurd: ["gives no protection"]}[epsilon]
        assert len(found) == len(words)
        assert all(one.rule == "DP304" and word in one.message for one, word in zip(found, words, strict=True))


@of_each("budget", ["", "\n[budget]\nepsilon = 50.0\n", "\n[budget]\nepsilon = 9.0\n"])
@of_each("noise", ['type = "pure-dp"\nepsilon = 30.0', 'type = "laplace"\nnoise_multiplier = 0.05'])
def test_one_fact_is_told_once(budget: str, noise: str, tmp_path: Path) -> None:
    """Of a file that states an epsilon above 10, lint says so; the computed one is told where there is none."""
    mechanism = FILE.format(noise=1, steps=1).replace('type = "laplace"\nnoise_multiplier = 1', noise)
    (tmp_path / "it.toml").write_text(mechanism + budget)
    for command in (["account"], ["gate", "--max-epsilon", "100"]):
        result = dpcli(*command, str(tmp_path / "it.toml"), "-f", "json").out
        stated = ("pure" in noise) + ("50" in budget)
        assert result.count('"rule": "DP304"') == max(stated, 1)
        assert ("0.0000 gives" in result) is (stated == 0)


def test_a_group_or_a_delta_is_not_asked_about() -> None:
    large = pipeline(entry("laplace", noise_multiplier=0.2), delta=0.0)
    assert (
        large_epsilon(account(large))
        == large_epsilon(account(large, group_size=4))
        == large_epsilon(account(large, epsilon=20.0))
        == ()
    )


@of_each(
    "noise, words", [(0.05, "epsilon = 20.0000 gives almost no protection"), (0.001, "epsilon = 1000.0000 gives no protection")]
)
def test_account_says_it_first_under_the_headline(noise: float, words: str, tmp_path: Path) -> None:
    file = written(tmp_path, noise)
    result = dpcli("account", file, "--delta", "0")
    lines = [line for line in result.out.splitlines() if line]
    assert result.code == 0
    assert lines[0].startswith("epsilon <= ") and lines[1] == "warning DP304" and lines[2].startswith(words)
    found = json.loads(dpcli("account", file, "--delta", "0", "-f", "json").out)["diagnostics"]
    assert [(one["rule"], one["severity"]) for one in found] == [("DP304", "warning")]
    assert dpcli("account", "--laplace", "--noise-multiplier", str(noise)).out.splitlines()[2] == "warning DP304"


def test_a_gate_warns_of_it_below_any_cap_and_judges_nothing_without_one(tmp_path: Path) -> None:
    file = written(tmp_path, 0.05)
    passed = dpcli("gate", file, "--max-epsilon", "50")
    assert passed.code == 0 and passed.out.startswith("gate: pass (1 pass); 1 warning\n")
    assert "almost no" in passed.out
    without = dpcli("gate", file)
    assert without.code == 2 and without.out.startswith("gate: INVALID")


def test_a_sum_over_a_dataset_may_protect_nobody_where_each_file_does(tmp_path: Path) -> None:
    files = [written(tmp_path, 1.0, 6, name) for name in ("a.toml", "b.toml")]
    result = dpcli("account", *files)
    assert 'dataset "clicks": warning DP304' in result.out and "a.toml: warning DP304" not in result.out
