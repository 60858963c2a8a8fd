"""What the files of some datasets came to at a revision, added up: what a sum of now is compared with."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

from dpcli.analysis.account import Account
from dpcli.analysis.together import together
from dpcli.base.errors import DpcliError
from dpcli.file.pipeline.document import is_pipeline
from dpcli.file.pipeline.gate_keys import Horizon
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import parse, toml_document, toml_name
from dpcli.file.toml.findings import InvalidFile
from dpcli.file.toml.looks import looks
from dpcli.gate.bases import Base
from dpcli.gate.horizon import runs_of
from dpcli.gate.shared_caps import SharedCaps
from dpcli.gate.unjudged import dataset_of, tops_of
from dpcli.git.history import blobs, up_to_date
from dpcli.git.work_tree import commit_of, listed


def before(caps: SharedCaps, ref: str, paths: Sequence[str], horizon: Horizon | None, now: Account) -> Base | None:
    """The sum at the revision and at the delta of now; None where it cannot be said, or there was nothing to add up.

    So it is where a file is in a repository inside, is a link or has another ending, and where the revision has gone on since the work
    tree left it.

    Args:
        paths: of all that is in the sum now. horizon: of flags or policy.
    """
    tops = tops_of(paths)
    plain = all(toml_name(path) and not os.path.islink(path) for path in paths)
    if len(tops) != 1 or now.delta is None or not plain or not up_to_date(tops[0], commit_of(tops[0], ref)):
        return None
    try:
        found = [
            (replace(one, privacy=replace(one.privacy, dataset="it")), runs_of(one, horizon))
            for one in _members(caps, ref, tops[0])
        ]
        total = together(found, delta=now.delta, rows=False) if found else None
    except DpcliError:
        return None
    return None if total is None else Base(total.upper, total.delta, {}, {}, {})


def _members(caps: SharedCaps, ref: str, top: str) -> Iterator[Pipeline]:
    tree, alike = commit_of(top, ref), {looks(name) for name in caps.datasets}
    lines = (line.partition(b"\t") for line in listed(top, "ls-tree", "-r", "-z", "--full-tree", tree))
    names = [name for about, _, raw in lines if about.startswith(b"100") and toml_name(name := os.fsdecode(raw))]
    for name, data in zip(names, blobs(top, [f"{tree}:{name}" for name in names]) if names else (), strict=True):
        try:
            tables = toml_document(data or b"", name)[1]
        except InvalidFile:
            continue
        if is_pipeline(tables) and looks(dataset_of(tables)) in alike:
            yield parse(data or b"", f"{ref}:{name}")
