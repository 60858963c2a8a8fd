"""The budget of a ledger, entry by entry: what was left of the cap."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import floor

from dpcli.document.chart import Axis, Chart, Line, Marker, Tone
from dpcli.ledger.chain import LedgerEntry
from dpcli.ledger.remaining import share_of
from dpcli.ledger.state import LedgerState


def chart(entries: Sequence[LedgerEntry]) -> Chart | None:
    """The share of the cap that each entry left, as steps; None before the first charge. An amended cap moves it up or down."""
    state, left, amended = LedgerState(str(entries[0].content["dataset"])), [], []
    for entry in entries:
        state.apply(entry)
        left.append(100.0 * max(1.0 - share_of(state, state.fullest().spent), 0.0))
        if entry.kind == "amend":
            amended.append(Marker(f"cap {state.epsilon!r}", float(entry.row.seq), left[-1], Tone.LIMIT))
    if len(entries) < 2:
        return None
    terms = state.open_terms()
    reserved = len(state.under_way)
    return Chart(
        kind="burn-down",
        title="what is left of the budget",
        subtitle=f"{state.dataset}: cap epsilon {state.epsilon!r} at delta = {terms.delta!r}, per {terms.unit}, {terms.adjacency}",
        x=Axis("entry", 1.0, float(len(entries))),
        y=Axis("left of the cap", 0.0, 100.0, unit="%"),
        lines=(
            Line(f"now {floor(10.0 * left[-1]) / 10.0:.1f} % left", steps(left)),
            Line("empty", ((1.0, 0.0), (float(len(entries)), 0.0)), Tone.LIMIT, dashed=True),
        ),
        markers=tuple(amended),
        notes=(f"{reserved} reserved {'run counts' if reserved == 1 else 'runs count'} in full",) if reserved else (),
    )


def steps(values: Sequence[float], first: int = 1) -> tuple[tuple[float, float], ...]:
    """A level between two entries, a jump at each; `first` is the number of the first."""
    points = [(float(first), values[0])]
    for i, (before, now) in enumerate(pairwise(values), start=first + 1):
        points += [(float(i), before), (float(i), now)]
    return tuple(points)
