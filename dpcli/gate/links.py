"""Links that lead out of the repository: what they show, no change under review can show."""

from __future__ import annotations

import os
from collections.abc import Iterator

from dpcli.file.toml.limits import escaped_path
from dpcli.gate.verdicts import Condition
from dpcli.git.command import work_tree
from dpcli.git.places import holds


def link_condition(path: str, compared: bool) -> Iterator[Condition]:
    """A no, where changes are compared, to a file inside of a work tree that is read from outside of it; else a warning."""
    spelled = os.path.abspath(path)
    real, here = os.path.realpath(spelled), work_tree(os.path.realpath(os.getcwd()))
    # Of the repository under review, not of one that a link among the file's folders leads into.
    top = here if here is not None and holds(here, spelled) else work_tree(os.path.dirname(spelled))
    if path == "-" or top is None or holds(os.path.realpath(top), real):
        return
    text = f"a link out of the repository, to {escaped_path(real)}: expected a file that the change itself holds"
    yield Condition("link", "fail" if compared else "warn", text, ())
