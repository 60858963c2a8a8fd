"""Files that name one dataset: names that people tell apart, one unit and one adjacency."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dpcli.base.errors import InputError
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.toml.findings import Problem
from dpcli.file.toml.looks import looks, mixed, strange
from dpcli.file.toml.shown import quoted

MOST = 100  # characters of a name


def dataset_problems(name: str) -> Iterator[Problem]:
    """What is wrong with the name of a dataset: the same data under a second name would be added up apart."""
    key = ("privacy", "dataset")
    if len(name) > MOST or not name.isprintable() or name != " ".join(name.split()) or not looks(name):
        yield key, f"a name of at most {MOST} visible characters, without spaces at its ends or two in a row", quoted(name[:MOST])
    elif mixed(name):
        yield key, "a name in one script", f"{name!a} in {' and '.join(script.capitalize() for script in mixed(name))}"
    elif strange(name):
        yield key, "a name in ASCII or in letters of a script in use today", ascii(name)


def by_dataset(pipelines: Iterable[Pipeline]) -> dict[str, tuple[Pipeline, ...]]:
    """The pipelines of each dataset, in their order; those that name none are in none.

    Raises:
        InputError: two names that look alike, or files of one dataset that protect different units or compare different neighbours.
    """
    found: dict[str, list[Pipeline]] = {}
    for pipeline in pipelines:
        if pipeline.privacy.dataset is not None:
            found.setdefault(pipeline.privacy.dataset, []).append(pipeline)
    _require_apart(found)
    for name, members in found.items():
        for member in members[1:]:
            _require_same(name, members[0], member)
    return {name: tuple(members) for name, members in found.items()}


def _require_apart(found: dict[str, list[Pipeline]]) -> None:
    seen: dict[str, str] = {}
    for name, (first, *_) in found.items():
        alike = seen.setdefault(looks(name), name)
        if alike != name:
            raise InputError(
                f"{first.path}: privacy.dataset: expected {alike!a}, as in {found[alike][0].path}, or a name that does not look "
                f"like it, found {name!a}"
            )


def _require_same(dataset: str, first: Pipeline, other: Pipeline) -> None:
    mine, its = first.privacy, other.privacy
    for key, expected, found in (
        ("unit", mine.unit, its.unit),
        ("adjacency", mine.adjacency.value, its.adjacency.value),
    ):
        if expected != found:
            raise InputError(
                f"{other.path}: privacy.{key}: expected {_word(expected)}, as {first.path} has for dataset {quoted(dataset)}, "
                f"found {_word(found)}: what they release cannot be added up"
            )


def _word(value: str | None) -> str:
    return "none" if value is None else quoted(value)
