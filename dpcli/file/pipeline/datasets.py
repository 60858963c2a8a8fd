"""Names of datasets, the grouping of pipelines by dataset, and the window of blocks that a pipeline reads.

A *dataset* is a name for data about the same people: a ledger and `dpcli account` add up the costs of the pipelines that state it in
privacy.dataset. A *block* is a part of a dataset, such as a day, and a *window* is the list of blocks that one run reads (privacy.window).
This module refuses names that look alike, since one dataset under two names would have two budgets. The reader of files checks that a
window is not empty; that all records of a run lie in it is a premise (UNCHECKED), unless a command selects the rows itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from dpcli.base.errors import InputError
from dpcli.file.pipeline.model import Pipeline, Privacy
from dpcli.file.toml.confusables import mixed_scripts, skeleton, unusual_characters
from dpcli.file.toml.findings import Problem
from dpcli.file.toml.shown import quoted

# Both limits are arbitrary, and affect no number.
LONGEST_NAME = 100  # largest number of characters of a dataset's name
MOST_SHOWN = 8  # largest number of blocks that a sentence names
# How a ledger's message about blocks begins and ends if it refers to the flag --window; `without_flag` replaces both.
WINDOW_FLAG, FLAG_HINT = "--window: ", ", or by this flag of a command that charges a run"
UNCHECKED = "dpcli did not check that all records lie in the window"  # printed where a window narrows what is charged


def dataset_problems(name: str) -> Iterator[Problem]:
    """Yield the problems of a dataset's name.

    A name has one script and usual letters. `by_dataset` and the gate compare names by their `skeleton`, which is equal for names that look
    alike.
    """
    key = ("privacy", "dataset")
    is_spaced_well = name == " ".join(name.split())
    if len(name) > LONGEST_NAME or not name.isprintable() or not is_spaced_well or not skeleton(name):  # "": nothing visible
        expected = f"a name of at most {LONGEST_NAME} visible characters, without spaces at its ends or two in a row"
        yield key, expected, quoted(name[:LONGEST_NAME])
    elif scripts := mixed_scripts(name):
        yield key, "a name in one script", f"{name!a} in {' and '.join(map(str.capitalize, scripts))}"
    elif unusual_characters(name):
        yield key, "a name in ASCII or in letters of a script in use today", ascii(name)


def by_dataset(pipelines: Iterable[Pipeline]) -> dict[str, tuple[Pipeline, ...]]:
    """Return the pipelines of each dataset, in their order. Pipelines that name no dataset are left out.

    Raises InputError if two names look alike, or files of one dataset differ in the unit or the adjacency.
    """
    result: dict[str, list[Pipeline]] = {}
    for pipeline in pipelines:
        if pipeline.privacy.dataset is not None:
            result.setdefault(pipeline.privacy.dataset, []).append(pipeline)
    _require_distinct_names(result)
    for name, members in result.items():
        for member in members[1:]:
            _require_same_guarantee(name, members[0], member)
    return {name: tuple(members) for name, members in result.items()}


def _require_distinct_names(groups: dict[str, list[Pipeline]]) -> None:
    """Raise InputError if two names of datasets look alike."""
    by_skeleton: dict[str, str] = {}
    for name, (first, *_) in groups.items():
        earlier = by_skeleton.setdefault(skeleton(name), name)
        if earlier != name:
            raise InputError(
                f"{first.path}: privacy.dataset: expected {earlier!a}, as in {groups[earlier][0].path}, or a name that does not look "
                f"like it, found {name!a}"
            )


def _require_same_guarantee(dataset: str, first: Pipeline, other: Pipeline) -> None:
    """Raise InputError if two files of one dataset differ in the unit or the adjacency."""
    comparisons = {
        "unit": (first.privacy.unit, other.privacy.unit),
        "adjacency": (first.privacy.adjacency.value, other.privacy.adjacency.value),
    }
    for key, (expected, actual) in comparisons.items():
        if expected != actual:
            raise InputError(
                f"{other.path}: privacy.{key}: expected {_word(expected)}, as {first.path} has for dataset {quoted(dataset)}, "
                f"found {_word(actual)}: the costs of such files cannot be added up"
            )


def _word(value: str | None) -> str:
    """Return a value for a message; "none" if the file does not state it."""
    return "none" if value is None else quoted(value)


def window_words(privacy: Privacy) -> str:
    """Return the window in words, such as `2026-01-01..2026-01-28 of "visits"`; "" if the file states none."""
    if privacy.window is None:
        return ""
    blocks = blocks_words(privacy.window)
    return blocks if privacy.dataset is None else f'{blocks} of "{privacy.dataset}"'


def without_flag(text: str, name: str = "privacy.window", instead: str = "") -> str:
    """Return a ledger's message about blocks without its references to --window, for a command that lacks this flag.

    Args:
        name: Name of the window in the new message.
        instead: Text that replaces the hint at the flag.
    """
    import re

    *place, message = re.split(r"(:\d+: )", text, maxsplit=1)  # messages about a history begin with its path and line
    if message.startswith(WINDOW_FLAG):
        message = f"{name}: {message.removeprefix(WINDOW_FLAG)}"
    if message.endswith(FLAG_HINT):
        message = message.removesuffix(FLAG_HINT) + instead
    return "".join(place) + message


def blocks_words(blocks: Sequence[str]) -> str:
    """Return the first blocks in words, and the number of the others."""
    omitted = len(blocks) - MOST_SHOWN
    return ", ".join(blocks) if omitted <= 0 else f"{', '.join(blocks[:MOST_SHOWN])} and {omitted:,} more"


def window_data(privacy: Privacy) -> dict[str, Any]:
    """Return the window as JSON data; an empty table if the file states none."""
    return {} if privacy.window is None else {"window": list(privacy.window)}
