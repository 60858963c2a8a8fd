"""Names of datasets, the pipelines that read the same one, and the window of its blocks that a pipeline reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import InputError
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.toml.findings import Problem
from dpcli.file.toml.looks import looks, mixed_scripts, unusual_characters
from dpcli.file.toml.shown import quoted

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Privacy


LONGEST_NAME = 100  # characters of a name


def dataset_problems(name: str) -> Iterator[Problem]:
    """Yield the faults of a dataset's name: the same data under a second name would be added up separately."""
    key = ("privacy", "dataset")
    if len(name) > LONGEST_NAME or not name.isprintable() or name != " ".join(name.split()) or not looks(name):
        yield (
            key,
            f"a name of at most {LONGEST_NAME} visible characters, without spaces at its ends or two in a row",
            quoted(name[:LONGEST_NAME]),
        )
    elif mixed_scripts(name):
        yield key, "a name in one script", f"{name!a} in {' and '.join(script.capitalize() for script in mixed_scripts(name))}"
    elif unusual_characters(name):
        yield key, "a name in ASCII or in letters of a script in use today", ascii(name)


def by_dataset(pipelines: Iterable[Pipeline]) -> dict[str, tuple[Pipeline, ...]]:
    """Return the pipelines of each dataset, in their order; those that name none are left out.

    Raises:
        InputError: Two names that look alike, or files of one dataset that protect different units or compare different neighbours.
    """
    result: dict[str, list[Pipeline]] = {}
    for pipeline in pipelines:
        if pipeline.privacy.dataset is not None:
            result.setdefault(pipeline.privacy.dataset, []).append(pipeline)
    _require_apart(result)
    for name, members in result.items():
        for member in members[1:]:
            _require_same(name, members[0], member)
    return {name: tuple(members) for name, members in result.items()}


def _require_apart(groups: dict[str, list[Pipeline]]) -> None:
    seen: dict[str, str] = {}
    for name, (first, *_) in groups.items():
        alike = seen.setdefault(looks(name), name)
        if alike != name:
            raise InputError(
                f"{first.path}: privacy.dataset: expected {alike!a}, as in {groups[alike][0].path}, or a name that does not look "
                f"like it, found {name!a}"
            )


def _require_same(dataset: str, first: Pipeline, other: Pipeline) -> None:
    mine, its = first.privacy, other.privacy
    for key, expected, actual in (
        ("unit", mine.unit, its.unit),
        ("adjacency", mine.adjacency.value, its.adjacency.value),
    ):
        if expected != actual:
            raise InputError(
                f"{other.path}: privacy.{key}: expected {_word(expected)}, as {first.path} has for dataset {quoted(dataset)}, "
                f"found {_word(actual)}: what they release cannot be added up"
            )


def _word(value: str | None) -> str:
    return "none" if value is None else quoted(value)


SHOWN = 8  # blocks of a window that a sentence names
FLAG, HINT = "--window: ", ", or by this flag of a command that charges a run"  # words of a ledger's messages
UNCHECKED = "that records lie in the window is stated, not checked"


def window_words(privacy: Privacy) -> str:
    """`2026-01-01..2026-01-28 of "visits"`; "" if no window is stated."""
    of = "" if privacy.dataset is None else f' of "{privacy.dataset}"'
    return "" if privacy.window is None else f"{blocks_words(privacy.window)}{of}"


def without_flag(text: str, name: str = "privacy.window", instead: str = "") -> str:
    """Return a ledger's message about blocks in the words of a command without --window; quotes of files stay.

    Args:
        name: What the message calls the window.
        instead: Instead of the hint at the flag.
    """
    import re

    *place, message = re.split(r"(:\d+: )", text, maxsplit=1)  # a history's are of a line in a file
    if message.startswith(FLAG):
        message = f"{name}: {message.removeprefix(FLAG)}"
    return "".join(place) + (f"{message.removesuffix(HINT)}{instead}" if message.endswith(HINT) else message)


def blocks_words(blocks: Sequence[str]) -> str:
    """Return the first blocks in words, and how many more there are."""
    more = len(blocks) - SHOWN
    return ", ".join(blocks) if more <= 0 else f"{', '.join(blocks[:SHOWN])} and {more:,} more"


def window_data(privacy: Privacy) -> dict[str, Any]:
    """Return the window for JSON data; nothing if none is stated."""
    return {} if privacy.window is None else {"window": list(privacy.window)}
