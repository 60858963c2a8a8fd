"""Tests of dpcli calibrate-sigma and dpcli calibrate."""

from __future__ import annotations

import json
import math
import re

import pytest

from dpcli.base.lazy import load
from dpcli.base.registry import MECHANISMS
from dpcli.exam.subjects import SEED, drawn
from dpcli.file.keys.annotations import members_of
from dpcli.file.keys.kinds import WholeNumber
from dpcli.file.pipeline.model import Entry
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.mechanisms.sampling.schemes import Poisson
from dpcli.numerics.closed.normal import gaussian_epsilon
from tests.cases import of_each
from tests.command import dpcli

FLAGS = ("--target-epsilon", "3", "--delta", "1e-5", "--sampling-rate", "0.0042667", "--steps", "14063")


def test_flags_give_the_promised_machine_form() -> None:
    found = json.loads(dpcli("calibrate-sigma", *FLAGS, "-f", "json").out)
    assert found["schema"] == "dpcli/calibrate/v1"
    result = found["result"]
    assert result["epsilon_upper"] <= 3.0 < result["next_cheaper"]["epsilon_upper"]
    assert result["next_cheaper"]["noise_multiplier"] < result["noise_multiplier"] < 1.02
    assert result["noise_multiplier"] - result["next_cheaper"]["noise_multiplier"] == pytest.approx(1e-7, rel=1e-6)


def test_replace_one_needs_more_noise() -> None:
    plain = float(dpcli("calibrate-sigma", *FLAGS, "-f", "total").out)
    replaced = float(dpcli("calibrate-sigma", *FLAGS, "--adjacency", "replace-one", "-f", "total").out)
    assert replaced > plain


def test_every_key_that_says_calibrate_gets_the_same_value() -> None:
    text = dpcli("init", "dp-sgd").out.replace("noise_multiplier = 1.1 ", 'noise_multiplier = "calibrate" ')
    result = dpcli("calibrate-sigma", "-", "-f", "json", stdin=text.encode())
    found = json.loads(result.out)["result"]
    assert found["epsilon_upper"] <= 4.0 < found["next_cheaper"]["epsilon_upper"]
    assert "run dpcli calibrate-sigma" in dpcli("account", "-", stdin=text.encode()).err


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("solve", "key"), [("steps", "steps"), ("epochs", "epochs"), ("batch-size", "batch_size"), ("rate", "rate")]
)
def test_the_most_that_fits(solve: str, key: str) -> None:
    found = json.loads(dpcli("calibrate", "examples/gate.toml", "--solve", solve, "-m", "train", "-f", "json").out)["result"]
    assert found["epsilon_upper"] <= 3.0 < found["next_cheaper"]["epsilon_upper"]
    assert found["next_cheaper"][key] > found[key]


def test_the_least_scale_that_fits() -> None:
    found = json.loads(dpcli("calibrate", "examples/gate.toml", "--solve", "scale", "-f", "json").out)["result"]
    assert found["epsilon_upper"] <= 3.0 < found["next_cheaper"]["epsilon_upper"]
    assert found["next_cheaper"]["scale"] < found["scale"] < 2.0


@pytest.mark.long
@of_each(
    "arguments, code, message",
    [
        (
            ("calibrate-sigma", "--target-epsilon", "1", "--delta", "1e-5", "--sampling-rate", "0.1"),
            2,
            "expected --steps or --epochs with",
        ),
        (("calibrate-sigma", "--delta", "1e-5", "--steps", "10"), 2, "no --target-epsilon"),
        (("calibrate-sigma", "--target-epsilon", "nan", "--delta", "1e-5", "--steps", "10"), 2, "expected a target epsilon > 0"),
        (("calibrate-sigma", "--target-epsilon", "1", "--delta", "1e-5", "--steps", "0"), 2, "--steps: expected a whole number"),
        (
            ("calibrate-sigma", "--target-epsilon", "1", "--delta", "1e-5", "--steps", "3", "--sampling-rate", "2"),
            2,
            "--sampling-rate",
        ),
        (("calibrate", "examples/gate.toml", "--solve", "steps"), 2, "--mechanism NAME"),
        (("calibrate", "examples/gate.toml", "--solve", "scale", "-m", "train"), 2, '"train" has no scale; use --solve noise'),
        (("calibrate", "examples/gate.toml", "--solve", "noise", "-m", "nobody"), 2, "expected one of vocabulary, train"),
        (("calibrate", "examples/mnist.toml", "--solve", "steps"), 2, "expected --target-epsilon or a [budget]"),
        (
            ("calibrate", "examples/gate.toml", "--solve", "noise", "-m", "train", "--target-epsilon", "0.4"),
            3,
            "the rest of the pipeline",
        ),
    ],
)
def test_what_cannot_be_solved_is_said(arguments: tuple[str, ...], code: int, message: str) -> None:
    result = dpcli(*arguments)
    assert (result.code, result.out) == (code, "")
    assert message in result.err


KINDS = {
    "gaussian": 'type = "gaussian"\nnoise_multiplier = 2.0',
    "sampled": 'type = "gaussian"\nnoise_multiplier = 2.0\nsteps = 10\nsampling = { scheme = "poisson", rate = 0.1 }',
    "laplace": 'type = "laplace"\nscale = 2.0\nsensitivity = 1.0',
    "stated": 'type = "pure-dp"\nepsilon = 0.5',
    "free": 'type = "post-processing"',
}


@pytest.mark.long
@of_each("kind", KINDS)
@of_each("flags", [(), ("-m", "it")])
def test_what_a_mechanism_has_not_is_said_with_what_it_has(kind: str, flags: tuple[str, ...]) -> None:
    """For every parameter: it is solved for, or the message names those that are not refused for the same reason."""
    head = 'format = 1\n[privacy]\nunit = "example"\nadjacency = "add-remove"\ndelta = 1e-6\n'
    text = f'{head}[[mechanism]]\nname = "it"\n{KINDS[kind]}\n'.encode()
    parameters = ("noise", "steps", "epochs", "batch-size", "rate", "scale")
    said = {p: dpcli("calibrate", "-", "--solve", p, "--target-epsilon", "1", *flags, stdin=text).err for p in parameters}
    lacking = {p for p in parameters if re.search(r"no mechanism has|\"it\" has no ", said[p])}
    for p in lacking:
        named = set(re.findall(r"[a-z-]+", said[p].partition("--solve ")[2])) - {"or"}
        assert named == set(parameters) - lacking, said[p]
        assert "--mechanism NAME" not in said[p]
    assert "scale" in lacking or kind == "laplace"


def test_a_gaussian_has_no_scale() -> None:
    result = dpcli("calibrate", "examples/mnist.toml", "--solve", "scale", "--target-epsilon", "2")
    assert result.err == "dpcli: no mechanism has a scale; use --solve noise, steps, epochs, batch-size or rate\n"
    assert result.code == 2


@of_each("solve", ["steps", "epochs", "batch-size", "rate", "noise"])
def test_what_is_counted_is_a_whole_number_in_every_form(solve: str) -> None:
    """As the key takes it: the answer can be written into the file as it stands."""
    asked = ("calibrate", "examples/mnist.toml", "--solve", solve, "--target-epsilon", "3")
    found = json.loads(dpcli(*asked, "-f", "json").out)
    (entry,) = [{key: value for key, value in one.items() if key != "name"} for one in found["mechanisms"]]
    ((key, value),) = entry.items()
    whole = isinstance({**members_of(Entry), **members_of(Poisson), **members_of(GaussianSpec)}[key].kind, WholeNumber)
    numbers = [value, found["result"][key], found["result"]["next_cheaper"][key]]
    assert [type(number) for number in numbers] == [int if whole else float] * 3
    assert dpcli(*asked, "-f", "total").out.strip() == repr(value)
    assert f",{key},{value!r}," in dpcli(*asked, "-f", "csv").out


@pytest.mark.long
@of_each("kind", [kind for kind, target in MECHANISMS.items() if load(target).needs_delta])
def test_delta_zero_is_named_where_it_is_what_stands_in_the_way(kind: str) -> None:
    """Of every type that has no finite epsilon there."""
    for subject in drawn(kind, f"delta {SEED}")[:2]:
        text = re.sub(r"^delta = .*$", "delta = 0.0", subject.text, flags=re.MULTILINE, count=1)
        result = dpcli("calibrate", "-", "--solve", "steps", "-m", "it", "--target-epsilon", "1", stdin=text.encode())
        if result.code == 3 and "no steps between" not in result.err:
            assert "delta = 0: no amount of noise gives " in result.err, subject.source
            assert "state a delta > 0, such as 1e-6 (--delta, or privacy.delta)" in result.err
    result = dpcli("calibrate-sigma", "--target-epsilon", "1", "--delta", "0", "--steps", "10")
    assert result.code == 3
    assert "delta = 0: no amount of noise gives " in result.err


ONE_GAUSSIAN = """
format = 1
[privacy]
unit = "example"
adjacency = "replace-one"
delta = 1e-5
[[mechanism]]
name = "mean"
type = "gaussian"
sigma = 50.0
sensitivity = 200.0
"""


@of_each(
    "epsilon, verdict",
    [
        (0.5, "meets the target"),
        (1.0, "meets the target, outside its proof"),
        (5.0, "outside its proof"),
        (10.0, "misses the target"),
    ],
)
def test_the_classical_noise_of_one_gaussian_stands_beside_the_answer(epsilon: float, verdict: str) -> None:
    """Under the key that was solved for, whatever its unit and adjacency, and never as the answer."""
    sigma = math.sqrt(2.0 * math.log(1.25 / 1e-5)) / epsilon
    flags = ("--target-epsilon", repr(epsilon), "--delta", "1e-5")
    for arguments, stdin, key, sensitivity in (
        (("--steps", "1", *flags), "", "noise_multiplier", 1.0),
        (("--steps", "1", "--adjacency", "replace-one", *flags), "", "noise_multiplier", 2.0),
        (("--steps", "1", "--group-size", "3", *flags), "", "noise_multiplier", 3.0),
        (("-", *flags), ONE_GAUSSIAN, "sigma", 200.0),
    ):
        result = json.loads(dpcli("calibrate-sigma", *arguments, "-f", "json", stdin=stdin.encode()).out)["result"]
        assert result["classical"][key] == pytest.approx(sigma * sensitivity, rel=1e-12)
        assert result["classical"]["proved"] == (epsilon < 1.0)
        assert (
            gaussian_epsilon(1.0 / sigma, 1e-5)[0] <= result["classical"]["epsilon_upper"] <= gaussian_epsilon(1.0 / sigma, 1e-5)[1]
        )
        assert (result["classical"]["epsilon_upper"] > epsilon) == (result["classical"][key] < result[key]) == (epsilon == 10.0)
        (row,) = [
            line
            for line in dpcli("calibrate-sigma", *arguments, stdin=stdin.encode()).out.splitlines()
            if "classical formula  " in line
        ]
        assert row.endswith(verdict)


@of_each("arguments", [("--steps", "2"), ("--steps", "1", "--sampling-rate", "0.5"), FLAGS[4:]])
def test_no_classical_noise_for_anything_else(arguments: tuple[str, ...]) -> None:
    result = dpcli("calibrate-sigma", "--target-epsilon", "4", "--delta", "1e-5", *arguments, "-f", "json")
    assert result.code == 0, result.err
    assert "classical" not in json.loads(result.out)["result"]


def test_flags_without_a_file_are_those_of_account() -> None:
    """Both state one run, and what is calibrated by them costs what account says of it."""
    from dpcli.analysis.commands.account import command as account
    from dpcli.analysis.commands.calibrate_sigma import command as calibrate
    from dpcli.cli.accounting_options import run_options

    shared = {option.name for option in run_options(lambda: None).__click_params__}
    assert {"batch_size", "dataset_size", "epochs", "steps", "sampling_rate", "adjacency"} == shared
    assert all(shared <= {option.name for option in command.params} for command in (account, calibrate))
    run = ("--batch-size", "256", "--dataset-size", "60000", "--epochs", "3", "--delta", "1e-6")
    found = json.loads(dpcli("calibrate-sigma", "--target-epsilon", "3", *run, "-f", "json").out)["result"]
    priced = dpcli("account", "--noise-multiplier", repr(found["noise_multiplier"]), *run, "-f", "json").out
    assert json.loads(priced)["result"]["epsilon_upper"] == pytest.approx(found["epsilon_upper"], rel=1e-8)


@of_each("delta", ["1e-7", "1e-5", "1e-3"])
def test_rules_say_of_flags_what_they_say_to_account(delta: str) -> None:
    run = ("--batch-size", "256", "--dataset-size", "60000", "--epochs", "3", "--delta", delta, "-a", "rdp")
    calibrated = dpcli("calibrate-sigma", "--target-epsilon", "3", *run, "-f", "text")
    priced = dpcli("account", "--noise-multiplier", "1", *run, "-f", "text")
    said = [
        [line for line in found.out.splitlines() if " DP1" in line and "epsilon <=" not in line] for found in (calibrated, priced)
    ]
    assert [line.replace("releases", "dp-sgd") for line in said[1]] == said[0] and said[0]
    assert calibrated.code == priced.code == int(delta == "1e-3")


def test_noise_that_no_step_samples_is_not_said_to_be_of_dp_sgd() -> None:
    flags = ("calibrate-sigma", "--target-epsilon", "2", "--delta", "1e-5", "--dataset-size", "100", "--steps", "3")
    assert " for releases: epsilon <= 2.0000 at" in " ".join(dpcli(*flags).out.split())
    assert " for dp-sgd: epsilon <= 2.0000 at" in " ".join(dpcli(*flags, "--sampling-rate", "0.1").out.split())
