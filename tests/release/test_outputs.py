"""Paths of outputs: none may be among the files of the data (engines/source_files.py)."""

from __future__ import annotations

import os
from pathlib import Path

from dpcli.release.engines.source_files import matching, would_match
from tests.cases import of_each

PATTERNS = (
    "*.csv",
    "visits/*.csv",
    "visits/*",
    "v*/a?.csv",
    "**/*.csv",
    "**",
    "deep/**/[ab].csv",
    "link/*.csv",
    "./visits/../visits/*.csv",
)
PLACES = (
    "a.csv",
    "visits/a.csv",
    "visits/a1.csv",
    "visits/a.txt",
    "deep/er/b.csv",
    "link/c.csv",
    "visits/../d.csv",
    "dangling.csv",
)


def folder_of_links(tmp_path: Path) -> Path:
    """With folders, a link to one, and a link to a file that is not there."""
    (tmp_path / "visits").mkdir()
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "link").symlink_to("visits")
    (tmp_path / "dangling.csv").symlink_to("visits/later.csv")
    return tmp_path


@of_each("pattern", PATTERNS)
@of_each("absolute", [False, True])
def test_what_a_pattern_would_find_is_told_before_it_is_there(pattern: str, absolute: bool, tmp_path: Path) -> None:
    """And nothing else is."""
    folder = folder_of_links(tmp_path)
    asked = str(folder / pattern) if absolute else pattern
    for place in PLACES:
        path = str(folder / place)
        foretold = would_match(path, asked, str(folder))
        Path(path).write_text("x")
        found = os.path.realpath(path) in map(os.path.realpath, matching(asked, str(folder)))
        os.remove(os.path.realpath(path))
        assert foretold == found, place


def test_a_pattern_in_a_folder_with_signs_of_patterns(tmp_path: Path) -> None:
    odd = tmp_path / "a[b]*"
    odd.mkdir()
    assert would_match(str(odd / "x.csv"), "*.csv", str(odd)) and not would_match(str(tmp_path / "x.csv"), "*.csv", str(odd))
