"""Tests of the fields of events: none is passed over, none is read twice, and no value causes an internal error."""

from __future__ import annotations

import copy
import json
import math
import random
import textwrap
from collections import namedtuple
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import dpcli
from dpcli.base.errors import InputError
from dpcli.exam.subjects import SEED
from dpcli.exchange.events.dp_event import event_json, file_of_json
from dpcli.exchange.events.event_tree import EVENTS
from dpcli.exchange.events.writer import RELATIONS
from dpcli.exchange.foreign import Asserted, read_text
from dpcli.file.toml.findings import InvalidFile
from tests.cases import of_each
from tests.command import ROOT
from tests.command import dpcli as run
from tests.strategies import entry, pipeline

EVENT_FILES = json.loads((ROOT / "tests" / "vectors" / "dp_events.json").read_text())["cases"]
GAUSSIAN = {"type": "GaussianDpEvent", "noise_multiplier": 2.0}
STATED = Asserted(adjacency="add-remove", delta=1e-6)
LATER = [
    {"type": "EpsilonDeltaDpEvent", "epsilon": 1.0, "delta": 1e-9},
    {"type": "ExponentialMechanismDpEvent", "epsilon": 1.0},
    {"type": "PermuteAndFlipDpEvent", "epsilon": 1.0},
    {"type": "DiscreteGaussianDpEvent", "sigma": 9.0, "sensitivity": 2.0, "dimension": 1},
]
CASES = [*(case["event"] for case in EVENT_FILES), *LATER]


def tables(value: Any) -> Iterator[dict[str, Any]]:
    """Every event inside of one."""
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from tables(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from tables(inner)


def imported(document: Any, stated: Asserted = STATED) -> Any:
    return read_text(file_of_json(json.dumps(document).encode(), stated, "f.json"), "f.json")


def taken(document: Any) -> bool:
    """Whether it is taken; any other error than a refusal passes."""
    try:
        imported(document)
    except (InputError, InvalidFile):
        return False
    return True


def wrapper() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(event_json(pipeline(entry("gaussian", noise_multiplier=2.0, rate=0.1), delta=1e-6)))
    return found


def misspelt(name: str, rng: random.Random) -> str:
    place = rng.randrange(len(name))
    return rng.choice([name[:place] + name[place + 1 :], name[:place] + "u" + name[place:], name.upper(), name + "s"])


@pytest.mark.parametrize("bare", [False, True], ids=["as exported", "without dpcli's part"])
def test_a_field_beside_the_event_is_known_or_refused(bare: bool) -> None:
    """Every field of the wrapper spelt otherwise, and every field of an event in the wrong place."""
    rng, document = random.Random(SEED), wrapper()
    if bare:
        del document["pipeline"]
    assert taken(document)
    fields = {field for needed, optional in EVENTS.values() for field in (*needed, *optional)} - {"event"}
    strange = [*fields, "neighbouring_relation", *(misspelt(name, rng) for name in document for _ in range(4) if name != "event")]
    for name in set(strange) - set(document):
        for value in (1, "REPLACE_ONE", None, GAUSSIAN):
            with pytest.raises(InputError) as refused:
                imported({**document, name: value})
            assert "f.json: " in str(refused.value) and name[:60] in str(refused.value), (SEED, name)


def test_a_field_in_any_event_is_known_or_refused() -> None:
    for case in CASES:
        for place in range(len(list(tables(case)))):
            for name, value in (("unheard_of", 1), ("neighboring_relation", "REPLACE_ONE"), ("pipeline", {}), ("schema", "x")):
                document = copy.deepcopy(case)
                list(tables(document))[place][name] = value
                with pytest.raises(InputError, match=name):
                    imported(document)


def test_a_class_has_one_name_and_one_home() -> None:
    for case in CASES:
        for place in range(len(list(tables(case)))):
            for name, value in (("class_name", "LaplaceDpEvent"), ("class_name", None), ("module_name", "mine.dp_event")):
                document = copy.deepcopy(case)
                table = list(tables(document))[place]
                if table["type"] != value:
                    table[name] = value
                    assert not taken(document), (case, name)
    for names in ({"class_name": "GaussianDpEvent"}, {"module_name": "dp_accounting.dp_event"}):
        assert imported({**GAUSSIAN, **names}).mechanisms == imported(GAUSSIAN).mechanisms


def doubled(value: Any, chosen: list[int]) -> str:
    """As JSON, with one field there twice: chosen counts down to it."""
    if isinstance(value, list):
        return "[" + ", ".join(doubled(each, chosen) for each in value) + "]"
    if not isinstance(value, dict):
        return json.dumps(value)
    pairs = []
    for key, each in value.items():
        text = f"{json.dumps(key)}: {doubled(each, chosen)}"
        pairs += [text] * (2 if chosen[0] == 0 else 1)
        chosen[0] -= 1
    return "{" + ", ".join(pairs) + "}"


def count(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sum(map(count, inner)) + (len(value) if isinstance(value, dict) else 0)


STATE = {"history": [[1.1, 0.01, 100]], "mechanism": "rdp"}
VECTORS = {path.stem: json.loads(path.read_text()) for path in (ROOT / "tests" / "vectors" / "peers").glob("*.json")}
DOCUMENTS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "dp-accounting": (CASES[16], ("--adjacency", "add-remove")),
    "opacus": ({"a": {"b": 1}, "accountant": STATE}, ()),
    "jax-privacy": (VECTORS["jax_privacy"][0]["config"], ("--sampling", "poisson")),
    "opendp": (VECTORS["opendp"][0]["accountant"], ("--unit", "user")),
    "tumult": (VECTORS["tumult"][0]["session"], ("--unit", "user")),
}


@pytest.mark.parametrize("tool", DOCUMENTS)
def test_a_field_that_is_there_twice_is_refused_wherever_it_is(tool: str, tmp_path: Path) -> None:
    """Also with the same value, as of two only one is seen."""
    (document, words), path = DOCUMENTS[tool], tmp_path / "f.json"
    path.write_text(json.dumps(document))
    assert run("import", tool, str(path), *words).code == 0
    for place in range(count(document)):
        path.write_text(doubled(document, [place]))
        done = run("import", tool, str(path), *words)
        assert done.code == 2 and "found it twice" in done.err and str(path) in done.err, done.err


VALUES: list[Any] = [
    *(None, True, "1.0", "inf", "nan", [], [[]], [["a", "b"]], [0.5], {}, GAUSSIAN, [GAUSSIAN], -1, 0, 1, 1.5),
    *(math.nan, math.inf, -math.inf, 10**19, 10**400, -(10**400), 1e301, 1e308, 1e-310, 5e-324, 1 - 2**-53),
]


@pytest.mark.parametrize("adjacencies", [1, pytest.param(len(RELATIONS), marks=pytest.mark.long)])
def test_no_value_of_any_field_is_a_bug_of_ours(adjacencies: int) -> None:
    """Each field of each event of each case, under one adjacency in turn, or under all: taken or refused."""
    assert {table["type"] for case in CASES for table in tables(case)} >= {
        name for name, (needed, _) in EVENTS.items() if needed and name != "SampledWithReplacementDpEvent"
    }
    fields = [(case, place, name) for case in CASES for place, table in enumerate(tables(case)) for name in table]
    for number, (case, place, name) in enumerate(fields):
        for turn, value in enumerate(VALUES, number):
            document = copy.deepcopy(case)
            list(tables(document))[place][name] = value
            for adjacency in [*RELATIONS, *RELATIONS][turn % len(RELATIONS) :][:adjacencies]:
                with suppress(InputError, InvalidFile):
                    imported(document, Asserted(adjacency=adjacency, delta=1e-6))


def listed(event: Any) -> Any:
    """As json.dump writes the named tuple of an event: the names of its module and class, and its values in their order."""
    if isinstance(event, list):
        return [listed(each) for each in event]
    if not isinstance(event, dict):
        return event
    needed, optional = EVENTS[event["type"]]
    return ["dp_accounting.dp_event", event["type"], *(listed(event[field]) for field in (*needed, *optional))]


WHOLE = [
    case for case in CASES if all({*table} >= {*EVENTS[table["type"]][0], *EVENTS[table["type"]][1]} for table in tables(case))
]


def test_named_tuples_as_json_are_the_events(tmp_path: Path) -> None:
    assert len(WHOLE) > 20
    for case in WHOLE:
        assert imported(listed(case)).mechanisms == imported(case).mechanisms
        needed, optional = EVENTS[case["type"]]
        inner = {field: listed(case[field]) for field in (*needed, *optional)}
        head = {"module_name": "dp_accounting.dp_event", "class_name": case["type"]}
        assert imported({**head, **inner}).mechanisms == imported(case).mechanisms  # json.dump(event.to_named_tuple()._asdict())
        for wrong in (listed(case)[:-1], [*listed(case), 1], ["mine", *listed(case)[1:]]):
            assert not taken(wrong) or case["type"] == "NoOpDpEvent"


@of_each(
    "text",
    [
        "",
        "x",
        "GaussianDpEvent(noise_multiplier=1.0)",
        "1",
        "{}",
        "[]",
        '{"event": {"noise_multiplier": 1.1}, "count": 9}',
        "[1, 2]",
    ],
)
def test_what_is_no_event_is_told_how_to_write_one(text: str, tmp_path: Path) -> None:
    path = tmp_path / "event.json"
    path.write_text(text)
    done = run("import", "dp-accounting", str(path), "--adjacency", "add-remove")
    assert done.code == 2 and str(path) in done.err
    assert "json.dump(event.to_named_tuple(), file)" in done.err


def test_the_python_that_is_shown_makes_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = run("import", "dp-accounting", "-", stdin=b"x").err
    code = textwrap.dedent("\n".join(told.splitlines()[1:]))
    tuple_of = namedtuple("tuple_of", ["module_name", "class_name", "noise_multiplier"])

    class Event:
        def to_named_tuple(self) -> Any:
            return tuple_of("dp_accounting.dp_event", "GaussianDpEvent", 1.5)

    monkeypatch.chdir(tmp_path)
    exec(code, {"event": Event()})
    done = run("import", "dp-accounting", str(tmp_path / "event.json"), "--adjacency", "add-remove", "--delta", "1e-6")
    assert done.code == 0 and dpcli.account(read_text(done.out, "x")).upper > 1.0
