"""Tests of flags in place of FILE: they mean the same as the file that they write; calibrations keep the comments of a file."""

from __future__ import annotations

import json
import random
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import tomli

from dpcli.base.errors import InputError
from dpcli.exam.subjects import SEED
from dpcli.file.toml.write import edited
from tests.cases import by_tier, of_each
from tests.command import ROOT, dpcli

FILES = sorted([*(ROOT / "examples").glob("*.toml"), *(ROOT / "dpcli" / "templates").glob("*.toml")])
SGD = ("--noise-multiplier", "1.1", "--sampling-rate", "0.004", "--steps", "2000", "--delta", "1e-6")
PLAIN = ("--noise-multiplier", "1.1", "--delta", "1e-6")
MNIST = str(ROOT / "examples" / "mnist.toml")


def drawn(rng: random.Random) -> list[str]:
    """Flags of one pipeline, any of those that go together."""
    kind = rng.choice(["gaussian", "laplace", "pure"])
    noise = {
        "gaussian": ["--noise-multiplier", f"{rng.uniform(0.6, 5):.3g}"],
        "laplace": ["--laplace", "--noise-multiplier", f"{rng.uniform(5, 50):.3g}"],
        "pure": ["--pure", f"{rng.uniform(0.01, 0.3):.3g}"],
    }[kind]
    sampling = rng.choice(
        [[], ["--sampling-rate", f"{rng.uniform(0.001, 0.5):.3g}"], ["--batch-size", "50", "--dataset-size", "1000"]]
    )
    counts: list[list[str]] = [["--steps", str(rng.randrange(1, 500))]]
    counts.append(["--epochs", rng.choice(["1", "2.5"])] if sampling else [])
    adjacency = (
        rng.choice([[], ["--adjacency", rng.choice(["add-remove", "replace-one"])]]) if kind != "pure" or not sampling else []
    )
    return [*noise, *sampling, *rng.choice(counts), *adjacency, "--delta", "1e-6"]


@pytest.mark.long
def test_flags_say_what_the_file_says_that_they_write(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    for number in range(6):
        flags, path = drawn(rng), str(tmp_path / f"{number}.toml")
        here = dpcli("account", *flags, "-f", "json", "--write", path)
        there = dpcli("account", path, "-f", "json")
        assert (here.code, there.code) == (0, 0), (SEED, flags, here.err, there.err)
        one, other = json.loads(here.out), json.loads(there.out)
        assert one["result"] == other["result"] and one["statement"] == other["statement"], (SEED, flags)


def test_beside_stands_what_files_would_say_that_state_it(tmp_path: Path) -> None:
    path = tmp_path / "flags.toml"
    found = json.loads(dpcli("account", *SGD, "-f", "json", "--write", str(path)).out)
    text = path.read_text()
    seen = set()
    for other in found["beside"]:
        said = text.replace('scheme = "poisson"', f'scheme = "{other["sampling"]}"')
        path.write_text(said.replace('adjacency = "add-remove"', f'adjacency = "{other["adjacency"]}"'))
        result = json.loads(dpcli("account", str(path), "-f", "json").out)["result"]
        assert result["epsilon_upper"] == other["epsilon_upper"] > found["result"]["epsilon_upper"]
        seen.add((other["sampling"], other["adjacency"]))
    assert seen == {("poisson", "replace-one"), ("shuffle", "add-remove"), ("shuffle", "replace-one")}
    assert "shuffle, no amplification" in dpcli("account", *SGD).out


ADJACENCIES = ("add-remove", "replace-one", "zero-out")
SAMPLED: tuple[tuple[str, ...], ...] = ((), ("--sampling-rate", "0.1"), ("--batch-size", "10", "--dataset-size", "1000"))
NOISES: tuple[tuple[str, ...], ...] = (("--noise-multiplier", "3"), ("--laplace", "--noise-multiplier", "9"), ("--pure", "0.1"))
# Every two of them together, but for the third.
PAIRS = [(ADJACENCIES[(a + b) % 3], sampled, noise) for a, sampled in enumerate(SAMPLED) for b, noise in enumerate(NOISES)]


@pytest.mark.parametrize(
    "cases",
    by_tier(None, PAIRS[::2], [case for case in product(ADJACENCIES, SAMPLED, NOISES) if case not in PAIRS[::2]]),
    ids=["some", "others"],
)
def test_every_adjacency_of_flags_has_an_answer(cases: list[tuple[str, tuple[str, ...], tuple[str, ...]]]) -> None:
    for adjacency, sampled, noise in cases:
        answered(adjacency, sampled, noise)


def answered(adjacency: str, sampled: tuple[str, ...], noise: tuple[str, ...]) -> None:
    """Beside it stand the other adjacencies that it has, and shuffled batches where a step sees a sample."""
    steps = str(random.Random(SEED).randrange(1, 20))
    asked = ("--delta", "1e-6") if random.Random(SEED).random() < 0.7 else ("--epsilon", "1")
    done = dpcli("account", *noise, *sampled, "--steps", steps, *asked, "--adjacency", adjacency, "-f", "json")
    if "--pure" in noise and sampled and adjacency != "add-remove":
        assert done.code == 2 and "needs noise_multiplier" in done.err
        return
    assert done.code in (0, 1, 3), (SEED, done.err)
    said = {(other["sampling"], other["adjacency"]) for other in json.loads(done.out).get("beside", ())}
    others = {"add-remove", "replace-one"} - {adjacency} if adjacency != "zero-out" else set()
    scheme = "poisson" if sampled else None
    expected = {(scheme, other) for other in others} | {("shuffle", other) for other in (adjacency, *others) if sampled}
    assert said == (set() if "--pure" in noise else expected)


REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "nothing": ((), "expected FILE, --noise-multiplier"),
    "two mechanisms": (("--pure", "1", "--noise-multiplier", "1"), "found both"),
    "two counts": (("--noise-multiplier", "1", "--steps", "1", "--epochs", "1", "--delta", "1e-6"), "found both"),
    "no delta": (("--noise-multiplier", "1"), "--delta is missing"),
    "negative noise": (("--noise-multiplier", "-1", "--delta", "1e-6"), "--noise-multiplier: expected a number > 0, found -1.0"),
    "rate above 1": (
        (*PLAIN, "--steps", "1", "--sampling-rate", "2"),
        "--sampling-rate: expected a number in [0, 1], found 2.0; 2 % is 0.02",
    ),
    "not a number": ((*PLAIN, "--steps", "1", "--sampling-rate", "nan"), "--sampling-rate: expected a number"),
    "no steps": ((*PLAIN, "--steps", "0"), "--steps: expected a whole number"),
    "no word of steps": ((*PLAIN, "--sampling-rate", "0.1"), "expected --steps or --epochs with --sampling-rate or --batch-size"),
    "endless epochs": (("--noise-multiplier", "1", "--epochs", "inf", "--delta", "1e-6"), "--epochs: expected"),
    "a batch of what": ((*PLAIN, "--batch-size", "9", "--steps", "1"), "--dataset-size"),
    "with a file": ((MNIST, "--steps", "3"), f"--steps cannot be combined with a FILE; change steps in {MNIST}"),
    "a rate with a file": ((MNIST, "--sampling-rate", "1"), "change sampling.rate in"),
    "writing a file": ((MNIST, "--write", "x"), "--write cannot be combined with a FILE"),
    "writing over a file": ((*SGD, "--write", str(ROOT / "README.md")), "--write: expected a path that does not exist"),
}


@of_each(
    "command",
    [("account", "--noise-multiplier", "2", "--delta"), ("calibrate-sigma", "--target-epsilon", "2", "--delta")],
)
def test_a_rule_names_the_flag_that_is_missing_or_wrong(command: tuple[str, ...]) -> None:
    assert "warning DP306: --dataset-size: missing" in " ".join(dpcli(*command, "1e-6").out.split())
    assert "error DP105: --delta: expected" in dpcli(*command, "0.1", "--dataset-size", "100").out


@of_each("case", REFUSED)
def test_flags_that_are_wrong_are_refused_by_their_name(case: str) -> None:
    flags, words = REFUSED[case]
    found = dpcli("account", *flags)
    assert (found.code, found.out) == (2, "") and words in found.err, found.err


@of_each("path", FILES)
def test_one_value_is_replaced_and_nothing_else(path: Path) -> None:
    """Of every table of every shipped file: comments, order and other values are kept."""
    text = path.read_text()
    tables = tomli.loads(text)
    for place, value in numbers(tables, ()):
        new = edited(text, {place: value * 2 + 1})
        changed = [(a, b) for a, b in zip(text.split("\n"), new.split("\n"), strict=True) if a != b]
        assert len(changed) == 1 and changed[0][0].partition("#")[2] == changed[0][1].partition("#")[2]
        assert dict(numbers(tomli.loads(new), ())) == {**dict(numbers(tables, ())), place: value * 2 + 1}
    with pytest.raises(InputError, match="no value that can be replaced"):
        edited(text, {("mechanism", 99, "steps"): 1})


def numbers(table: Any, path: tuple[str | int, ...]) -> list[tuple[tuple[str | int, ...], float]]:
    """Every number of a document that stands alone, by its path."""
    if type(table) in (int, float):
        return [(path, table)]
    if type(table) is list and not all(type(item) is dict for item in table):
        return []
    items = table.items() if type(table) is dict else enumerate(table) if type(table) is list else ()
    return [found for key, item in items for found in numbers(item, (*path, key))]


HARD = """
a = 1 # "b" = 2
"b" = 'x = 3' # a = 1
"c d".e = 4
f = { g = 5, h = { i.j = 6 } } # f
[[k]]
l = 7
text = '''
l = 8
'''
[[k]]
"l"   =   9# end
"""


def test_what_only_looks_like_a_key_is_left_alone() -> None:
    places = numbers(tomli.loads(HARD), ())
    assert len(places) == 6
    for place, _ in places:
        assert dict(numbers(tomli.loads(edited(HARD, {place: 10**9})), ())) == {**dict(places), place: 10**9}
    both = edited(HARD, {place: 1.5 for place, _ in places})
    assert set(dict(numbers(tomli.loads(both), ())).values()) == {1.5}
    assert "x = 3" in both and "l = 8" in both and both.count("#") == HARD.count("#")


def test_a_calibration_is_written_into_its_file(tmp_path: Path) -> None:
    source, path = ROOT / "examples" / "dp-sgd.toml", tmp_path / "solved.toml"
    found = dpcli("calibrate", str(source), "--solve", "batch-size", "--write", str(path), "-f", "json")
    assert found.code == 0, found.err
    before, after = source.read_text().split("\n"), path.read_text().split("\n")
    assert [a.replace("240", "510") for a in before if a not in after] == [b for b in after if b not in before]
    assert json.loads(dpcli("account", str(path), "-f", "json").out)["result"]["epsilon_upper"] <= 4.0
    other = tmp_path / "other.toml"
    found = dpcli("calibrate", str(source), "--solve", "steps", "--write", str(other))
    assert found.code == 2 and "mechanism[1].steps" in found.err and not other.exists()


def test_every_calibrate_of_a_file_is_written(tmp_path: Path) -> None:
    text = (ROOT / "examples" / "dp-sgd.toml").read_text().replace("noise_multiplier = 1.1 ", 'noise_multiplier = "calibrate" ')
    source, path, flags = tmp_path / "open.toml", tmp_path / "solved.toml", tmp_path / "flags.toml"
    source.write_text(text)
    assert dpcli("calibrate-sigma", str(source), "--write", str(path)).code == 0
    assert 3.99 < json.loads(dpcli("account", str(path), "-f", "json").out)["result"]["epsilon_upper"] <= 4.0
    asked = ("--target-epsilon", "2", "--delta", "1e-5", "--steps", "1000", "--sampling-rate", "0.01")
    assert dpcli("calibrate-sigma", *asked, "--write", str(flags)).code == 0
    assert 1.99 < json.loads(dpcli("account", str(flags), "-f", "json").out)["result"]["epsilon_upper"] <= 2.0
