"""At which of several files a finding about all of them is shown: the one that the change under review raised most."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from dpcli.gate.judgement import Judged, JudgedTogether

UNTOUCHED = (0.0, False)


def at_the_change(together: Iterable[JudgedTogether], files: Sequence[Judged]) -> Iterator[JudgedTogether]:
    """The same, at the member whose own epsilon rose most, of a new one all of it.

    Where none rose, it is at one that changed and costs what it did, or that joins the dataset at less than it did, as that raises the sum
    too; else at the first, as it was.

    files: as they were compared with the base.
    """
    for one in together:
        touched = [(_touched(file, one.datasets), file.path) for file in files if file.path in one.members]
        most, at = max(touched, key=lambda pair: pair[0], default=(UNTOUCHED, one.at))
        yield replace(one, at=at) if most > UNTOUCHED else one


def _touched(file: Judged, datasets: Sequence[str]) -> tuple[float, bool]:
    """By how much its epsilon rose, less than 0 where it fell, and whether anything in it changed, as far as the base tells."""
    if file.base is None:
        return (0.0 if file.account is None else file.account.upper, True)
    if file.now is None or file.now == file.base.epsilon:  # both may be infinite
        return (0.0, bool(file.changes))
    rise = file.now - file.base.epsilon
    return (max(rise, 0.0) if _joins(file, datasets) else rise, True)


def _joins(file: Judged, datasets: Sequence[str]) -> bool:
    """Whether it named none of the datasets before."""
    edits = [edit for one in file.changes for edit in one.change.edits if edit.path == ("privacy", "dataset")]
    return any(edit.old not in datasets for edit in edits)
