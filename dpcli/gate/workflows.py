"""Workflow files that call dpcli and that a change touches: they decide whether the gate runs, and whether its no counts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from dpcli.base.errors import InputError
from dpcli.file.toml.limits import escaped_path, read_bytes
from dpcli.gate.deleted import trees
from dpcli.gate.judgement import Judged
from dpcli.gate.verdicts import Condition
from dpcli.git.history import blobs, touched

PLACES = re.compile(r"\.github/.*\.ya?ml|\.gitlab-ci\.yml|\.gitlab/.*\.ya?ml|\.pre-commit-config\.yaml", re.DOTALL)


def changed_workflows(ref: str, paths: Sequence[str]) -> Iterator[Judged]:
    """A warning for each workflow file of the repositories of these files that differs from the revision and calls dpcli, or did there.

    Raises InputError where git cannot say what differs.
    """
    for (top, folder), tree in trees(ref, paths).items():
        if tree is None or top != folder:  # no forge runs the workflows of a repository inside
            continue
        names = sorted(name for name in touched(top, tree) if PLACES.fullmatch(name))
        for name, was in zip(names, blobs(top, [f"{tree}:{name}" for name in names]) if names else (), strict=True):
            now = _now(os.path.join(top, name))
            if now != was and b"dpcli" in (now or b"") + (was or b""):
                path = os.path.relpath(os.path.join(top, name))
                text = f"{escaped_path(name)} calls dpcli and differs from {ref}: it decides whether the gate runs and whether a no counts"
                yield Judged(path, None, (Condition("workflow", "warn", text, ()),))


def _now(place: str) -> bytes | None:
    try:
        return read_bytes(place)
    except InputError:
        return None
