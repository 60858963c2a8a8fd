"""Each test of a watch runs in a folder with own.toml, a file that declares Poisson samples of the records in samples.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.train.watch.samples import POISSON


@pytest.fixture(autouse=True)
def own_file(folder: Path) -> None:
    (folder / "own.toml").write_text(POISSON)
