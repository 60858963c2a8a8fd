"""How far epsilon may rise: in nats and in percent of the base's, each with a level that warns and one that stops."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from dpcli.exam.subjects import SEED
from dpcli.gate.caps import RiseLimits
from dpcli.gate.verdicts import EXIT_CODES
from tests.cases import of_each
from tests.command import dpcli
from tests.gate.repositories import git, policy
from tests.gate.samples import GATE, judged, named

BARE = GATE.replace("[gate]\nmax_increase", "[gate]\n# max_increase")
RISEN = BARE.replace("= 400.0\n", "= 300.0\n")


@pytest.fixture
def file(repository: Path) -> Path:
    """A pipeline of which only the policy limits the rise, and which rose."""
    path = repository / "train.toml"
    path.write_text(BARE)
    git(repository, "commit", "-qam", "bare")
    path.write_text(RISEN)
    return path


LIMITS = ("max_increase", "max_increase_percent", "warn_increase", "warn_increase_percent")


def stated_limits(draw: random.Random, before: float, change: float) -> dict[str, float]:
    """Some of the limits, around what the change is; those that warn below those that stop."""
    stated = {}
    for key in draw.sample(LIMITS, draw.randint(1, 4)):
        edge = change if not key.endswith("percent") else 100.0 * change / before
        stated[key] = round(edge * draw.choice((0.3, 0.9, 1.1, 3.0)), 6)
    for unit in ("", "_percent"):
        if stated.get(f"warn_increase{unit}", 0.0) >= stated.get(f"max_increase{unit}", math.inf):
            del stated[f"warn_increase{unit}"]
    return stated


@pytest.mark.sampled(0, 1)
@pytest.mark.long
@pytest.mark.parametrize("count", [4, pytest.param(12, marks=pytest.mark.long)])
def test_the_tightest_of_what_is_stated_decides(file: Path, count: int) -> None:
    """Against a verdict that is found from the numbers alone."""
    found = judged(file, "--base-ref", "main")["files"][0]
    before, change = found["base_epsilon"], float(found["epsilon_at_base_delta"] - found["base_epsilon"])
    draw = random.Random(f"{SEED} {count}")
    for stated in filter(None, (stated_limits(draw, before, change) for _ in range(count))):
        nats = {key: value if not key.endswith("percent") else value / 100.0 * before for key, value in stated.items()}
        passed = {key.partition("_")[0] for key, value in nats.items() if change > value}
        verdict = "fail" if "max" in passed else "warn" if "warn" in passed else "pass"
        held = policy(file.parent, "".join(f"{key} = {value!r}\n" for key, value in stated.items()))
        told = judged(file, "--base-ref", "main", "--policy", held)
        (condition,) = [one for one in told["files"][0]["conditions"] if one["name"] == "increase"]
        assert condition["verdict"] == verdict, (SEED, stated, condition)
        assert told["exit_code"] == EXIT_CODES[verdict], (SEED, stated)


@pytest.mark.long
def test_the_limit_that_binds_is_named(file: Path) -> None:
    def said(text: str) -> str:
        return str(named("increase", file, "--base-ref", "main", "--policy", policy(file.parent, text))["message"])

    assert ", allowed +10 %; train" in said("max_increase = 5.0\nmax_increase_percent = 10.0\n")
    assert ", allowed +0.1; train" in said("max_increase = 0.1\nmax_increase_percent = 900.0\n")
    assert said("max_increase = 5.0\nwarn_increase_percent = 5.0\n").endswith(", allowed +5, above the warning level +5 %")
    assert said("warn_increase = 0.01\n").endswith(" at delta = 1e-08, above the warning level +0.01")


def test_what_would_pass_meets_the_percentage(file: Path) -> None:
    held = policy(file.parent, "max_increase_percent = 10.0\n")
    message = named("increase", file, "--base-ref", "main", "--policy", held)["message"]
    sigma = message.partition("noise_multiplier = ")[2].split()[0]
    file.write_text(RISEN.replace("= 300.0\n", f"= {sigma}\n"))
    assert named("increase", file, "--base-ref", "main", "--policy", held)["verdict"] == "pass"


@pytest.mark.long
def test_a_rule_replaces_each_limit_by_itself(file: Path) -> None:
    general = "max_increase_percent = 1.0\n"
    rule = '[[rule]]\nfiles = "*.toml"\n'
    for own, verdict in (
        ("max_increase_percent = 500.0", "pass"),
        ("max_increase = 500.0", "fail"),
        ("warn_increase = 0.1", "fail"),
    ):
        held = policy(file.parent, f"{general}{rule}{own}\n")
        assert named("increase", file, "--base-ref", "main", "--policy", held)["verdict"] == verdict
    several = policy(file.parent, f"{rule}max_increase_percent = 500.0\n{rule}max_increase_percent = 1.0\n")
    assert named("increase", file, "--base-ref", "main", "--policy", several)["verdict"] == "fail"


@pytest.mark.long
def test_a_flag_and_a_file_leave_the_percentage_in_place(file: Path) -> None:
    held = policy(file.parent, "max_increase_percent = 1.0\n")
    assert named("increase", file, "--base-ref", "main", "--policy", held, "--max-increase", "9")["verdict"] == "fail"
    file.write_text(RISEN.replace("# max_increase = 0.25", "max_increase = 9.0"))
    assert named("increase", file, "--base-ref", "main", "--policy", held)["verdict"] == "fail"


def test_a_new_file_says_which_limits_were_not_applied(file: Path) -> None:
    new = file.with_name("new.toml")
    new.write_text(BARE.replace("ads-ranking", "new"))
    held = policy(file.parent, "max_increase = 1.0\nmax_increase_percent = 10.0\nwarn_increase = 0.5\n")
    condition = named("increase", new, "--base-ref", "main", "--policy", held)
    assert condition["verdict"] == "warn"
    limits = "max_increase = 1 and max_increase_percent = 10"
    assert condition["message"] == f"new file: no earlier version, so {limits} were not applied"


def test_a_file_that_moves_out_of_a_percentage_fails(file: Path) -> None:
    git(file.parent, "mv", "train.toml", "free.toml")
    file.with_name("free.toml").write_text(BARE)
    held = policy(file.parent, '[[rule]]\nfiles = "train.toml"\nmax_increase_percent = 1.0\n')
    statement = named("statement", file.with_name("free.toml"), "--base-ref", "main", "--policy", held)
    assert statement["verdict"] == "fail"
    assert "max_increase_percent 1 -> none" in statement["message"]


@of_each("key", LIMITS)
@of_each("value", ["-0.1", "nan", "inf", "true", '"1"'])
def test_a_limit_is_a_number_that_is_not_negative(repository: Path, key: str, value: str) -> None:
    held = policy(repository, f"{key} = {value}\n")
    result = dpcli("gate", str(repository / "train.toml"), "--policy", str(held))
    assert result.code == 2 and key in result.err


@of_each("unit", ["", "_percent"])
@of_each("table", ["", '[[rule]]\nfiles = "*.toml"\n'])
def test_a_warning_level_lies_below_the_limit(repository: Path, unit: str, table: str) -> None:
    held = policy(repository, f"{table}warn_increase{unit} = 2.0\nmax_increase{unit} = 2.0\n")
    result = dpcli("gate", str(repository / "train.toml"), "--policy", str(held))
    assert result.code == 2
    assert f"warn_increase{unit}: expected less than max_increase{unit} = 2.0, found 2.0" in result.err


@pytest.mark.long
@of_each("key", LIMITS)
def test_each_limit_is_a_cap_that_a_rule_may_state_alone(file: Path, key: str) -> None:
    held = policy(file.parent, f'[[rule]]\nfiles = "*.toml"\n{key} = 0.0\n')
    verdict = "fail" if key.startswith("max") else "warn"
    assert named("increase", file, "--base-ref", "main", "--policy", held)["verdict"] == verdict


@of_each("change", [math.nan, math.inf])
def test_what_is_no_number_passes_no_limit(change: float) -> None:
    for limits in (RiseLimits("max_increase", 1.0, None), RiseLimits("max_increase", None, 1.0)):
        assert limits.passed_by(change, 1.0)
        assert limits.passed_by(1e-300, 0.0) is (limits.percent is not None)
    assert not RiseLimits("max_increase", None, None).passed_by(change, 1.0)
