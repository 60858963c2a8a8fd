"""What a change under review did to a sum over files: which file it is shown at, and which files joined it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from dpcli.analysis.together import FIXED
from dpcli.gate.judgement import Judged, JudgedTogether
from dpcli.gate.totals import listed
from dpcli.gate.verdicts import Condition

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


def with_joined(together: Iterable[JudgedTogether], files: Sequence[Judged]) -> Iterator[JudgedTogether]:
    """Tell of files that came to a sum after the base, where it had others then: what they do may have been chosen from outputs.

    files: as they were compared with the base.
    """
    for one in together:
        later = [file.path for file in files if file.path in one.members and (file.base is None or _joins(file, one.datasets))]
        if (one.account or one.told) is None or not later or len(later) == len(one.members):
            yield one
            continue
        text = f"{one.path}: not yet in the sum at the base: {listed(later)}; {FIXED}"
        yield replace(one, conditions=(*one.conditions, Condition("joined", "warn", text, ())))


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
