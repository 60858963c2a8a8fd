"""What no library keeps of a run, and somebody states: whose data they are, and at which delta."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from dpcli.pipeline.model import Pipeline
from dpcli.pipeline.read import parse
from dpcli.toml.write import commented

COLUMN = 40  # where comments begin


@dataclass(frozen=True, slots=True, kw_only=True)
class Asserted:
    """[privacy], as far as it is stated; None where a key is not."""

    adjacency: str | None = None
    unit: str | None = None
    max_contributions: int | None = None
    dataset_size: int | None = None
    delta: float | None = None

    @property
    def table(self) -> dict[str, Any]:
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not None}


# What a file says in place of a key that nobody has stated.
MISSING = {
    "unit": '# unit = "example"  # who is protected: NOT STATED. "user" needs max_contributions',
    "delta": "# delta = 1e-6  # NOT STATED: well below 1 / number of records; or account --delta",
    "dataset_size": "# dataset_size = 60_000  # NOT STATED: number of records, if that is public",
}


def as_it_is(line: str) -> Iterable[str]:
    return (line,)


def file_of(
    tables: Mapping[str, Any],
    heading: tuple[str, ...],
    comments: Mapping[str, str],
    place: str,
    laid_out: Callable[[str], Iterable[str]] = as_it_is,
) -> str:
    """The file of these tables, read again and found good, with comments: a heading, those on keys, and what [privacy] does not say.

    Args:
        place: what messages call it.
        laid_out: the lines of one that is written.

    Raises:
        InvalidFile: the reader refuses it.
    """
    lines = [f"# {line}" for line in heading]
    for line in commented(tables, comments, COLUMN):
        lines += laid_out(line)
        if line == "[privacy]":
            lines += [words for key, words in MISSING.items() if key not in tables["privacy"]]
    text = "\n".join(lines) + "\n"
    read_text(text, place)
    return text


def read_text(text: str, place: str) -> Pipeline:
    """The pipeline of such a text, as every file is read. Raises InvalidFile where the reader refuses it."""
    return parse(text.encode(), place)
