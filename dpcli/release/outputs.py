"""Where no output of a release may go: over what it reads or keeps, or among its data."""

from __future__ import annotations

import os
from collections.abc import Iterator

from dpcli.release.engines.files import matching, would_match
from dpcli.release.plan import ReleasePlan, here
from dpcli.release.store import ANSWERS, STATEMENT
from dpcli.sessions.charged import RUN
from dpcli.sessions.folder import LOCK


def kept_files(plan: ReleasePlan) -> tuple[str, ...]:
    """The file, what it names and what is kept in the folder of the release; folders that are made for that are no files either."""
    names = (ANSWERS, STATEMENT, RUN, LOCK)
    return (*_named(plan), *(os.path.join(plan.folder, name) for name in names), *_made(plan.folder))


def among_data(plan: ReleasePlan, path: str) -> bool:
    """Whether what is written there would be data when the file is asked again."""
    pattern = _pattern(plan)
    return pattern is not None and would_match(path, pattern, here(plan.path))


def _named(plan: ReleasePlan) -> Iterator[str]:
    """The file, its data, and its lists of values."""
    if plan.path != "-":
        yield plan.path
    pattern, folder = _pattern(plan), here(plan.path)
    if pattern is not None:
        yield from matching(pattern, folder)
    for column in plan.source.columns.values():
        if column.domain_file is not None:
            yield os.path.join(folder, column.domain_file)


def _pattern(plan: ReleasePlan) -> str | None:
    path = plan.source.path
    return None if path is None or "\0" in path else path


def _made(folder: str) -> Iterator[str]:
    """The folder and those above it, as far as they are not there yet."""
    while not os.path.lexists(folder):
        yield folder
        folder = os.path.dirname(folder)
