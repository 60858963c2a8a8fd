"""Links that lead out of the repository: what they show, no change under review can show."""

from __future__ import annotations

import os
from collections.abc import Iterator

from dpcli.gate.places import work_tree
from dpcli.gate.verdicts import Condition
from dpcli.pipeline.limits import escaped_path


def link_condition(path: str, compared: bool) -> Iterator[Condition]:
    """A no, where changes are compared, to a file inside of a work tree that is read from outside of it; else a warning."""
    spelled = os.path.abspath(path)
    top, real = work_tree(os.path.dirname(spelled)), os.path.realpath(spelled)
    if path == "-" or top is None or os.path.commonpath((os.path.realpath(top), real)) == os.path.realpath(top):
        return
    text = f"a link out of the repository, to {escaped_path(real)}: expected a file that the change itself holds"
    yield Condition("link", "fail" if compared else "warn", text, ())
