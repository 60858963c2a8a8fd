"""Weights of noises that are solved for together (analysis/solved_keys.py), and the least noise for each target."""

from __future__ import annotations

import json
import math
import tomllib
from pathlib import Path
from random import Random

import pytest
from jsonschema import Draft202012Validator

from dpcli.analysis.account import account
from dpcli.analysis.calibrate import Calibration
from dpcli.analysis.calibrate_file import calibrate_file
from dpcli.analysis.goals import Goal, RhoGoal
from dpcli.base.errors import InputError
from dpcli.exam.subjects import SEED
from dpcli.file.pipeline.key_places import json_schema
from dpcli.file.pipeline.read import parse
from tests.command import dpcli

HEAD = 'format = 1\n[privacy]\nadjacency = "add-remove"\nunit = "example"\ndelta = {delta}\nreleases = "outputs"\ndataset_size = 1_000\n'
WEIGHT = "{{ calibrate = {{ weight = {} }} }}"


def entry(name: str, kind: str, keys: str, steps: int = 1) -> str:
    return f'[[mechanism]]\nname = "{name}"\ntype = "{kind}"\nsteps = {steps}\n{keys}\n'


def weighted(weight: object) -> str:
    return WEIGHT.format(weight)


def solve(tmp_path: Path, entries: str, epsilon: float | None = None, goal: Goal | None = None, delta: float = 1e-6) -> Calibration:
    path = tmp_path / "open.toml"
    path.write_text(HEAD.format(delta=delta) + entries)
    return calibrate_file(str(path), target_epsilon=epsilon, goal=goal)


def noises(result: Calibration) -> dict[str, float]:
    return {name: value for name, _, value in result.values}


def test_weights_share_rho(tmp_path: Path) -> None:
    """Gaussians of w / (2 ratio^2) a step: ratio^2 is the sum over steps of w, over 2 rho."""
    draw = Random(f"{SEED}/rho")
    weights, counts = [draw.uniform(0.01, 50.0) for _ in range(3)], [draw.randint(1, 9) for _ in range(3)]
    kinds = [("noise_multiplier", ""), ("sigma", "\nsensitivity = 3.5"), ("noise_multiplier", "")]
    entries = "".join(
        entry(f"g{i}", "gaussian", f"{key} = {weighted(w)}{more}", count)
        for i, (w, count, (key, more)) in enumerate(zip(weights, counts, kinds, strict=True))
    )
    rho = draw.uniform(0.01, 1.0)
    result = solve(tmp_path, entries, goal=RhoGoal(rho))
    ratio = math.sqrt(sum(w * count for w, count in zip(weights, counts, strict=True)) / (2.0 * rho))
    assert ratio * (1.0 - 1e-12) <= result.value <= ratio * (1.0 + 2e-6), SEED
    for i, (weight, scale) in enumerate(zip(weights, (1.0, 3.5, 1.0), strict=True)):
        assert noises(result)[f"g{i}"] == pytest.approx(scale * ratio / math.sqrt(weight), rel=2e-6), SEED


def test_weights_share_epsilon_at_delta_0(tmp_path: Path) -> None:
    draw = Random(f"{SEED}/pure")
    weights, target = [draw.uniform(0.1, 9.0) for _ in range(3)], draw.uniform(0.1, 5.0)
    entries = entry("l", "laplace", f"noise_multiplier = {weighted(weights[0])}")
    entries += entry("s", "laplace", f"scale = {weighted(weights[1])}\nsensitivity = 5.0")
    entries += entry("p", "pure-dp", f"epsilon = {weighted(weights[2])}")
    values = noises(solve(tmp_path, entries, target, delta=0.0))
    epsilons = [1.0 / values["l"], 5.0 / values["s"], values["p"]]
    assert sum(epsilons) <= target * (1.0 + 1e-12)
    assert epsilons == pytest.approx([weight / sum(weights) * target for weight in weights], rel=2e-6), SEED


def test_equal_weights_are_no_weights_and_one_weight_shares_with_nobody(tmp_path: Path) -> None:
    keys = ("noise_multiplier = ", "scale = "), ('"calibrate"', weighted(3.0))
    plain, equal = (
        noises(
            solve(tmp_path, entry("g", "gaussian", keys[0][0] + v) + entry("l", "laplace", f"scale = {v}\nsensitivity = 2.0"), 1.0)
        )
        for v in keys[1]
    )
    assert equal == pytest.approx(plain, rel=2e-6)
    alone = [noises(solve(tmp_path, entry("g", "gaussian", f"noise_multiplier = {v}"), 1.0))["g"] for v in keys[1]]
    assert alone[0] == alone[1]


@pytest.mark.long
def test_kinds_mix_and_the_answer_is_written(tmp_path: Path) -> None:
    entries = entry("g", "gaussian", f"noise_multiplier = {weighted(4.0)}  # kept")
    entries += entry("l", "laplace", 'scale = "calibrate"\nsensitivity = 3.0') + entry(
        "e", "exponential", f"epsilon = {weighted(2)}"
    )
    path = tmp_path / "open.toml"
    path.write_text(HEAD.format(delta=1e-6) + entries)
    Draft202012Validator(json_schema()).validate(tomllib.loads(path.read_text()))
    outcome = dpcli(
        "calibrate-sigma", "open.toml", "--target-epsilon", "2", "-f", "json", "--write", "solved.toml", folder=tmp_path
    )
    result = json.loads(outcome.out)["result"]
    solved = parse((tmp_path / "solved.toml").read_bytes(), "solved.toml")
    assert "# kept" in (tmp_path / "solved.toml").read_text()
    assert account(solved).upper == result["epsilon_upper"] <= 2.0 < result["next_cheaper"]["epsilon_upper"]
    gaussian, laplace, exponential = (entry.spec for entry in solved.mechanisms)
    ratio = result["noise_over_sensitivity"]
    assert gaussian.noise_multiplier == pytest.approx(ratio / 2.0)  # type: ignore[attr-defined]
    assert laplace.scale == pytest.approx(3.0 * ratio)  # type: ignore[attr-defined]
    assert exponential.epsilon == pytest.approx(math.sqrt(2.0) / ratio)  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", ["account", "gate", "explain"])
def test_other_commands_refuse_a_weight_as_they_refuse_the_word(command: str, tmp_path: Path) -> None:
    said = []
    for value in ('"calibrate"', weighted(2.0)):
        text = HEAD.format(delta=1e-6) + entry("g", "gaussian", f"noise_multiplier = {value}")
        (tmp_path / "open.toml").write_text(text)
        outcome = dpcli(command, "open.toml", folder=tmp_path)
        said.append((outcome.code, " ".join((outcome.out + outcome.err).replace(value, '"calibrate"').split())))
    assert said[0] == said[1] and said[0][0] == 2 and "dpcli calibrate-sigma" in said[0][1]


def test_one_epsilon_is_told_as_one() -> None:
    text = HEAD.format(delta=0.0) + entry("p", "pure-dp", 'epsilon = "calibrate"', 4)
    command = ("calibrate-sigma", "-", "--target-epsilon", "2")
    assert 0.5 * (1.0 - 1e-6) <= float(dpcli(*command, "-f", "total", stdin=text.encode()).out) <= 0.5
    assert "p: epsilon = " in dpcli(*command, stdin=text.encode()).out


FOUND = "expected a number from 1e-6 to 1e6, found"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        *((weighted(weight), f"calibrate.weight: {FOUND} {weight}") for weight in ("0", "-1.5", "inf", "nan", "true", "2000000")),
        (weighted('"2"'), 'found "2"; write 2 without quotes'),
        (weighted("[1]"), "calibrate.weight: expected a number from 1e-6 to 1e6, found a list"),
        ("{ calibrate = { wieght = 2 } }", "calibrate.wieght: expected weight, found 'wieght'"),
        ("{ calibrate = { weight = 2, share = 1 } }", "calibrate.share: expected weight, found 'share'"),
        ("{ calibrate = { weight = 2 }, x = 1 }", "noise_multiplier.x: expected calibrate, found 'x'"),
        ("{ calibrate = {} }", f"calibrate.weight: {FOUND} nothing"),
        ("{ calibrate = 2 }", "noise_multiplier.calibrate: expected a table { weight = NUMBER }, found 2"),
        ("{ weight = 2 }", "found a table; write { calibrate = { weight = NUMBER } }"),
        ("1.0\nweight = 2", "weight: expected"),
    ],
)
def test_a_wrong_weight_is_refused_at_its_place(value: str, words: str) -> None:
    text = HEAD.format(delta=1e-6) + entry("g", "gaussian", f"noise_multiplier = {value}")
    outcome = dpcli("calibrate-sigma", "-", "--target-epsilon", "1", stdin=text.encode())
    assert outcome.code == 2 and words in outcome.err, outcome.err
    if "weight = 2 }" not in value:
        assert list(Draft202012Validator(json_schema()).iter_errors(tomllib.loads(text))) != [] or "nan" in value


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        (
            entry("h", "stability-histogram", f"scale = {weighted(2)}\nthreshold = 3000"),
            "more noise may cost more here",
        ),
        (
            entry("g", "gaussian", 'noise_multiplier = "calibrate"').replace("steps = 1", f"steps = {weighted(2)}"),
            "found it for steps",
        ),
    ],
)
def test_what_is_not_noise_that_lowers_the_cost_is_refused(entries: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        solve(tmp_path, entries, 1.0)


def test_no_unknown_is_taken_for_a_number(tmp_path: Path) -> None:
    text = HEAD.format(delta=1e-6) + "".join(entry(name, "gaussian", 'noise_multiplier = "calibrate"') for name in "ab")
    outcome = dpcli("calibrate-sigma", "-", "-m", "a", "--target-epsilon", "1", stdin=text.encode())
    assert outcome.code == 2 and 'found "calibrate" in b' in outcome.err
