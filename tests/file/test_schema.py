"""The JSON Schema agrees with the reader."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from dpcli.base.fields import Key
from dpcli.file.keys.annotations import members_of
from dpcli.file.pipeline.key_places import json_schema
from dpcli.file.pipeline.model import Budget, Entry, Gate, Privacy
from dpcli.file.pipeline.section import MECHANISMS, SAMPLING

from .samples import BAD, GOOD, changed

ROOT = Path(__file__).parent.parent.parent
SCHEMA = json_schema()
VALIDATOR = Draft202012Validator(SCHEMA)
# What a schema cannot see: JSON's integers include 5.0, and the reader's own words about text.
READER_ONLY = {f"range-{what}" for what in ("ansi-name", "bidi-name", "newline-name")}
NOT_JSON = {"range-nan", "range-infinite", "range-1e400", "range-count-nan", "range-huge-integer"}
JUDGED = [
    path
    for path in BAD
    if path.stem.startswith(("type-", "range-", "unknown-", "missing-")) and path.stem not in READER_ONLY | NOT_JSON
    if path.stem not in {"type-calibrate", "type-float-as-count", "type-date-as-number"}
    if path.stem not in {"missing-max-contributions", "missing-dataset-size", "missing-sensitivity", "missing-rate"}
]


@pytest.mark.long
def test_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_takes_the_good_file() -> None:
    VALIDATOR.validate(tomllib.loads(GOOD))
    VALIDATOR.validate(tomllib.loads(changed("noise_multiplier = 1.12", 'noise_multiplier = "calibrate"')))


def test_takes_the_examples() -> None:
    """As an editor sees them: JSON has no dates, and writes them as text."""
    texts = {path.stem: tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(ROOT.glob("examples/*.toml"))}
    documents = {name: json.loads(json.dumps(document, default=str)) for name, document in texts.items()}
    assert documents
    errors = {name: [error.message for error in VALIDATOR.iter_errors(document)] for name, document in documents.items()}
    assert {name: found for name, found in errors.items() if found} == {}


def test_some_bad_files_are_judged() -> None:
    assert len(JUDGED) >= 40


def test_refuses_bad_files() -> None:
    assert [path.stem for path in JUDGED if VALIDATOR.is_valid(tomllib.loads(path.read_text(encoding="utf-8")))] == []


def properties(schema: Any) -> Iterator[tuple[str, Any]]:
    """Every property anywhere in a schema, by name."""
    if isinstance(schema, dict):
        yield from schema.get("properties", {}).items()
        for value in schema.values():
            yield from properties(value)
    if isinstance(schema, list):
        for value in schema:
            yield from properties(value)


def test_every_key_is_there_with_its_meaning() -> None:
    classes = [members_of(cls) for cls in (Privacy, Budget, Gate, Entry)]
    classes += [choice.own(name) for choice in (MECHANISMS, SAMPLING) for name in choice.registry]
    described = {(name, schema.get("description")) for name, schema in properties(SCHEMA)}
    for members in classes:
        for member in members.values():
            assert (member.name, member.doc) in described


def test_every_key_has_a_meaning() -> None:
    assert Key("x").doc == "x"
    for cls in (Privacy, Budget, Gate, Entry):
        assert all(member.doc for member in members_of(cls).values())
