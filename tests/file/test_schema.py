"""The JSON Schema agrees with the reader."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from dpcli.file.pipeline.key_places import json_schema

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
