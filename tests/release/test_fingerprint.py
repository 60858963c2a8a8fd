"""By what a folder knows its release again: a later version, too, answers what an earlier one stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dpcli.file.pipeline.read import parse, section
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.release.query_entries import asked
from dpcli.release.release_plan import ReleasePlan
from tests.inline import text_of
from tests.release.files import document, queries

KNOWN = Path(__file__).resolve().parent.parent / "vectors" / "release-fingerprints.json"


def fingerprint(adjacency: str, by_unit: bool, table: Any) -> str:
    data = text_of(document(table, adjacency=adjacency, by_unit=by_unit))
    pipeline = parse(data, "file.toml")
    source, query = section(data, "file.toml", "source"), section(data, "file.toml", "query")
    account: Any = None  # no part of it
    return ReleasePlan(
        "file.toml", pipeline, account, source, asked(source, query, pipeline.privacy, pipeline.budget)
    ).fingerprint()


@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE.value, Adjacency.REPLACE_ONE.value])
def test_a_release_that_was_stored_is_known_again(adjacency: str) -> None:
    """Its fingerprint holds the noise to the last bit: where that must change, so that what is stored is refused, record it anew.

    Not of costs that are solved for, whose last bit may depend on the machine.
    """
    stated = [(name, table) for name, table in queries() if "weight" not in table and "error" not in table]
    found = {name: [fingerprint(adjacency, by_unit, table) for by_unit in (True, False)] for name, table in stated}
    assert len(found) > 15 and found == json.loads(KNOWN.read_text())[adjacency]
