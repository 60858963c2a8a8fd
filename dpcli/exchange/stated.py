"""What no library keeps of a run, and somebody states: whose data they are, and at which delta."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from dpcli.base.errors import InputError
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import parse
from dpcli.file.toml.limits import MAX_BYTES
from dpcli.file.toml.write import commented

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
    "unit": '# unit = "example"  # who is protected: NOT STATED. Any other unit needs max_contributions',
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
        InputError: it would be larger than a file may be. InvalidFile: the reader refuses it.
    """
    lines = [f"# {line}" for line in heading]
    written = list(commented(tables, comments, COLUMN))
    _require_room(sum(len(line) + 1 for line in written), place)
    for line in written:
        lines += laid_out(line)
        if line == "[privacy]":
            lines += [words for key, words in MISSING.items() if key not in tables["privacy"]]
    text = "\n".join(lines) + "\n"
    _require_room(len(text.encode()), place)
    read_text(text, place)
    return text


def _require_room(size: int, place: str) -> None:
    if size > MAX_BYTES:
        raise InputError(
            f"{place}: expected what fits into a pipeline file of {MAX_BYTES // 1024:,} KiB, found {-(-size // 1024):,} KiB: "
            "some 50,000 numbers with all of their digits fit, more where they have fewer (noise rounded down)"
        )


def read_text(text: str, place: str) -> Pipeline:
    """The pipeline of such a text, as every file is read. Raises InvalidFile where the reader refuses it."""
    return parse(text.encode(), place)
