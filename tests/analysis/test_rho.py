"""Caps on rho in files, policies and flags (analysis/budget_verdict.py), and a stated rho among other mechanisms."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace
from pathlib import Path

import pytest

import dpcli
from dpcli.analysis.account import account
from dpcli.file.pipeline.gate_keys import Caps
from dpcli.file.pipeline.read import parse
from dpcli.file.toml.findings import InvalidFile
from dpcli.gate.caps import loosened_caps, tightest, with_defaults
from dpcli.gate.documents.gate import document
from dpcli.gate.gate_terms import GateFlags, checked_terms
from dpcli.gate.judge import gate
from dpcli.gate.policy import read_policy_bytes
from dpcli.gate.term_changes import value_in_words
from tests.command import dpcli as command

HEAD = 'format = 1\n[privacy]\nadjacency = "add-remove"\nunit = "example"\ndelta = 1e-6\nreleases = "outputs"\ndataset_size = 100_000\n'
GAUSSIAN = HEAD + '[[mechanism]]\nname = "it"\ntype = "gaussian"\nnoise_multiplier = 3.0\nsteps = 4\n'
SAMPLED = GAUSSIAN + 'sampling = { scheme = "poisson", rate = 0.01 }\n'
MANY = SAMPLED.replace("steps = 4", "steps = 300").replace("rate = 0.01", "rate = 0.05")

RHO = 4 * 0.5 / 9.0
BUDGETS = ((RHO * 1.3, "pass", 0), (RHO * 1.1, "warn", 0), (RHO * 0.99, "fail", 1))


def test_a_cap_that_is_loosened_a_little_is_printed_with_all_digits() -> None:
    assert list(loosened_caps(Caps(epsilon=3.0), Caps(epsilon=3.0000001))) == ["epsilon 3 -> 3.0000001"]
    assert value_in_words(3.0000001) == "3.0000001" and value_in_words(3.0) == "3"


@pytest.mark.parametrize("beside", ["", "epsilon = 50.0\n"])
@pytest.mark.parametrize(("cap", "verdict", "code"), BUDGETS)
def test_rho_has_a_cap_of_its_own(tmp_path: Path, cap: float, verdict: str, code: int, beside: str) -> None:
    """With a cap on epsilon beside it or without."""
    path = tmp_path / "it.toml"
    path.write_text(GAUSSIAN + f"[budget]\n{beside}rho = {cap!r}\n")
    found = account(dpcli.load(path))
    assert found.budget is not None and found.budget.verdict == verdict and found.exit_code == code
    assert found.budget.rho is not None and found.budget.rho.spent.value == pytest.approx(RHO, rel=1e-12)
    assert gate([str(path)], checked_terms(GateFlags())).verdict == ("fail" if code else "pass")
    assert gate([str(path)], checked_terms(GateFlags(max_rho=RHO * 0.9))).verdict == "fail"
    assert gate([str(path)], checked_terms(GateFlags(max_epsilon=60.0, max_rho=RHO * 1.1))).verdict == ("fail" if code else "pass")
    policy = tmp_path / "policy.toml"
    policy.write_text(f'format = 1\n[[rule]]\nunit = "example"\nrho = {RHO * 0.9!r}\n')
    assert gate([str(path)], checked_terms(GateFlags(policy=str(policy)))).verdict == "fail"


@pytest.mark.parametrize("key", [one.name for one in fields(Caps) if one.name != "allow_statement_change"])
def test_every_cap_of_a_policy_is_merged_and_seen_to_be_loosened(key: str) -> None:
    tight, loose, none = Caps(**{key: 0.25}), Caps(**{key: 0.5}), Caps()
    assert with_defaults(tight, loose) == with_defaults(none, tight) == tightest([loose, none, tight]) == tight
    assert [list(loosened_caps(tight, now)) != [] for now in (loose, none, tight)] == [True, True, False]
    assert not list(loosened_caps(loose, tight))


@pytest.mark.parametrize("beside", ["", "epsilon = 50.0\n"])
def test_a_cap_on_rho_is_not_met_by_what_has_none(beside: str) -> None:
    found = account(parse((SAMPLED + f"[budget]\n{beside}rho = 10.0\n").encode(), "it.toml"))
    assert found.budget is not None and found.budget.verdict == "unknown" and found.exit_code == 3
    assert found.rho.reason is not None and math.isfinite(found.upper)


def test_one_stated_rho_leaves_the_others_their_pairs() -> None:
    """Beside something far smaller that only states its rho, a file costs next to nothing more."""
    alone = parse(MANY.encode(), "it.toml")
    stated = parse((HEAD + '[[mechanism]]\nname = "zcdp"\ntype = "zcdp"\nrho = 1e-9\n').encode(), "it.toml").mechanisms
    both = account(replace(alone, mechanisms=(*alone.mechanisms, *stated)))
    assert account(alone).upper <= both.upper <= account(alone).upper * 1.001


def test_a_cap_that_is_met_exactly_is_met() -> None:
    """Nine steps of noise 3 have rho = 1/2."""
    nine = GAUSSIAN.replace("steps = 4", "steps = 9")
    found = account(parse((nine + "[budget]\nepsilon = 50.0\nrho = 0.5\n").encode(), "it.toml"))
    assert found.budget is not None and found.budget.verdict == "warn"


def test_a_cap_on_rho_holds_whatever_is_asked(tmp_path: Path) -> None:
    """It needs no delta: delta at an epsilon is asked of a file that states none."""
    text = GAUSSIAN.replace("delta = 1e-6\n", "") + f"[budget]\nrho = {RHO * 0.99!r}\n"
    found = account(parse(text.encode(), "it.toml"), epsilon=3.0)
    assert found.budget is not None and found.budget.epsilon is None and found.exit_code == 1
    assert account(parse(text.replace("rho", "epsilon").encode(), "it.toml"), epsilon=3.0).budget is None


def test_a_budget_caps_something() -> None:
    with pytest.raises(InvalidFile, match="expected a cap on epsilon, on rho or on both, found none"):
        parse((GAUSSIAN + "[budget]\nwarn_at = 0.5\n").encode(), "it.toml")
    with pytest.raises(InvalidFile, match="expected a cap on epsilon, on rho or on both, found none"):
        read_policy_bytes(b'format = 1\n[[together]]\ndatasets = ["clicks"]\n', "policy.toml")


def test_rho_instead_of_epsilon_loosens_the_cap_on_epsilon(tmp_path: Path) -> None:
    """A pull request that takes the cap on epsilon away is told, whatever rho it states."""
    before, after = tmp_path / "a.toml", GAUSSIAN + "[budget]\nrho = 0.25\n"
    before.write_text(GAUSSIAN + "[budget]\nepsilon = 50.0\n")
    stated = gate([str(before)], checked_terms(GateFlags()))
    assert stated.verdict == "pass"
    baseline = tmp_path / "baseline.json"
    baseline.write_text(json.dumps(document(stated).data))
    before.write_text(after)
    found = gate([str(before)], checked_terms(GateFlags(baseline=str(baseline))))
    assert found.verdict == "fail"
    assert any("budget.epsilon 50 -> none" in one.message for one in found.files[0].conditions)


@pytest.mark.parametrize("beside", ["", "epsilon = 50.0\n"])
def test_the_line_of_the_cap_that_is_exceeded_is_told(tmp_path: Path, beside: str) -> None:
    (tmp_path / "it.toml").write_text(GAUSSIAN + f"[budget]\n{beside}rho = 0.01\n")
    result = command("account", "it.toml", "-f", "github", folder=tmp_path)
    line = (GAUSSIAN + f"[budget]\n{beside}").count("\n") + 1
    assert result.code == 1 and f"line={line}," in result.out
