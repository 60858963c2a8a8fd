"""The terms of a pipeline file, and the changes of these terms since the base that weaken the file.

requirements.py asks for the changes and turns them into conditions; bases.py keeps the terms of a *base*, the earlier version of a file.
The *terms* are the values of [privacy], [budget] and [gate], such as a cap. The *statement* consists of the keys that say what epsilon
means, such as the unit. A file is *weakened* if the change may lead to less privacy, such as by a raised cap; in doubt, it counts as
weakened. A *horizon* is a planned number of runs with a cap on all of them together. A *window* lists the *blocks* of the dataset that a
run reads, such as days or regions, each of which has a budget of its own in a ledger.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpcli.analysis.difference import statement_of
from dpcli.base.lazy import load
from dpcli.base.values import dataclass
from dpcli.file.keys.annotations import members_of
from dpcli.file.keys.tables import Member, Members
from dpcli.file.pipeline.gate_keys import Gate, Horizon
from dpcli.file.pipeline.model import Budget, Pipeline, Privacy
from dpcli.file.toml.findings import Path
from dpcli.file.toml.shown import shown
from dpcli.gate.caps import number_words
from dpcli.gate.verdicts import PlannedRuns
from dpcli.ledger.plugin import BLOCKS, MOST_BLOCKS, MOST_IN_WINDOW

if TYPE_CHECKING:
    from dpcli.ledger.blocks.block_kinds import BlockKind

WINDOW = "privacy.window"  # the one key for which `keeps_its_width` says whether a change weakens the file
# Tables in [gate] that other functions compare: `horizon_change`, and `dpcli.gate.waivers` for waivers.
TABLES_OF_GATE = ("waiver", "horizon")


@dataclass(frozen=True, slots=True)
class TermChange:
    """A changed key of a file.

    Attributes:
        words: The change in words, such as `budget.warn_at 0.8 -> 1.0`.
        weaker: Whether the change weakens the file.
        replaced_by: If a cap was raised without effect, the cap that applies in its place, such as `the policy's 3.0`; else "".
    """

    words: str
    weaker: bool
    key: Path
    replaced_by: str = ""


def terms_of(pipeline: Pipeline) -> dict[str, Any]:
    """Return the value of each key of [privacy], [budget] and [gate] as JSON, by its dotted name; None for an absent key.

    The tables of `TABLES_OF_GATE` are left out. A value that is a list becomes one text, with commas between its items.
    """
    return {name: _plain(_stated_value(pipeline, name)) for name in _compared_keys()}


def _compared_keys() -> Members:
    """Return the keys that `changed_terms` compares one by one, by their dotted names."""
    keys: dict[str, Member] = {}
    for table, table_class in {"privacy": Privacy, "budget": Budget, "gate": Gate}.items():
        for name, member in members_of(table_class).items():
            if name not in TABLES_OF_GATE:
                keys[f"{table}.{name}"] = member
    return keys


def _stated_value(pipeline: Pipeline, name: str) -> Any:
    """Return the value of a key by its dotted name; None if the key or its table is absent."""
    table, _, key = name.partition(".")
    return getattr(getattr(pipeline, table), key, None)


def _plain(value: Any) -> Any:
    """Return the value of a key as JSON has it: a tuple as one text, and an enum as its value."""
    if isinstance(value, tuple):
        return ", ".join(value)  # JSON would turn a tuple into a list, which is not equal to it
    return value.value if isinstance(value, enum.Enum) else value


def changed_terms(
    terms: Mapping[str, Any], statement: Mapping[str, Any], written: Pipeline, capped: Pipeline, replaced: Mapping[str, str]
) -> Iterator[TermChange]:
    """Yield each changed key of the statement and of the terms.

    A change of the statement always weakens the file, because the two guarantees then have different meanings. A key that is part of the
    statement and of the terms is yielded once.

    Args:
        terms, statement: The terms and the statement of the earlier version, under the caps in force.
        written, capped: The current file with its own caps, and with the caps in force.
        replaced: The keys whose earlier cap still holds because a cap in force is at most as high, each with that cap in words. A file that
            raises its own cap for such a key is not weakened.
    """
    differing = {key: value for key, value in statement_of(capped).items() if statement.get(key) != value}
    for key, value in differing.items():
        yield TermChange(
            f"{key} {value_in_words(statement.get(key))} -> {value_in_words(value)}", weaker=True, key=_place(key, written)
        )
    for name, member in _compared_keys().items():
        table, _, key = name.partition(".")
        old, new = terms.get(name), _plain(_stated_value(written, name))
        # The keys of the statement are keys of [privacy], and the delta of [budget] or [privacy].
        is_in_statement = key in differing and (table == "privacy" or key == "delta")
        if old == new or is_in_statement:
            continue
        words = f"{name} {value_in_words(old)} -> {value_in_words(new)}"
        if name == "budget.delta":  # the delta at which the cap on epsilon applies: whether it matters depends on the cap too
            loosens_cap = "budget.epsilon" not in replaced and _loosens(terms, written)
            yield TermChange(words, weaker=loosens_cap, key=(table, key))
        elif name in replaced and _weaker(member, old, new):
            words = f"{name} raised from {value_in_words(old)} to {value_in_words(new)}"
            yield TermChange(words, weaker=False, key=(table, key), replaced_by=replaced[name])
        else:
            window_moved = name == WINDOW and keeps_its_width(old, new)
            yield TermChange(words, weaker=not window_moved and _weaker(member, old, new), key=(table, key))


def promised_delta(terms: Mapping[str, Any]) -> float | None:
    """Return the delta at which the cap on epsilon of a file with these terms applies; None if the file states no delta."""
    delta: float | None = terms.get("budget.delta")
    return terms.get("privacy.delta") if delta is None else delta


def _loosens(terms: Mapping[str, Any], written: Pipeline) -> bool:
    """Return whether a file had a cap on epsilon at a stated delta, and now states a larger delta or no delta."""
    old, new = promised_delta(terms), promised_delta(terms_of(written))
    return terms.get("budget.epsilon") is not None and old is not None and (new is None or new > old)


def _place(key: str, written: Pipeline) -> Path:
    """Return the place of a key of the statement in the file. If [budget] and [privacy] state a delta, the key of [budget] is returned."""
    is_in_budget = key == "delta" and written.budget is not None and written.budget.delta is not None
    return ("budget" if is_in_budget else "privacy", key)


def _weaker(member: Member, old: Any, new: Any) -> bool:
    """Return whether a change of a key from `old` to `new`, which differ, may weaken the file, by `Key.safer`.

    None: any change may weaken it. "stated": it is weakened if an earlier value is changed or removed. "smaller", the only other value: it
    is weakened if an earlier value is raised or removed.
    """
    if member.safer is None:
        return True
    if member.safer == "stated":
        return old is not None
    return old is not None and (new is None or new > old)


def planned_runs(horizon: Horizon | None) -> PlannedRuns | None:
    """Return the number of runs of a horizon and the cap on their epsilon; None if there is no horizon."""
    return None if horizon is None else PlannedRuns(horizon.count, horizon.epsilon)


def horizon_change(old: PlannedRuns | None, new: PlannedRuns | None, external: Sequence[Horizon]) -> Iterator[TermChange]:
    """Yield the change of a file's horizon; nothing if the horizon is unchanged.

    Fewer runs, a larger epsilon or the removal of the horizon weaken the file, unless a horizon in force implies the earlier horizon. A
    horizon implies another if it has at least as many runs and at most the same epsilon.

    Args:
        external: The horizons of flags and policy.
    """
    if old == new:
        return
    in_force = [horizon for horizon in (new, *map(planned_runs, external)) if horizon is not None]
    implied = old is None or any(horizon.runs >= old.runs and horizon.epsilon <= old.epsilon for horizon in in_force)
    yield TermChange(f"gate.horizon {_horizon_words(old)} -> {_horizon_words(new)}", weaker=not implied, key=("gate", "horizon"))


def _horizon_words(horizon: PlannedRuns | None) -> str:
    return "none" if horizon is None else f"{horizon.runs:,} runs within {number_words(horizon.epsilon)}"


def value_in_words(value: Any) -> str:
    """Return a value as messages print it.

    Strings have no quotes, floats are as in `number_words`, an absent value is `none`, and other values are as in TOML.
    """
    if value is None:
        return "none"
    if isinstance(value, str):
        return value
    return number_words(value) if type(value) is float else shown(value)


def keeps_its_width(old: str | None, new: str | None) -> bool:
    """Return whether two windows, each a comma-separated list, have equally many blocks of the same ordered kind, such as days.

    A change between two such windows does not weaken the file, because each block has its own cap. Blocks without an order, such as
    regions, contain different people, so a change between them may weaken the file. A narrower window may weaken it too: it charges fewer
    blocks, and only the file itself states that the run reads fewer.
    """
    if old is None or new is None:
        return False
    # How many blocks a hash makes is a term of the ledger, which is not known here: every number that could be valid counts as a block.
    # Kinds whose blocks are listed, such as regions, have no order. So no list is needed here: `()`.
    kinds = [load(target)((), MOST_BLOCKS) for target in BLOCKS.values() if load(target).ordered]
    return any(_width(kind, old.split(", ")) == _width(kind, new.split(", ")) > 0 for kind in kinds)


def _width(kind: BlockKind, stated: Sequence[str]) -> int:
    """Return the number of different blocks in the items of a window, each of which is one block or a range FIRST..LAST.

    It is 0, so that no change counts as harmless, if a block is not of this kind, if a range ends before it starts, or if there are more
    than `MOST_IN_WINDOW` blocks, which is the limit of a window.
    """
    ranks: set[int] = set()
    for item in stated:
        first, dots, last = item.partition("..")
        last = last if dots else first
        if not (kind.holds(first) and kind.holds(last)):
            return 0
        lowest, highest = kind.rank(first), kind.rank(last)
        if not 0 <= highest - lowest < MOST_IN_WINDOW:
            return 0
        ranks.update(range(lowest, highest + 1))
    return len(ranks) if len(ranks) <= MOST_IN_WINDOW else 0
