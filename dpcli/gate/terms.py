"""What a file holds itself to: every key of [privacy], [budget] and [gate], and which changes of them weaken it."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dpcli.analysis.difference import statement_of
from dpcli.base.values import dataclass
from dpcli.file.keys.annotations import members_of
from dpcli.file.keys.tables import Member, Members
from dpcli.file.pipeline.gate_keys import Gate, Horizon
from dpcli.file.pipeline.model import Budget, Pipeline, Privacy
from dpcli.file.toml.findings import Path
from dpcli.file.toml.shown import shown

WINDOW = "privacy.window"
APART = ("waiver", "horizon")  # tables of [gate] that are compared as a whole


@dataclass(frozen=True, slots=True)
class Changed:
    """One key in words, `budget.warn_at 0.8 -> 1.0`, whether the change weakens the file, and where the file states the key.

    held: of a cap that was raised, what holds in its place, and so weakens nothing: `the policy's 3.0`.
    """

    words: str
    weaker: bool
    key: Path
    held: str = ""


def terms_of(pipeline: Pipeline) -> dict[str, Any]:
    """Every key by its dotted name, as JSON has it; None where it is absent."""
    return {name: _plain(_stated(pipeline, name)) for name in _keys()}


def _keys() -> Members:
    tables = {"privacy": Privacy, "budget": Budget, "gate": Gate}
    return {f"{table}.{name}": m for table, cls in tables.items() for name, m in members_of(cls).items() if name not in APART}


def _stated(pipeline: Pipeline, name: str) -> Any:
    table, _, key = name.partition(".")
    return getattr(getattr(pipeline, table), key, None)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return ", ".join(value)  # JSON has no tuples, and a list that was read again would be another value
    return value.value if isinstance(value, enum.Enum) else value


def changed_terms(
    terms: Mapping[str, Any], statement: Mapping[str, Any], own: Pipeline, capped: Pipeline, kept: Mapping[str, str]
) -> Iterator[Changed]:
    """What is different now.

    terms, statement: of the file as it was, the second under the caps that hold. own, capped: the file as it is, with its own caps and
    with those that hold. kept: the keys of the file's earlier caps that another cap keeps, and which: raising them weakens nothing.
    """
    now = statement_of(capped)
    differing = {key for key, value in now.items() if statement.get(key) != value}
    yield from (
        Changed(f"{key} {word(statement.get(key))} -> {word(now[key])}", True, _place(key, own)) for key in now if key in differing
    )
    for name, member in _keys().items():
        old, new = terms.get(name), _plain(_stated(own, name))
        key = name.partition(".")[2]
        if old == new or (key in differing and (name.startswith("privacy.") or key == "delta")):
            continue
        words, place = f"{name} {word(old)} -> {word(new)}", tuple(name.split("."))
        if name == "budget.delta":  # of the cap on epsilon
            yield Changed(words, "budget.epsilon" not in kept and _loosens(terms, own), place)
        elif name in kept and _weaker(member, old, new):
            yield Changed(f"{name} raised from {word(old)} to {word(new)}", False, place, kept[name])
        else:
            yield Changed(words, not (name == WINDOW and _moved(old, new)) and _weaker(member, old, new), place)


def promised_delta(terms: Mapping[str, Any]) -> float | None:
    """The delta at which a file held its own cap on epsilon."""
    at: float | None = terms.get("budget.delta")
    return terms.get("privacy.delta") if at is None else at


def _loosens(terms: Mapping[str, Any], own: Pipeline) -> bool:
    """Whether a file had a cap on epsilon, and now holds it to a larger delta, or to none."""
    old, new = promised_delta(terms), promised_delta(terms_of(own))
    return terms.get("budget.epsilon") is not None and old is not None and (new is None or new > old)


def _place(key: str, own: Pipeline) -> Path:
    """Where a file states a key of its statement: the budget's delta comes before that of [privacy]."""
    return ("budget", key) if key == "delta" and own.budget is not None and own.budget.delta is not None else ("privacy", key)


def _moved(old: str | None, new: str | None) -> bool:
    """Whether a window reads other blocks, and as many."""
    from dpcli.gate.windows import keeps_its_width

    return keeps_its_width(old, new)


def _weaker(member: Member, old: Any, new: Any) -> bool:
    """Whether a change may weaken the file: any may, but for a limit that is smaller than it was, and what was not stated before."""
    if member.safer is None:
        return True
    if member.safer == "stated":
        return old is not None
    return old is not None and (new is None or new > old)


def horizon_data(horizon: Horizon | None) -> tuple[int, float] | None:
    """Runs and cap."""
    return None if horizon is None else (horizon.count, horizon.epsilon)


def changed_horizon(old: tuple[int, float] | None, new: tuple[int, float] | None, outside: Sequence[Horizon]) -> Iterator[Changed]:
    """Fewer runs or a higher cap than before, or no horizon any more, weaken the file where none from outside holds in its place."""
    if old != new:
        now = [one for one in (new, *map(horizon_data, outside)) if one is not None]
        kept = old is None or any(runs >= old[0] and epsilon <= old[1] for runs, epsilon in now)
        yield Changed(f"gate.horizon {_runs(old)} -> {_runs(new)}", not kept, ("gate", "horizon"))


def _runs(horizon: tuple[int, float] | None) -> str:
    return "none" if horizon is None else f"{horizon[0]:,} runs within {horizon[1]:g}"


def word(value: Any) -> str:
    """A value as a sentence has it: TOML's words, `none` for nothing."""
    return "none" if value is None else value if isinstance(value, str) else f"{value:g}" if type(value) is float else shown(value)
