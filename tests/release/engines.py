"""Where a table may stand, with the servers that some places need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.release.places import PLACES

SECRET = bytes(range(32))


def everywhere(spark: str) -> list[Any]:
    """Every place. Spark's are dear: one of them is long, and the other nightly."""
    dear = {place: pytest.mark.long if place == spark else pytest.mark.nightly for place in PLACES if place.startswith("spark")}
    return [pytest.param(place, marks=[dear[place]] if place in dear else []) for place in PLACES]


def cluster_of(place: str, request: pytest.FixtureRequest) -> Any:
    if place.startswith("spark"):
        request.getfixturevalue("spark_session")
    return request.getfixturevalue("release_cluster") if place == "postgres" else None


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder
