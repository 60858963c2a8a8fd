"""The JSON Schema agrees with the reader."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from dpcli.file.pipeline.key_places import json_schema

from .samples import GOOD, changed

ROOT = Path(__file__).parent.parent.parent
SCHEMA = json_schema()
VALIDATOR = Draft202012Validator(SCHEMA)


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
