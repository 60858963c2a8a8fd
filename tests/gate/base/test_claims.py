"""Tests that every claim about data or program that makes a file cheaper is reported, for every key and type; more noise is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dpcli.analysis.account import headline
from dpcli.analysis.difference import priced_changes
from dpcli.base.lazy import load
from dpcli.file.pipeline.read import parse
from dpcli.file.pipeline.section import MECHANISM_TYPES
from dpcli.gate.claims import claim_warnings
from tests.cases import of_each
from tests.command import dpcli
from tests.gate.changes import BASE, TYPES, Document, text_of, with_mechanism
from tests.gate.repositories import committed, git
from tests.gate.samples import GATE

MORE: dict[str, dict[str, Any]] = {
    "gaussian": {"sigma": 40.0, "sensitivity": 2.0},
    "laplace": {"scale": 90.0, "sensitivity": 2.0},
    "discrete-laplace": {"scale": 90.0, "sensitivity": 2},
    "tree-aggregation": {"noise_multiplier": 40.0, "iterations": 8, "max_participations": 2, "min_separation": 2},
    "confident-gnmax": {"queries": 8, "answers": 4, "threshold": 200.0, "threshold_sigma": 150.0, "sigma": 400.0},
    "banded-matrix": {"noise_multiplier": 40.0, "iterations": 8, "max_participations": 2, "min_separation": 2, "bands": 2},
    "banded-toeplitz": {"noise_multiplier": 40.0, "iterations": 8, "max_participations": 2, "min_separation": 2, "bands": 2},
}
SHARES = {"buf_decay", "output_scale"}  # of noise: numbers up to 1
NOISE = {
    "threshold",
    "threshold_sigma",
    "model_rate",
    "radius",
    "clip",
    "temperature",
    "noise_multiplier",
    "sigma",
    "scale",
    "steps",
    "iterations",
    "bands",
    "mechanism",
    "mechanisms",
    "trials",
    *SHARES,
}
BOUNDS = {(f"truncated-{kind}", "delta") for kind in ("laplace", "discrete-laplace")}  # by which the noise is bounded
ROWS = [(kind, key) for table in (TYPES, MORE) for kind, keys in table.items() for key in keys]


def told(old: Document, new: Document) -> list[str]:
    """What is said of the change."""
    before, after = (text_of(each).encode() for each in (old, new))
    pipeline = parse(before, "train.toml")
    priced = priced_changes(before, after, headline(pipeline, delta=pipeline.privacy.delta))
    return [condition.message for condition in claim_warnings(priced, parse(after, "train.toml"))]


def cheaper(key: str, value: Any) -> Any:
    if isinstance(value, list):
        return [0.9, 0.1] if key == "probabilities" else [cheaper(key, each) for each in value]
    if key in ("users", "batches", "lipschitz", "strong_convexity", "learning_rate"):
        return value * 2
    if isinstance(value, int):
        return value - 1 if key != "min_separation" else value + 1
    return value / 2 if key not in NOISE - SHARES else value * 2


@pytest.mark.sampled(0, 1)
@pytest.mark.long
@pytest.mark.parametrize("rows", [pytest.param(ROWS[::5], id="some"), pytest.param(ROWS, id="all", marks=pytest.mark.long)])
def test_a_key_that_lowers_epsilon_without_noise_is_told(rows: list[tuple[str, str]]) -> None:
    for kind, key in rows:
        told_where_it_lowers(kind, key)


def told_where_it_lowers(kind: str, key: str) -> None:
    """A key of a type is told where it is not of noise."""
    keys = MORE[kind] if key in MORE.get(kind, {}) else TYPES[kind]
    value: Any
    if kind == "rdp" and key == "orders":
        value = [2.0, 99.0]
    elif key in ("mechanism", "mechanisms"):
        value = keys[key]
    else:
        value = {"distribution": "geometric", "mean": 1.5} if key == "trials" else cheaper(key, keys[key])
    if value in (0, keys[key]):
        value = keys[key] * 2 if isinstance(value, int) else keys[key]
        keys = {**keys, key: value} if isinstance(value, int) else keys
        value = value // 2 if isinstance(value, int) else value
    found = told(with_mechanism(kind, keys), with_mechanism(kind, {**keys, key: value}))
    assert bool(found) == (key not in NOISE and (kind, key) not in BOUNDS), (kind, key, found)
    assert all(f"train: {key}" in words for words in found), (kind, key, found)


def test_the_rows_are_all_types() -> None:
    assert {kind for kind, _ in ROWS} >= {k for k in MECHANISM_TYPES.registry if k != "post-processing"}
    assert {load(MECHANISM_TYPES.registry[kind]).evidence for kind, _ in ROWS} == {1, 2}


SCHEMES = [
    (None, {"scheme": "poisson", "rate": 0.1}, True),
    ({"scheme": "shuffle", "batch_size": 1000}, {"scheme": "poisson", "batch_size": 1000}, True),
    ({"scheme": "cyclic", "batch_size": 10**5}, {"scheme": "balls-in-bins", "batch_size": 10**5}, True),
    ({"scheme": "poisson", "rate": 0.1}, {"scheme": "poisson", "rate": 0.05}, False),
    ({"scheme": "poisson", "rate": 0.1}, None, False),
]


@of_each("old, new, expected", SCHEMES)
def test_another_scheme_is_told(old: Any, new: Any, expected: bool) -> None:
    before, after = ({"noise_multiplier": 40.0, **({} if s is None else {"sampling": s})} for s in (old, new))
    assert bool(told(with_mechanism("gaussian", before), with_mechanism("gaussian", after))) is expected


@pytest.mark.long
@of_each("scheme", [None, "poisson", "shuffle", "balls-in-bins"])
def test_a_count_that_goes_is_told_and_one_that_changes_is_not(scheme: str | None) -> None:
    """Where nothing is counted, one step is: that is what the file says of its program by saying nothing."""
    sampling = {} if scheme is None else {"sampling": {"scheme": scheme, "batch_size": 10**5}}
    words = ("steps",) if scheme is None else ("steps", "epochs")

    def entry(**count: int) -> Document:
        return with_mechanism("gaussian", {"noise_multiplier": 40.0, **sampling, **count})

    for word in words:
        (said,) = told(entry(**{word: 100}), entry())
        assert f"train: {word} 100 -> none" in said
        assert all(not told(entry(**{word: 100}), entry(**{other: 50})) for other in words)


def test_a_claim_in_a_list_is_told_under_the_name_that_is_written() -> None:
    one, several = ({"sigma": 40.0, "sensitivity": value} for value in (2.0, [1.0, 0.5]))
    (said,) = told(with_mechanism("gaussian", one), with_mechanism("gaussian", several))
    assert said.startswith("train: sensitivity 2.0 -> [1.0, 0.5]: ")
    assert not told(with_mechanism("gaussian", several), with_mechanism("gaussian", one))  # dearer


def test_parts_that_lower_epsilon_only_together_are_told() -> None:
    entries = [{"name": name, "type": "gaussian", "noise_multiplier": 9.0} for name in ("train", "test")]
    parted = [{**entry, "partition": {"of": "region", "part": entry["name"]}} for entry in entries]
    found = told({**BASE, "mechanism": entries}, {**BASE, "mechanism": parted})
    assert len(found) == 2


@pytest.mark.long
def test_it_stands_in_every_format_and_passes(repository: Path) -> None:
    (repository / "train.toml").write_text(GATE.replace("sensitivity = 1.0", "sensitivity = 0.5"))
    git(repository, "commit", "-qam", "claimed")
    for format_ in ("text", "table", "github", "sarif", "gitlab", "json", "markdown"):
        result = dpcli("gate", "train.toml", "--base-ref", "HEAD~1", "-f", format_, folder=repository)
        assert result.code == 0, format_
        assert "sensitivity" in result.out.replace("\\", ""), format_
        assert "not because of noise" in " ".join(result.out.replace("│", " ").split()), format_


PARTS = """\
format = 1
privacy = { adjacency = "add-remove", unit = "example", releases = "outputs", delta = 1e-6 }
budget = { epsilon = 9.0 }

[[mechanism]]
name = "train"
type = "gaussian"
noise_multiplier = 400.0
steps = 5_000
"""
COUNT = '\n[[mechanism]]\nname = "{}"\ntype = "{}"\n{} = 1.0\nsensitivity = 1.0\n'


@pytest.mark.parametrize(
    ("type_", "noise", "new"),
    [
        ("laplace", "scale", False),
        pytest.param("gaussian", "sigma", True, marks=pytest.mark.long),
        pytest.param("laplace", "scale", True, marks=pytest.mark.long),
        pytest.param("gaussian", "sigma", False, marks=pytest.mark.long),
    ],
)
def test_disjoint_parts_are_told_although_each_alone_is_dearer(tmp_path: Path, type_: str, noise: str, new: bool) -> None:
    """Two entries that were added up and now count as one; also where the second is new, and so costs nothing."""
    first, second = (COUNT.format(name, type_, noise) for name in "ab")
    file = tmp_path / "f.toml"
    committed(tmp_path, f=PARTS + first + ("" if new else second))
    parts = (f'partition = {{ of = "region", part = "{name}" }}\n' for name in "ab")
    file.write_text(PARTS + first + next(parts) + second + next(parts))
    result = dpcli("gate", "f.toml", "--base-ref", "main", "-f", "text", folder=tmp_path)
    assert result.code == 0
    assert "warning gate/claim: a: partition none -> " in result.out
    assert new or "warning gate/claim: b: partition none -> " in result.out


def entry(name: str, type_: str = "gaussian", **keys: Any) -> dict[str, Any]:
    own = {} if type_ == "post-processing" else {"noise_multiplier": 9.0}
    return {"name": name, "type": type_, **own, **keys}


POISSON = {"sampling": {"scheme": "poisson", "rate": 0.001}, "steps": 10}
FIRST = entry("first", partition={"of": "region", "part": "a"})
# The entries before and after, and the new one of which something is told, if it is.
NEW: list[tuple[list[dict[str, Any]], list[dict[str, Any]], str]] = [
    ([FIRST], [FIRST, entry("new", partition={"of": "region", "part": "b"})], "new"),
    ([FIRST], [FIRST, entry("new", "post-processing")], "new"),
    ([FIRST], [FIRST, entry("new")], ""),
    ([FIRST], [FIRST, entry("new", **{**POISSON, "steps": 30_000})], ""),
    ([entry("old")], [entry("new", **POISSON)], "new"),
    ([FIRST, entry("old")], [FIRST, entry("new", **POISSON)], "new"),
    ([entry("old")], [entry("new")], ""),
    ([FIRST], [FIRST, {"name": "new", "type": "pure-dp", "epsilon": 1e-9}], "new"),
    ([FIRST], [FIRST, {"name": "new", "type": "laplace", "scale": 1.0, "sensitivity": 1e-9}], "new"),
    ([entry("first")], [entry("first"), entry("new", sampling={"scheme": "poisson", "rate": 1e-9}, steps=1)], "new"),
    ([FIRST], [FIRST, {"name": "new", "type": "pure-dp", "epsilon": 0.5}], ""),
]


@pytest.mark.long
@of_each("before, after, name", NEW)
def test_a_new_entry_that_is_cheap_by_its_word_is_told(before: list[Any], after: list[Any], name: str) -> None:
    found = told({**BASE, "mechanism": before}, {**BASE, "mechanism": after})
    assert [name in words for words in found] == [True] * bool(name), found
