"""Tests of importing what dpcli export wrote, with any flags: never at a lower price than before."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from dpcli.analysis.account import headline
from dpcli.base.errors import InputError
from dpcli.exam.subjects import SEED
from dpcli.exchange import foreign as carried
from dpcli.exchange.events.dp_event import event_json
from dpcli.exchange.foreign import CARRIED_TABLES, MOST_VALUES, Asserted, json_copy, read_text
from dpcli.exchange.opacus.phases import json_text, state_of
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.toml.write import toml_text
from tests.cases import of_each
from tests.command import dpcli

EXPORTED: dict[str, Callable[[Pipeline], str]] = {
    "opacus": lambda pipeline: json_text(state_of(pipeline, "rdp")),
    "dp-accounting": event_json,
}
CARRIED = {"opacus": "dpcli", "dp-accounting": "pipeline"}
OTHER: dict[str, list[Any]] = {
    "adjacency": ["add-remove", "replace-one", "zero-out"],
    "unit": ["example", "user", "person"],
    "max_contributions": [1, 2, 50],
    "dataset_size": [1, 999, 2000, 10_000_000],
    "delta": [1e-12, 1e-6, 1e-3],
}


def drawn(rng: random.Random) -> Pipeline:
    """What both libraries can say: Gaussian noise on samples by rate or batch size, for steps or epochs."""
    privacy: dict[str, Any] = {"adjacency": "add-remove", "delta": 1e-6}
    if rng.random() < 0.5:
        privacy["unit"] = "example"
    sized = rng.random() < 0.7
    if sized:
        privacy["dataset_size"] = rng.choice([1000, 2000])
    entries = []
    for place in range(rng.randint(1, 3)):
        by_size = sized and rng.random() < 0.8
        sampling = (
            {"batch_size": rng.choice([10, 30, 77])} if by_size else {"rate": rng.choice([0.01, 0.3, rng.uniform(0.001, 0.5)])}
        )
        count = {"epochs": rng.choice([1.0, 2.5])} if rng.random() < 0.5 else {"steps": rng.randint(1, 50)}
        noise = rng.uniform(1.0, 4.0)
        entry = {"name": f"m{place}", "type": "gaussian", "noise_multiplier": noise, **count}
        entries.append({**entry, "sampling": {"scheme": "poisson", **sampling}})
    return read_text(toml_text({"format": 1, "privacy": privacy, "mechanism": entries}), "made.toml")


@pytest.mark.long
@pytest.mark.parametrize("tool", EXPORTED)
def test_nothing_that_is_stated_beside_an_export_makes_it_cheaper(tool: str, tmp_path: Path) -> None:
    """Whatever can be stated, one by one and together; what is not refused costs as much, at the delta of the export."""
    assert set(OTHER) == {each.name for each in fields(Asserted)}
    rng, path, taken = random.Random(SEED), tmp_path / "exported", 0
    for _ in range(12):
        made = drawn(rng)
        path.write_text(EXPORTED[tool](made))
        before = headline(made, 1e-6).upper
        for names in [[name] for name in OTHER] + [rng.sample(list(OTHER), rng.randint(0, len(OTHER))) for _ in range(3)]:
            words = [word for name in names for word in ("--" + name.replace("_", "-"), str(rng.choice(OTHER[name])))]
            done = dpcli("import", tool, str(path), *words)
            if done.code:
                assert (done.code, done.out) == (2, ""), (SEED, words, done.err)
                continue
            taken += 1
            back = read_text(done.out, "back.toml")
            assert headline(back, 1e-6).upper >= before * (1.0 - 1e-12), (SEED, words)
            assert made.privacy.delta == back.privacy.delta and made.privacy.dataset_size in (None, back.privacy.dataset_size)
    assert taken


@of_each("tool", EXPORTED)
def test_another_size_than_the_export_says_is_refused(tool: str, tmp_path: Path) -> None:
    path = tmp_path / "exported"
    privacy = {"adjacency": "add-remove", "delta": 1e-10, "dataset_size": 100_000}
    sampling = {"scheme": "poisson", "batch_size": 1000}
    entry = {"name": "m", "type": "gaussian", "noise_multiplier": 1.0, "steps": 1000, "sampling": sampling}
    path.write_text(EXPORTED[tool](read_text(toml_text({"format": 1, "privacy": privacy, "mechanism": [entry]}), "x")))
    done = dpcli("import", tool, str(path), "--dataset-size", "10000000")
    assert done.code == 2 and "--dataset-size 10000000 contradicts the file, which states 100000" in done.err
    assert dpcli("import", tool, str(path), "--dataset-size", "100000").code == 0


def exported(tool: str) -> Any:
    return json.loads(EXPORTED[tool](drawn(random.Random(1))))


def test_batches_of_an_export_were_drawn_as_it_says(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text(json.dumps(exported("opacus")))
    done = dpcli("import", "opacus", str(path), "--sampling", "shuffle")
    assert done.code == 2 and "expected --sampling poisson or none, as dpcli export stored the scheme, found shuffle" in done.err
    assert dpcli("import", "opacus", str(path), "--sampling", "poisson").code == 0


@of_each("tool", EXPORTED)
@of_each("value", [5, "x", [], None])
def test_tables_that_are_none_are_refused(tool: str, value: Any, tmp_path: Path) -> None:
    """All but null, which is none at all."""
    path, document = tmp_path / "f.json", exported(tool)
    document[CARRIED[tool]] = value
    path.write_text(json.dumps(document))
    assert dpcli("import", tool, str(path)).code == (0 if value is None else 2)


@of_each("tool", EXPORTED)
@of_each("key", ["format", "budget", "privcay", "defaults", "train"])
def test_tables_that_an_export_does_not_have_are_refused(tool: str, key: str, tmp_path: Path) -> None:
    path, document = tmp_path / "f.json", exported(tool)
    assert set(document[CARRIED[tool]]) == set(CARRIED_TABLES)
    document[CARRIED[tool]][key] = {"epsilon": 1.0}
    path.write_text(json.dumps(document))
    done = dpcli("import", tool, str(path))
    assert done.code == 2 and key in done.err


def shared(depth: int, kind: type) -> Any:
    """Twice itself, so many times."""
    value: Any = "a"
    for _ in range(depth):
        value = kind([value, value]) if kind is not dict else {"a": value, "b": value}
    return value


def cyclic(kind: type) -> Any:
    value: Any = kind()
    if isinstance(value, dict):
        value["a"] = value
    else:
        value.append(value)
    return value


HOSTILE = {
    **{f"shared {kind.__name__}": shared(40, kind) for kind in (list, tuple, dict)},
    **{f"shared {kind.__name__}, shallow": shared(31, kind) for kind in (list, tuple, dict)},
    **{f"cyclic {kind.__name__}": cyclic(kind) for kind in (list, dict)},
    "bytes": b"a",
    "a number as key": {1: 2},
    "a set": {1, 2},
    "an object": Path("a"),
}


@of_each("name", HOSTILE)
@of_each("where", ["dpcli", "privacy", "adjacency", "mechanism", "elsewhere"])
def test_what_is_shared_or_holds_itself_ends(name: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pickle, wherever it is; refused where the file would be made of it."""
    monkeypatch.setattr(carried, "MOST_VALUES", MOST_VALUES // 100)  # as what is shared has far more
    value, path = HOSTILE[name], tmp_path / "c.pkl"
    document = exported("opacus")
    if where in CARRIED_TABLES:
        document["dpcli"][where] = value
    elif where == "adjacency":
        document["dpcli"]["privacy"][where] = value
    else:
        document[where] = value
    path.write_bytes(pickle.dumps(document))
    done = dpcli("import", "opacus", str(path))
    assert done.code == (0 if where == "elsewhere" else 2), done.err


def test_copies_are_bounded() -> None:
    assert json_copy({"a": [1, (2.5, None)], "b": True}, "x") == {"a": [1, [2.5, None]], "b": True}
    with pytest.raises(InputError, match="found more"):
        json_copy([0] * MOST_VALUES, "x")
