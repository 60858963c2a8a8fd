"""A change that mends a file whose earlier version has no epsilon is judged as a new file, and is told why."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import dpcli
from tests.gate.repositories import committed, git
from tests.gate.samples import GATE, NO_BUDGET, conditions, named

BROKEN = {
    "no TOML": "format = 1\nname = ",
    "an unknown key": GATE.replace("noise_multiplier", "noise_multiplyer"),
    "no mechanism": GATE.partition("[[mechanism]]")[0],
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_mended_file_passes_with_a_warning(tmp_path: Path, broken: str) -> None:
    assert BROKEN[broken] != GATE
    repository = committed(tmp_path / "r", f=BROKEN[broken])
    (repository / "f.toml").write_text(GATE)
    (told,) = [one for one in conditions(repository / "f.toml", "--base-ref", "main") if one["name"] == "increase"]
    assert told["verdict"] == "warn"
    assert told["message"].startswith(("the version at the base cannot be read (", "new file"))
    assert "max_increase = 0.25 was not applied" in told["message"]


@pytest.mark.parametrize(("steps", "verdict"), [("5_000", "pass"), ("4_000", "pass"), ("9_000", "fail")])
def test_one_that_had_no_cap_is_priced_at_its_own_delta(tmp_path: Path, steps: str, verdict: str) -> None:
    repository = committed(tmp_path / "r", f=NO_BUDGET)
    (repository / "f.toml").write_text(GATE.replace("5_000", steps))
    told = named("increase", repository / "f.toml", "--base-ref", "main")
    assert told["verdict"] == verdict and told["message"].startswith("epsilon 1.3740 -> "), told


def test_what_can_be_read_is_compared_or_stops_the_gate(tmp_path: Path) -> None:
    """A version without any delta has no epsilon; a Git LFS pointer says nothing: neither stands for a file that was broken."""
    for number, text in enumerate(
        (NO_BUDGET.replace("delta = 1e-8\n", ""), "version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    ):
        repository = committed(tmp_path / str(number), f=text)
        (repository / "f.toml").write_text(GATE)
        result = dpcli("gate", "f.toml", "--base-ref", "main", folder=repository)
        assert result.code == 2 and "f.toml at main cannot be compared with" in result.err, result


def test_a_decoy_that_is_gone_is_not_what_a_renamed_file_was(tmp_path: Path) -> None:
    """A file of one line that a later change deletes is like everything, and is no pipeline."""
    repository = committed(tmp_path / "r", f=GATE, notes='name = "ads-ranking"\n')
    git(repository, "mv", "f.toml", "g.toml")
    git(repository, "rm", "-q", "notes.toml")
    (repository / "g.toml").write_text(GATE.replace("400.0", "200.0").replace('unit = "user"', 'unit = "example"'))
    told = {one["name"]: one["verdict"] for one in conditions(repository / "g.toml", "--base-ref", "main")}
    assert (told["increase"], told["statement"]) == ("fail", "fail")


def test_a_policy_under_a_new_name_is_still_compared_with_what_it_was(tmp_path: Path) -> None:
    repository = committed(tmp_path / "r", f=GATE, policy="format = 1\nepsilon = 1.0\nmax_increase = 0.1\n")
    git(repository, "mv", "policy.toml", "caps.toml")
    (repository / "caps.toml").write_text("format = 1\nepsilon = 9.0\nmax_increase = 0.1\n")
    result = dpcli("gate", "f.toml", "--base-ref", "main", "--policy", "caps.toml", folder=repository)
    assert result.code == 1 and "cap 1.0" in result.out, result


def test_a_change_that_breaks_a_file_is_refused_all_the_same(tmp_path: Path) -> None:
    """So no second change finds a base without an epsilon that the gate let through."""
    repository = committed(tmp_path / "r", f=GATE)
    for text in (*BROKEN.values(), NO_BUDGET):
        (repository / "f.toml").write_text(text)
        assert {one["verdict"] for one in conditions(repository / "f.toml", "--base-ref", "main")} & {"invalid", "fail"}
    assert git(repository, "status", "--porcelain")
