"""Tests of every key of every table, found from the annotations: misspelt, of a wrong kind or out of range, it is refused at its place.

The refusals come from `lint`, from the reader of `account` and `gate`, and from the JSON Schema.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from dpcli.file.keys.kinds import Day, Either, Flag, Kind, Listed, Named, Number, Opaque, WholeNumber
from dpcli.file.keys.tables import KeyTable, Member, Members, SelectedTable
from dpcli.file.keys.tables import plain as plain_value
from dpcli.file.keys.words import OneOf, Text
from dpcli.file.pipeline.canonical import TOP, MechanismTable
from dpcli.file.pipeline.key_places import json_schema, policy_schema
from dpcli.file.pipeline.key_places import tables as known_tables
from dpcli.file.pipeline.read import parse
from dpcli.file.pipeline.section import MECHANISM_TYPES, SAMPLING_SCHEMES, SectionTable
from dpcli.file.toml.findings import Diagnostic, InvalidFile, Path
from dpcli.file.toml.shown import key_text
from dpcli.gate.policy import KEYS, read_policy_bytes
from dpcli.lint.run import lint_bytes
from dpcli.train.plugin import STYLES, TASKS
from tests.inline import text_of

TEXTS = ("a", "a:b", "cpu", "{text}", "logistic", "a.csv", "the caller's")  # of which every rule takes one, and refuses one
NUMBERS = (0.5, 1, 2, 0.75, 0.6, 3)  # of which every rule takes one
OUTSIDE = (-1.0, -7, 0, 1.5, 10**19, 1e9)  # of which every rule refuses one


@dataclass(frozen=True)
class Spot:
    """A table of a file: where it stands, what it may hold, and a file that has it."""

    path: Path
    members: Members
    document: dict[str, Any]


def sample(member: Member) -> Any:
    """A value that the key takes."""
    return _sample(member.kind, member)


def _sample(kind: Kind, member: Member) -> Any:
    match kind:
        case Number() | WholeNumber():
            fits = member.rule.holds if member.rule else lambda _: True
            return next(x for x in NUMBERS if fits(x) and (isinstance(kind, Number) or type(x) is int))
        case OneOf():
            return next(iter(kind.values))
        case Flag():
            return True
        case Day():
            return datetime.date(2031, 1, 2)
        case Listed():
            return [_sample(kind.item, member)]
        case Named():
            return {"a": _sample(kind.item, member)}
        case Either():
            return _sample(kind.scalar, member)
        case KeyTable():
            return minimal(kind.members)
        case SectionTable():
            return _sample(kind.table, member)
        case SelectedTable():
            name = next(iter(kind.registry))
            return {**minimal(kind.members(name)), kind.selector: name}
        case Opaque():
            return {"a": [1]}
    return next(text for text in TEXTS if member.rule is None or member.rule.holds(text))


def minimal(members: Members) -> dict[str, Any]:
    """The keys that a table cannot do without."""
    return {name: sample(member) for name, member in members.items() if member.required}


def placed(document: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """A copy with another value at a path."""
    copy = deepcopy(document)
    inner: Any = copy
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    return copy


def tables(path: Path, members: Members, document: dict[str, Any]) -> Iterator[Spot]:
    """This table and all tables in it, each in a file of its own."""
    yield Spot(path, members, document)
    for name, member in members.items():
        yield from inside((*path, name), member, member.kind, document)


def inside(path: Path, member: Member, kind: Kind, document: dict[str, Any]) -> Iterator[Spot]:
    match kind:
        case SectionTable():
            yield from inside(path, member, kind.table, document)
        case KeyTable():
            yield from tables(path, kind.members, placed(document, path, minimal(kind.members)))
        case Listed():
            yield from inside((*path, 0), member, kind.item, placed(document, path, [_sample(kind.item, member)]))
        case Either():
            yield from inside(path, member, kind.several, document)
        case SelectedTable():
            for name in kind.registry:
                known = kind.members(name)
                yield from tables(path, known, placed(document, path, {**minimal(known), kind.selector: name}))


def pipelines() -> Iterator[Spot]:
    privacy = {"adjacency": "add-remove", "unit": "example", "dataset_size": 1000, "delta": 1e-5, "releases": "final-model"}
    base: dict[str, Any] = {
        "format": 1,
        "privacy": privacy,
        "mechanism": [{"name": "a", "type": "gaussian", "noise_multiplier": 1.5, "steps": 2}],
    }
    yield from tables((), {name: member for name, member in TOP.items() if name != "mechanism"}, base)
    for name in MECHANISM_TYPES.registry:
        members = MechanismTable().members(name)
        entry = {**minimal(members), "type": name}
        yield from tables(("mechanism", 1), members, {**base, "mechanism": [*base["mechanism"], entry]})


def policies() -> Iterator[Spot]:
    yield from tables((), KEYS, {"format": 1, "epsilon": 2.0, "max_increase": 0.1})


PIPELINES, POLICIES = list(pipelines()), list(policies())


def misspelt(word: str, members: Members, random: Random) -> str:
    """The word with one letter too many, too few, exchanged, or another one; never a known key."""
    while True:
        at = random.randrange(len(word))
        letter = random.choice("abcdefghijklmnopqrstuvwxyz")
        wrong = random.choice(
            [
                word[:at] + letter + word[at:],
                word[:at] + word[at + 1 :],
                word[:at] + letter + word[at + 1 :],
                word[:at] + word[at:][::-1],
            ]
        )
        if wrong and wrong not in members and wrong not in KEYS and wrong not in TOP:
            return wrong


WRONG_KINDS: Mapping[type[Any], Any] = {Number: "x", WholeNumber: "x", Flag: "yes", Day: "soon", OneOf: 3, Listed: 3, Opaque: 3}


def of_wrong_kind(member: Member) -> Any:
    return next((value for kind, value in WRONG_KINDS.items() if isinstance(member.kind, kind)), 3)


def out_of_range(member: Member) -> tuple[Any, ...]:
    """A value of the right kind that the key refuses, where there is one that JSON knows of."""
    kind = member.kind
    if isinstance(kind, Listed):
        return tuple([value] for value in out_of_range(Member(member.name, kind.item, member.rule)))
    if isinstance(kind, OneOf):
        return ("zzz",)
    if member.rule is not None and isinstance(kind, Text):
        return tuple(text for text in TEXTS if not member.rule.holds(text))[:1]
    if member.rule is None or not isinstance(kind, Number | WholeNumber):
        return ()
    rule, exact = member.rule, isinstance(kind, WholeNumber)
    return tuple(value for value in OUTSIDE if not rule.holds(value) and (type(value) is int or not exact))[:1]


def read_pipeline(data: bytes) -> None:
    parse(data, "file.toml")


def read_policy(data: bytes) -> None:
    read_policy_bytes(data, "file.toml")


def refused(read: Callable[[bytes], None], data: bytes) -> tuple[Diagnostic, ...]:
    """What is said of a file that should be refused; nothing where it is taken."""
    try:
        read(data)
    except InvalidFile as error:
        return error.diagnostics
    return ()


def key_of(path: Path, document: dict[str, Any]) -> str:
    names = {index: entry["name"] for index, entry in enumerate(document.get("mechanism", ()))}
    return key_text(path, {index: name for index, name in names.items() if isinstance(name, str)})


def plain(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return (
        [plain(inner) for inner in value] if isinstance(value, list) else str(value) if isinstance(value, datetime.date) else value
    )


def judged(table: Spot, path: Path, document: dict[str, Any], rules: set[str], policy: bool) -> Iterator[str]:
    """Who of the three does not refuse it at the key."""
    data, key = text_of(document), key_of(path, document)
    for name, found in (
        ("lint", lint_bytes(data, "file.toml")),
        ("the reader", refused(read_policy if policy else read_pipeline, data)),
    ):
        if not [d for d in found if d.rule in rules and d.severity == "error" and d.line and d.key.startswith(key)]:
            yield f"{key}, by {name}: {found}"
    validator = POLICY if policy else PIPELINE
    if not any(_at(error, table.path) for error in validator.iter_errors(plain(document))):
        yield f"{key} passes the schema"


PIPELINE, POLICY = Draft202012Validator(json_schema()), Draft202012Validator(policy_schema())


def _at(error: Any, path: Path) -> bool:
    """Whether a complaint of the schema, or one of those that it is made of, is about this table or something in it."""
    return tuple(error.absolute_path)[: len(path)] == path or any(_at(inner, path) for inner in error.context or ())


BOTH = [(table, False) for table in PIPELINES] + [(table, True) for table in POLICIES]
Asked = list[tuple[Spot, bool, str]]  # a table, whether it is one of a policy, and a key of it


def choice_of(table: Spot, policy: bool) -> tuple[Any, ...]:
    """What tells a table from others in the same place: the word that selects its keys."""
    value: Any = table.document
    for part in table.path:
        value = value[part]
    return policy, table.path, *(value.get(word) for word in ("type", "scheme", "task", "style", "measure"))


def each_once() -> Asked:
    """Each key of each place once, unless it means something else in another table there; of each table with each word that selects its
    keys at least one; in files of one mechanism type or task, the next one for the next table."""
    alike: dict[tuple[Any, ...], list[tuple[Spot, bool]]] = {}
    for table, policy in BOTH:
        alike.setdefault(choice_of(table, policy), []).append((table, policy))
    found, seen = [], set()
    for k, same in enumerate(alike.values()):
        table, policy = same[k % len(same)]
        keys = {name: (table.path, policy, repr(member)) for name, member in table.members.items()}
        new = [name for name, key in keys.items() if key not in seen] or list(keys)[-1:]
        seen.update(keys.values())
        found += [(table, policy, name) for name in new]
    return found


FEW, ALL = each_once(), [(table, policy, name) for table, policy in BOTH for name in table.members]
EACH = pytest.mark.parametrize("asked", [FEW, pytest.param(ALL, marks=pytest.mark.nightly)], ids=["once", "everywhere"])


def test_no_table_is_forgotten() -> None:
    found = {tuple(part for part in table.path if isinstance(part, str)) for table in PIPELINES}
    assert found >= {(), ("privacy",), ("budget",), ("gate",), ("gate", "waiver"), ("gate", "horizon"), ("disclosure",), ("train",)}
    assert found >= {
        ("train", "clipping"),
        ("train", "lora"),
        ("train", "covers"),
        ("audit",),
        ("sweep",),
        ("mechanism", "partition"),
    }
    assert {table.path for table in POLICIES} >= {(), ("rule", 0), ("waiver", 0), ("horizon",)}
    assert {str(kind) for kind in MECHANISM_TYPES.registry} == {
        table.document["mechanism"][1]["type"] for table in PIPELINES if table.path == ("mechanism", 1)
    }
    sampled = [table for table in PIPELINES if table.path == ("mechanism", 1, "sampling")]
    assert len(sampled) == len(MECHANISM_TYPES.registry) * len(SAMPLING_SCHEMES.registry)
    trained = [table.document["train"] for table in PIPELINES if table.path == ("train",)]
    assert [table["task"] for table in trained] == list(TASKS)
    clipped = [table.document["train"] for table in PIPELINES if table.path == ("train", "clipping")]
    assert [(table["task"], table["clipping"]["style"]) for table in clipped] == [
        (task, style) for task in TASKS for style in STYLES
    ]


def test_no_key_is_missing_where_manual_explain_and_completion_take_them_from() -> None:
    """Each key of each table, found here from the kinds of values, is found there with its meaning."""
    for spots, top in ((PIPELINES, TOP), (POLICIES, KEYS)):
        known = {(name, member.doc) for place in known_tables(top) for name, member in place.members.items()}
        assert {(name, member.doc) for table in spots for name, member in table.members.items()} <= known


@pytest.mark.long
@EACH
def test_a_misspelt_key_is_refused(asked: Asked) -> None:
    faults: list[str] = []
    for table, policy, name in asked:
        wrong = misspelt(name, table.members, Random(f"{table.path}/{name}"))
        document = placed(table.document, (*table.path, wrong), sample(table.members[name]))
        faults += judged(table, (*table.path, wrong), document, {"DP002"}, policy)
    assert faults == []


def schema_of(table: Spot, schema: Any) -> Any:
    """What the schema says of a table of a file, through the words that select it."""
    document: Any = table.document
    for part in table.path:
        schema, document = selected(schema, document), document[part]
        schema = schema["items"] if isinstance(part, int) else schema["properties"][part]
        schema = schema["oneOf"][1] if "oneOf" in schema else schema  # of a scalar or a table
    return selected(schema, document)


def selected(schema: Any, document: Mapping[str, Any]) -> Any:
    for case in schema.get("allOf", ()):
        ((selector, word),) = case["if"]["properties"].items()
        if document[selector] == word["const"]:
            return case["then"]
    return schema


def test_the_schema_has_every_key_with_its_meaning_and_default() -> None:
    """No default where the key must be stated, and none where its absence stands for no value that could be stated."""
    faults = [fault for table, policy in BOTH for fault in lacks(POLICY.schema if policy else PIPELINE.schema, table, policy)]
    assert faults == []


def lacks(schema: Any, table: Spot, policy: bool) -> Iterator[tuple[Any, ...]]:
    """Where the schema differs from the keys of a table: (place, what it says, what it should)."""
    found = schema_of(table, schema)
    members = {**table.members, "mechanism": TOP["mechanism"]} if table.path == () and not policy else table.members
    if found["properties"].keys() != members.keys():
        yield choice_of(table, policy), sorted(found["properties"]), sorted(members)
    needed = (
        schema_of(table, schema["then"]) if table.path[:1] == ("mechanism",) and len(table.path) == 2 else found
    )  # but for [defaults]
    required = {name for name, member in members.items() if member.required}
    if set(needed.get("required", ())) != required:
        yield choice_of(table, policy), needed.get("required"), required
    for name, member in members.items():
        stated = {key: found["properties"].get(name, {}).get(key) for key in ("description", "default")}
        meant = {"description": member.doc, "default": None if member.default is None else plain_value(member.default)}
        if stated != meant:
            yield choice_of(table, policy), name, stated, meant


@pytest.mark.long
@EACH
def test_a_value_of_a_wrong_kind_is_refused(asked: Asked) -> None:
    faults: list[str] = []
    for table, policy, name in asked:
        member, path = table.members[name], (*table.path, name)
        if type(member.kind).__name__ != "Unchecked":
            faults += judged(table, path, placed(table.document, path, of_wrong_kind(member)), {"DP003"}, policy)
    assert faults == []


@pytest.mark.long
@EACH
def test_a_value_out_of_range_is_refused(asked: Asked) -> None:
    faults: list[str] = []
    for table, policy, name in asked:
        path = (*table.path, name)
        for value in out_of_range(table.members[name]):
            faults += judged(table, path, placed(table.document, path, value), {"DP004"}, policy)
    assert faults == []


@pytest.mark.parametrize("name", ["federated", "source"])
def test_a_table_that_nothing_reads_is_refused(name: str) -> None:
    document = placed(PIPELINES[0].document, (name,), {"teachers": 3})
    assert list(judged(PIPELINES[0], (name,), document, {"DP002"}, policy=False)) == []
