"""Fixtures with one small training run, of whose folder each test gets a copy."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import pytest

from tests.command import dpcli
from tests.train.samples import FILE

RUN = "runs/tiny"


@pytest.fixture(scope="package")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    (folder / "tiny.toml").write_text(FILE.replace("logistic", "mlp").replace("learning_rate", "shift = 0.25\nlearning_rate"))
    with contextlib.chdir(folder):
        assert dpcli("train", "tiny.toml", folder=folder).code == 0
        assert dpcli("attest", RUN, folder=folder).code == 0
    return folder / RUN


@pytest.fixture
def run(left: Path, tmp_path: Path) -> Path:
    """Return a copy of the run without the training file."""
    return Path(shutil.copytree(left, tmp_path / "moved"))
