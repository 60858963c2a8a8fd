"""What a session has released: a line is there whole, or nothing of it is, and nobody is told that it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from dpcli.predict.prediction_session import add_line, whole_lines
from tests.cases import of_each


@of_each("written", [0, 1, 9])
def test_a_disk_that_takes_a_part_of_a_line_is_full(written: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "lines")
    add_line(path, {"number": 1})
    inner: Any = os.write
    monkeypatch.setattr(os, "write", lambda file, content: inner(file, content[:written]))
    with pytest.raises(OSError, match="No space left"):
        add_line(path, {"number": 2})
    monkeypatch.undo()
    add_line(path, {"number": 3})
    assert whole_lines(path) == [b'{"number": 1}', b'{"number": 3}']
