"""Where no output of a release may go: over what it keeps."""

from __future__ import annotations

import os
from collections.abc import Iterator

from dpcli.release.plan import ReleasePlan
from dpcli.release.store import ANSWERS, STATEMENT
from dpcli.sessions.charged import RUN
from dpcli.sessions.folder import LOCK


def kept_files(plan: ReleasePlan) -> tuple[str, ...]:
    """What is kept in the folder of the release; folders that are made for that are no files either."""
    return (*(os.path.join(plan.folder, name) for name in (ANSWERS, STATEMENT, RUN, LOCK)), *_made(plan.folder))


def _made(folder: str) -> Iterator[str]:
    """The folder and those above it, as far as they are not there yet."""
    while not os.path.lexists(folder):
        yield folder
        folder = os.path.dirname(folder)
