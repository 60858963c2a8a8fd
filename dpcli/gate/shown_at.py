"""At which of several files a finding about all of them is shown: the one that the change under review raised most."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from dpcli.gate.judgement import Judged, JudgedTogether


def at_the_change(together: Iterable[JudgedTogether], files: Sequence[Judged]) -> Iterator[JudgedTogether]:
    """The same, at the member whose own epsilon rose most, of a new one all of it; where none rose, at the first, as it was.

    files: as they were compared with the base.
    """
    for one in together:
        risen = [(_rise(file), file.path) for file in files if file.path in one.members]
        most = max(risen, key=lambda pair: pair[0], default=(0.0, one.at))
        yield replace(one, at=most[1]) if most[0] > 0.0 else one


def _rise(file: Judged) -> float:
    if file.account is None:
        return 0.0
    if file.base is None:
        return file.account.upper
    return 0.0 if file.now is None else file.now - file.base.epsilon
