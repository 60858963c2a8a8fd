"""Of the caps that a file, a policy and flags state, the tighter one decides, in either order; those that cannot be compared all hold."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product
from pathlib import Path

import pytest

from dpcli.file.pipeline.gate_keys import Caps
from dpcli.file.pipeline.model import Budget
from dpcli.file.pipeline.read import parse
from dpcli.gate.caps import Outside
from dpcli.gate.requirements import holding
from tests.command import dpcli
from tests.gate.repositories import policy
from tests.gate.samples import GATE, conditions, judged, named, waiver

PLAIN = GATE.replace("epsilon = 3.0\nwarn_at = 0.9\n", "epsilon = 9.0\n").replace("max_increase = 0.25", "")
ZCDP = (
    'format = 1\n[privacy]\nunit = "user"\nmax_contributions = 1\nadjacency = "add-remove"\ndataset = "clicks"\ndelta = 1e-8\n'
    '[budget]\nrho = 1.0\n[[mechanism]]\nname = "it"\n{}'
)
LARGER = PLAIN.replace("steps = 5_000", "steps = 6_000")  # 0.14 more

# What each source states to cap something. The cap in the file is a replacement in its text.
KINDS = {
    "epsilon": ("[budget]\nepsilon = 9.0", "[budget]\nepsilon = {}", "epsilon", "--max-epsilon", (1.0, 2.0)),
    "rho": ("[budget]\n", "[budget]\nrho = {}\n", "rho", "--max-rho", (0.01, 5.0)),
    "max_increase": ("[gate]\n", "[gate]\nmax_increase = {}\n", "max_increase", "--max-increase", (0.01, 0.5)),
}
SOURCES = ("file", "policy", "flag")
WHOSE = {"file": "the file's", "policy": "the policy's", "flag": "--max-"}


def stated(repository: Path, text: str, kind: str, values: dict[str, object]) -> list[str | Path]:
    """The arguments of a gate whose sources state these values."""
    old, new, key, flag, _ = KINDS[kind]
    file = repository / "train.toml"
    file.write_text(text.replace(old, new.format(values["file"])) if "file" in values else text)
    arguments: list[str | Path] = [file]
    if "policy" in values:
        arguments += ["--policy", policy(repository, f"{key} = {values['policy']}\n")]
    if "flag" in values:
        arguments += [flag, str(values["flag"])]
    return arguments


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("tight", "loose"), list(permutations(SOURCES, 2)))
def test_the_tighter_cap_decides_and_is_named(repository: Path, kind: str, tight: str, loose: str) -> None:
    low, high = KINDS[kind][4]
    compared = ("--base-ref", "main") if kind == "max_increase" else ()
    text = LARGER if compared else PLAIN
    name = {"epsilon": "budget", "rho": "rho", "max_increase": "increase"}[kind]
    both = named(name, *stated(repository, text, kind, {tight: low, loose: high}), *compared, "--allow-statement-change")
    assert both["verdict"] == "fail"
    assert f"({WHOSE[tight]}" in both["message"] and f"allows {high!r}" in both["message"], both["message"]
    for values in ({loose: high}, {tight: high, loose: high}):
        assert named(name, *stated(repository, text, kind, values), *compared, "--allow-statement-change")["verdict"] == "pass"


def test_every_cap_that_is_stated_holds_at_its_own_delta_and_none_besides() -> None:
    """What is held makes up for each epsilon at its delta; no other one is invented, and none is needless."""
    own = parse(PLAIN.encode(), "it.toml")
    own = replace(own, privacy=replace(own.privacy, delta=None))
    values = list(product((None, 1.0, 2.0), (None, 1e-6, 1e-5)))
    for sources in product(values, repeat=3):
        (file, policys, flags) = sources
        found = holding(replace(own, budget=Budget(*file)), Outside(Caps(*flags), Caps(*policys))).epsilon
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
        ("epsilon = 3.0", "epsilon = 6.0", "epsilon = 3.0", "terms", "budget.epsilon raised from 3 to 6; the policy's 3.0 holds"),
        ("epsilon = 6.0", "epsilon = 9.0", "epsilon = 2.0", "terms", "budget.epsilon raised from 6 to 9; the policy's 2.0 holds"),
        ("epsilon = 2.0", "epsilon = 6.0", "epsilon = 3.0", "statement", "budget.epsilon 2 -> 6"),
        ("epsilon = 2.0", "epsilon = 1.9", "epsilon = 3.0", "terms", "budget.epsilon 2 -> 1.9 (weakens no cap that holds)"),
        ("epsilon = 2.0", "epsilon = 3.0", "epsilon = 1.6\ndelta = 1e-7", "statement", "budget.epsilon 2 -> 3"),
        ("rho = 1.0", "rho = 2.0", "rho = 1.0", "terms", "budget.rho raised from 1 to 2; the policy's 1.0 holds"),
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
