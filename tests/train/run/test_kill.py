"""kill -9 in the middle of a run, again and again: it ends with the right number of steps, no noise is drawn that was not charged, none
twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.train.run.killed import lived, require_kept


@pytest.mark.nightly
def test_a_run_that_is_killed_again_and_again(tmp_path: Path) -> None:
    life = lived(tmp_path, 3, seed=5)
    require_kept(life, tmp_path)
