"""Tests of limits on a rise of epsilon, of the tightest cap of file, policy and flags, and of a base without an epsilon."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import permutations, product
from pathlib import Path

import pytest

from dpcli.exam.subjects import SEED
from dpcli.file.pipeline.gate_keys import Caps
from dpcli.file.pipeline.model import Budget
from dpcli.file.pipeline.read import parse
from dpcli.gate.caps import ExternalCaps, RiseLimits, caps_in_force, max_rise
from dpcli.gate.verdicts import EXIT_CODES
from tests.cases import of_each
from tests.command import dpcli
from tests.gate.repositories import committed, git, policy
from tests.gate.samples import GATE, NO_BUDGET, conditions, judged, named, waiver

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
    assert named("increase", new, "--base-ref", "main")["verdict"] == "pass"
    unseen = named("increase", new, "--base-ref", "main", "--max-increase", "0")
    assert unseen["verdict"] == "warn" and "so max_increase = 0 was not applied" in unseen["message"]


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
        assert limits.is_exceeded_by(change, 1.0)
        assert limits.is_exceeded_by(1e-300, 0.0) is (limits.percent is not None)
    assert not RiseLimits("max_increase", None, None).is_exceeded_by(change, 1.0)


PLAIN = GATE.replace("epsilon = 3.0\nwarn_at = 0.9\n", "epsilon = 9.0\n").replace("max_increase = 0.25", "")
ZCDP = (
    'format = 1\n[privacy]\nunit = "user"\nmax_contributions = 1\nadjacency = "add-remove"\ndataset = "clicks"\ndelta = 1e-8\n'
    '[budget]\nrho = 1.0\n[[mechanism]]\nname = "it"\n{}'
)
SOURCES = ("file", "policy", "flag")
WHOSE = {"file": "the file's", "policy": "the policy's", "flag": "--max-"}


@pytest.mark.parametrize(("tight", "loose"), list(permutations(SOURCES, 2)))
def test_the_tighter_cap_decides_and_is_named(tight: str, loose: str) -> None:
    own = parse(PLAIN.encode(), "it.toml")
    for key in ("epsilon", "rho", "max_increase"):
        values: dict[str, float] = {tight: 1.0, loose: 2.0}
        outside = ExternalCaps(Caps(**{key: values.get("flag")}), Caps(**{key: values.get("policy")}))
        if key == "max_increase":
            limits = max_rise(outside, values.get("file"))
            value, words = limits.nats, limits.sources
        else:
            caps = caps_in_force(replace(own, budget=Budget(**{key: values.get("file")})), outside)
            (binding,) = caps.epsilon if key == "epsilon" else caps.rho
            value, words = binding.cap.value, binding.words()
        assert value == 1.0 and words.startswith(f" ({WHOSE[tight]}") and words.endswith("allows 2.0)"), (key, words)


def test_every_cap_that_is_stated_holds_at_its_own_delta_and_none_besides() -> None:
    """What is held makes up for each epsilon at its delta; no other one is invented, and none is needless."""
    own = parse(PLAIN.encode(), "it.toml")
    own = replace(own, privacy=replace(own.privacy, delta=None))
    values = list(product((None, 1.0, 2.0), (None, 1e-6, 1e-5)))
    for sources in product(values, repeat=3):
        (file, policys, flags) = sources
        found = caps_in_force(replace(own, budget=Budget(*file)), ExternalCaps(Caps(*flags), Caps(*policys))).epsilon
        caps = [(one.cap.value, one.cap.delta) for one in found]
        epsilons, deltas = ({pair[k] for pair in sources if pair[k] is not None} for k in (0, 1))
        assert {value for value, _ in caps} <= epsilons and {at for _, at in caps} <= (deltas or {None})
        assert bool(caps) == bool(epsilons)
        for epsilon, delta in sources:
            at = min(deltas, default=None) if delta is None else delta
            if epsilon is not None:
                assert any(value <= epsilon and (held or 0.0) <= (at or 0.0) for value, held in caps), (sources, caps)
            elif delta is not None:
                assert all(held is not None and held <= delta for _, held in caps), (sources, caps)
        for (value, held), (other, another) in permutations(caps, 2):
            assert value > other or (held or 0.0) > (another or 0.0), (sources, caps)


def test_caps_at_different_deltas_are_judged_each_at_its_own(repository: Path) -> None:
    """GATE costs 1.374 at 1e-8, and less at 1e-7."""
    file = repository / "train.toml"
    file.write_text(PLAIN)

    def verdicts(*more: str | Path) -> dict[str, str]:
        found = [one for one in conditions(file, *more) if one["name"] == "budget"]
        return {"1e-08" if "delta = 1e-08, cap" in one["message"] else "1e-07": one["verdict"] for one in found}

    for arguments in (
        ("--policy", policy(repository, "epsilon = 1.3\ndelta = 1e-7\n")),
        ("--max-epsilon", "1.3", "--delta", "1e-7"),
    ):
        assert verdicts(*arguments) == {"1e-08": "pass", "1e-07": "warn"}
    at = ("--policy", policy(repository, 'waivers = "files"\nepsilon = 1.2\ndelta = 1e-7\n'))
    assert verdicts(*at) == {"1e-08": "pass", "1e-07": "fail"}
    file.write_text(PLAIN.replace("epsilon = 9.0", "epsilon = 1.3"))
    assert verdicts(*at) == {"1e-08": "fail", "1e-07": "fail"}
    file.write_text(PLAIN + waiver("budget", epsilon="1.35"))
    assert verdicts(*at, "--as-of", "2030-06-01") == {"1e-08": "pass", "1e-07": "waived"}


def test_a_cap_on_rho_does_not_pass_what_has_no_epsilon(repository: Path) -> None:
    """As `dpcli account` says: unknown at delta = 0, where zCDP gives no epsilon; a pure file has one there."""
    text = ZCDP.replace("delta = 1e-8", "delta = 0.0")
    held = policy(repository, '[[together]]\ndatasets = ["clicks"]\nrho = 1.0\n')
    for entry, code in (('type = "zcdp"\nrho = 0.3\n', 3), ('type = "pure-dp"\nepsilon = 0.3\n', 0)):
        (repository / "train.toml").write_text(text.format(entry))
        for more in ((), ("--policy", held)):
            found = judged(repository / "train.toml", *more)
            said = [one["message"] for each in (*found["files"], *found["together"]) for one in each["conditions"]]
            assert found["exit_code"] == code, found
            assert said.count("no finite epsilon can be certified at delta = 0.0") == (code == 3)
        assert dpcli("account", str(repository / "train.toml")).code == code


def test_the_level_of_the_warning_is_a_share_of_the_cap_that_holds(repository: Path) -> None:
    file, held = repository / "train.toml", policy(repository, "epsilon = 3.0\n")
    for level, verdict in (("0.4", "warn"), ("0.6", "pass")):
        file.write_text(PLAIN.replace("epsilon = 9.0\n", f"epsilon = 9.0\nwarn_at = {level}\n"))
        assert named("budget", file, "--policy", held)["verdict"] == verdict


@pytest.mark.parametrize(
    ("before", "after", "held", "name", "words"),
    [
        ("epsilon = 3.0", "epsilon = 6.0", "epsilon = 3.0", "terms", "budget.epsilon raised from 3 to 6; the policy's 3.0 applies"),
        ("epsilon = 6.0", "epsilon = 9.0", "epsilon = 2.0", "terms", "budget.epsilon raised from 6 to 9; the policy's 2.0 applies"),
        ("epsilon = 2.0", "epsilon = 6.0", "epsilon = 3.0", "statement", "budget.epsilon 2 -> 6"),
        ("epsilon = 2.0", "epsilon = 1.9", "epsilon = 3.0", "terms", "budget.epsilon 2 -> 1.9 (weakens no cap in force)"),
        ("epsilon = 2.0", "epsilon = 3.0", "epsilon = 1.6\ndelta = 1e-7", "statement", "budget.epsilon 2 -> 3"),
        ("rho = 1.0", "rho = 2.0", "rho = 1.0", "terms", "budget.rho raised from 1 to 2; the policy's 1.0 applies"),
        ("rho = 1.0", "rho = 2.0", "rho = 1.5", "statement", "budget.rho 1 -> 2"),
    ],
)
def test_a_cap_that_its_own_file_raises_is_told_and_fails_where_it_held(
    repository: Path, tmp_path: Path, before: str, after: str, held: str, name: str, words: str
) -> None:
    file = repository / "train.toml"
    file.write_text(PLAIN.replace("epsilon = 9.0", before))
    baseline = tmp_path / "before.json"
    arguments = ("--policy", policy(repository, held + "\n"))
    assert judged(file, *arguments, "-o", f"json={baseline}")["exit_code"] == 0
    file.write_text(PLAIN.replace("epsilon = 9.0", after))
    found = named(name, file, *arguments, "--baseline", baseline)
    assert words in found["message"] and found["verdict"] == ("pass" if name == "terms" else "fail")


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [("", "delta = 1e-7\n", "fail"), ("delta = 1e-9\n", "delta = 1e-8\n", "fail"), ("delta = 1e-8\n", "", None)],
)
def test_a_file_that_holds_its_cap_to_a_larger_delta_weakens_it(
    repository: Path, tmp_path: Path, before: str, after: str, verdict: str | None
) -> None:
    """Also where another cap at a smaller delta holds beside it, so that the statement keeps its delta."""
    file, baseline = repository / "train.toml", tmp_path / "before.json"
    beside = ("--policy", policy(repository, "epsilon = 20.0\ndelta = 1e-9\n"))
    file.write_text(PLAIN.replace("epsilon = 9.0\n", f"epsilon = 9.0\n{before}"))
    judged(file, *beside, "-o", f"json={baseline}")
    file.write_text(PLAIN.replace("epsilon = 9.0\n", f"epsilon = 9.0\n{after}"))
    found = [one for one in conditions(file, *beside, "--baseline", baseline) if one["name"] == "statement"]
    assert [one["verdict"] for one in found] == ([] if verdict is None else [verdict])


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
        assert result.code == 2 and "f.toml at main cannot be used for the comparison: " in result.err, result


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
