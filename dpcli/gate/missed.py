"""Pipelines that a change touches, and that nobody gave to the gate."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from dpcli.gate.judgement import Judged
from dpcli.gate.unjudged import tops_of, unjudged
from dpcli.gate.verdicts import Condition
from dpcli.git.history import differing
from dpcli.git.work_tree import commit_of, git, listed
from dpcli.toml.limits import escaped_path

NAMED = 5  # files that are named in a sentence


def missed(ref: str, paths: Sequence[str], known: frozenset[str]) -> Iterator[Judged]:
    """A warning that names those that differ from the revision and are not judged; a refusal where nothing at all is judged.

    Args:
        paths: of the files that are judged; where there are none, the repository around the working directory is under review.
        known: real paths of others that the gate has spoken of.

    Raises InputError where git cannot say what differs.
    """
    here = list(paths) or [os.path.join(os.getcwd(), "pipeline.toml")]
    touched = {os.path.realpath(os.path.join(top, name)) for top in tops_of(here) for name in _touched(top, ref)} - known
    found = [one.path for one in unjudged(here) if os.path.realpath(one.path) in touched] if touched else []
    if found:
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        names = f"{', '.join(map(escaped_path, found[:NAMED]))}{more}"
        which = "a pipeline that differs" if len(found) == 1 else f"{len(found)} pipelines that differ"
        text = f"{names}: {which} from {ref} and {'was' if len(found) == 1 else 'were'} not given to the gate"
        yield Judged(found[0], None, (Condition("missed", "warn" if paths else "invalid", text, ()),))


def _touched(top: str, ref: str) -> Iterator[str]:
    """Paths of the files that are new or changed, committed or not; none that the revision alone has changed since the branch began."""
    tree = commit_of(top, ref)
    began = git(top, "merge-base", tree, "HEAD").stdout.decode().strip() or tree
    names = frozenset.intersection(*(frozenset(differing(top, one)) for one in {tree, began}))
    yield from map(os.fsdecode, names)
    yield from map(os.fsdecode, listed(top, "ls-files", "-z", "--others", "--exclude-standard"))
