"""The base of a comparison, and the changes since the base that weaken the terms of a file.

The base of a file is its version at a git revision, or its entry in the JSON that an earlier gate wrote.
"""

from __future__ import annotations

import enum
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dpcli.analysis.account import headline
from dpcli.analysis.difference import Priced, priced_changes, statement_of
from dpcli.base.errors import DpcliError, InputError
from dpcli.base.fields import COUNT, DELTA, NON_NEGATIVE, POSITIVE, Constraint
from dpcli.base.lazy import load
from dpcli.base.values import dataclass
from dpcli.file.keys.annotations import members_of
from dpcli.file.keys.tables import Member, Members
from dpcli.file.pipeline.gate_keys import Gate, Horizon, Waiver
from dpcli.file.pipeline.model import Budget, Pipeline, Privacy
from dpcli.file.toml.findings import InvalidFile, Path
from dpcli.file.toml.shown import first_names, shown
from dpcli.gate.claims import standings_of
from dpcli.gate.verdicts import Base, PlannedRuns, Standing, first_finding
from dpcli.git.command import work_tree
from dpcli.git.past_files import PastFile, files_at
from dpcli.ledger.plugin import BLOCKS, MOST_BLOCKS, MOST_IN_WINDOW

if TYPE_CHECKING:
    from dpcli.ledger.blocks.block_kinds import BlockKind

WINDOW = "privacy.window"
# The terms in the JSON of an earlier gate that are numbers, with the condition that each must meet.
CHECKED_TERMS = {
    "budget.epsilon": POSITIVE,
    "gate.max_increase": NON_NEGATIVE,
    "budget.warn_at": POSITIVE,
    "budget.delta": DELTA,
    "privacy.delta": DELTA,
}
TABLES_OF_GATE = ("waiver", "horizon")  # tables in [gate] that are compared as a whole, and not key by key

Capped = Callable[[str, Pipeline], Pipeline]  # returns the pipeline at a path with the caps in force


@dataclass(frozen=True, slots=True)
class UnreadableBase:
    """An earlier version that cannot be read as a pipeline, with the reason."""

    reason: str


def waiver_data(waiver: Waiver) -> dict[str, Any]:
    """Return a waiver as a JSON value. Equal waivers have equal values."""
    return {**asdict(waiver), "expires": waiver.expires.isoformat()}


def base_form(pipeline: Pipeline, capped: Pipeline) -> dict[str, Any]:
    """Return the part of a gate's JSON with which a later gate compares (`bases_from`).

    Args:
        pipeline: The pipeline with its own caps.
        capped: The pipeline with the caps in force.
    """
    return {
        "statement": statement_of(capped),
        "terms": terms_of(pipeline),
        "mechanisms": standings_of(pipeline),
        "horizon": planned_runs(pipeline.gate.horizon),
        "waivers": [waiver_data(waiver) for waiver in pipeline.gate.waiver],
    }


def costs_of(base: Base, data: bytes) -> tuple[Priced, ...]:
    """Return the cost of each change, if it alone were made to the base.

    If the base is from the JSON of an earlier gate, the result is empty, as the JSON does not contain the text of the file.
    """
    if base.account is None or base.data is None:
        return ()
    return priced_changes(base.data, data, base.account)


def bases_at(ref: str, paths: Sequence[str], cap: Capped) -> dict[str, Base | UnreadableBase | None]:
    """Return the base of each file by its path, which is the version at the git revision `ref`; None for a new file.

    Raises:
        InputError: `ref` is not a revision, a path is standard input, or the account of an earlier version cannot be computed.
    """
    if ref.startswith("-") or "-" in paths:
        raise InputError(f"--base-ref: expected a git revision and files, found {ref!r} and {first_names(paths)}")
    past_files = files_at(ref, paths)
    return {path: None if past_file is None else _at_ref(ref, path, past_file, cap) for path, past_file in past_files.items()}


def _at_ref(ref: str, path: str, past_file: PastFile, cap: Capped) -> Base | UnreadableBase:
    """Return the base of one file from its content at the revision. Raises InputError if its account cannot be computed."""
    from dpcli.file.pipeline.other_files import LFS_POINTER
    from dpcli.file.pipeline.read import parse

    name = past_file.earlier_path or path
    try:
        if past_file.data.startswith(LFS_POINTER):
            raise InputError("it is a Git LFS pointer: keep pipelines out of Git LFS")
        written = parse(past_file.data, f"{ref}:{name}")
        pipeline = cap(path, written)
        result = headline(pipeline, delta=pipeline.budget.delta if pipeline.budget else None)
    except InvalidFile as error:
        return UnreadableBase(first_finding(error.diagnostics))
    except DpcliError as error:
        raise InputError(f"{name} at {ref} cannot be used for the comparison: {error}") from None
    return Base(
        result.upper,
        result.delta,
        statement=statement_of(pipeline),
        terms=terms_of(written),
        standings=standings_of(written),
        horizon=planned_runs(written.gate.horizon),
        waivers=tuple(map(waiver_data, written.gate.waiver)),
        account=result,
        data=past_file.data,
        earlier_path=past_file.earlier_path,
    )


def bases_from(baseline: str, paths: Sequence[str]) -> dict[str, Base | None]:
    """Return the base of each file by its path, from the JSON of an earlier `dpcli gate -f json`; None for a file without an entry.

    Two paths name the same file if their real paths are equal. A relative path in the JSON may be relative to the working directory or to
    the root of the repository around it. All values are checked, as the verdict depends on them.

    Raises:
        InputError: The JSON does not exist or has another form. Or a file has an entry without an account, or two different entries.
    """
    if not os.path.isfile(baseline):
        raise InputError(f"--baseline {baseline}: no such file")
    try:
        with open(baseline, "rb") as file:
            document = json.load(file)
        if document["schema"] != "dpcli/gate/v1":
            raise ValueError(f"schema {document['schema']!r}")
        entries: list[tuple[str, Base | None]] = []
        for entry in document["files"]:
            real_paths = _real_paths(entry["pipeline"]["path"])
            base = _from_json(entry)
            entries += [(real_path, base) for real_path in real_paths]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError) as error:
        raise InputError(f"--baseline {baseline}: not written by dpcli gate -f json: {error!r}") from None
    return {path: _base_of_file(f"--baseline {baseline}: {path}", os.path.realpath(path), entries) for path in paths}


def _real_paths(path: str) -> Iterator[str]:
    """Yield the real paths that a path in the baseline may mean."""
    current = os.getcwd()
    yield from {os.path.realpath(os.path.join(folder, path)) for folder in (current, work_tree(current) or current)}


def _base_of_file(what: str, real_path: str, entries: Sequence[tuple[str, Base | None]]) -> Base | None:
    """Return the base of one file; None without an entry. Raises InputError as `bases_from`, with a message that begins with `what`."""
    bases = [base for entry_path, base in entries if entry_path == real_path]
    if any(base is None for base in bases):
        raise InputError(f"{what}: no comparison is possible, as the earlier gate computed no epsilon for this file")
    if any(base != bases[0] for base in bases):
        raise InputError(
            f"{what}: expected one entry, found {len(bases)}; use the working directory in which the baseline was written"
        )
    return bases[0] if bases else None


def _from_json(entry: Mapping[str, Any]) -> Base | None:
    """Return the base of one file from its JSON; None if the file had no account."""
    if entry["result"] is None:
        return None
    stated_form, epsilon = entry["base_form"], entry["result"]["epsilon_upper"]
    statement = dict(stated_form["statement"])
    standings = {str(name): Standing(str(kind), _evidence(worth)) for name, (kind, worth) in stated_form["mechanisms"].items()}
    horizon = stated_form.get("horizon")
    if horizon is not None:
        horizon = PlannedRuns(int(_number(horizon[0], COUNT)), _number(horizon[1], POSITIVE))
    return Base(
        math.inf if epsilon == "inf" else _number(epsilon, NON_NEGATIVE),
        _optional(statement["delta"], DELTA),
        statement,
        terms=_checked_terms(stated_form["terms"]),
        standings=standings,
        horizon=horizon,
        waivers=tuple(dict(waiver) for waiver in stated_form.get("waivers", ())),
    )


def _checked_terms(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the terms of an entry after a check of their numbers. Raises ValueError if a number is invalid."""
    terms = dict(stated)
    for key, rule in CHECKED_TERMS.items():
        terms[key] = _optional(terms[key], rule)
    terms["budget.rho"] = _optional(terms.get("budget.rho"), POSITIVE)  # absent in the JSON of a gate that knew no cap on rho
    return terms


def _evidence(stated: Any) -> int:
    if type(stated) is not int:
        raise ValueError(f"{stated!r} in place of a whole number")
    return stated


def _optional(stated: Any, rule: Constraint) -> float | None:
    return None if stated is None else _number(stated, rule)


def _number(stated: Any, rule: Constraint) -> float:
    if type(stated) not in (int, float) or not math.isfinite(stated) or not rule.holds(stated):
        raise ValueError(f"{stated!r} in place of {rule.text}")
    return float(stated)


@dataclass(frozen=True, slots=True)
class Changed:
    """A changed key of a file.

    Attributes:
        words: The change in words, such as `budget.warn_at 0.8 -> 1.0`.
        weaker: Whether the change weakens the file.
        key: The place of the key in the file.
        replaced_by: If a cap was raised without effect, the cap that applies in its place, such as `the policy's 3.0`; else "".
    """

    words: str
    weaker: bool
    key: Path
    replaced_by: str = ""


def terms_of(pipeline: Pipeline) -> dict[str, Any]:
    """Return the value of every key of [privacy], [budget] and [gate] as JSON, by its dotted name; None for an absent key."""
    return {name: _plain(_stated_value(pipeline, name)) for name in _compared_keys()}


def _compared_keys() -> Members:
    """Return the keys that are compared one by one, by their dotted names."""
    keys: dict[str, Member] = {}
    for table, table_class in {"privacy": Privacy, "budget": Budget, "gate": Gate}.items():
        for name, member in members_of(table_class).items():
            if name not in TABLES_OF_GATE:
                keys[f"{table}.{name}"] = member
    return keys


def _stated_value(pipeline: Pipeline, name: str) -> Any:
    table, _, key = name.partition(".")
    return getattr(getattr(pipeline, table), key, None)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return ", ".join(value)  # JSON would turn a tuple into a list, which is not equal to it
    return value.value if isinstance(value, enum.Enum) else value


def changed_terms(
    terms: Mapping[str, Any], statement: Mapping[str, Any], written: Pipeline, capped: Pipeline, replaced: Mapping[str, str]
) -> Iterator[Changed]:
    """Yield each changed key of the statement and of the terms.

    Args:
        terms: The terms of the earlier version.
        statement: The statement of the earlier version, under the caps in force.
        written: The current file with its own caps.
        capped: The current file with the caps in force.
        replaced: For each key whose earlier cap is implied by a current cap, the current cap in words. If the file raises its cap for such
            a key, the file is not weakened.
    """
    differing = {key: value for key, value in statement_of(capped).items() if statement.get(key) != value}
    for key, value in differing.items():
        yield Changed(f"{key} {value_in_words(statement.get(key))} -> {value_in_words(value)}", True, _place(key, written))
    for name, member in _compared_keys().items():
        table, _, key = name.partition(".")
        old, new = terms.get(name), _plain(_stated_value(written, name))
        is_in_statement = key in differing and (table == "privacy" or key == "delta")
        if old == new or is_in_statement:
            continue
        words = f"{name} {value_in_words(old)} -> {value_in_words(new)}"
        if name == "budget.delta":  # the delta at which the cap on epsilon applies
            yield Changed(words, "budget.epsilon" not in replaced and _loosens(terms, written), (table, key))
        elif name in replaced and _weaker(member, old, new):
            words = f"{name} raised from {value_in_words(old)} to {value_in_words(new)}"
            yield Changed(words, False, (table, key), replaced[name])
        else:
            window_moved = name == WINDOW and keeps_its_width(old, new)
            yield Changed(words, not window_moved and _weaker(member, old, new), (table, key))


def promised_delta(terms: Mapping[str, Any]) -> float | None:
    """Return the delta at which the cap on epsilon of a file with these terms applies."""
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
    """Return whether a change of a key may weaken the file, by the direction that the key declares as safer.

    A limit that is lowered, or stated for the first time, does not weaken the file. Any change of a key without a direction may weaken it.
    """
    if member.safer is None:
        return True
    if member.safer == "stated":
        return old is not None
    return old is not None and (new is None or new > old)


def planned_runs(horizon: Horizon | None) -> PlannedRuns | None:
    """Return the number of runs and the epsilon of a horizon; None if there is no horizon."""
    return None if horizon is None else PlannedRuns(horizon.count, horizon.epsilon)


def horizon_change(old: PlannedRuns | None, new: PlannedRuns | None, outside: Sequence[Horizon]) -> Iterator[Changed]:
    """Yield the change of a horizon, if it has changed.

    Fewer runs, a larger epsilon or the removal of the horizon weaken the file, unless another horizon in force implies the earlier horizon.
    """
    if old == new:
        return
    in_force = [horizon for horizon in (new, *map(planned_runs, outside)) if horizon is not None]
    implied = old is None or any(horizon.runs >= old.runs and horizon.epsilon <= old.epsilon for horizon in in_force)
    yield Changed(f"gate.horizon {_horizon_words(old)} -> {_horizon_words(new)}", not implied, ("gate", "horizon"))


def _horizon_words(horizon: PlannedRuns | None) -> str:
    return "none" if horizon is None else f"{horizon.runs:,} runs within {horizon.epsilon:g}"


def value_in_words(value: Any) -> str:
    """Return a value as messages print it. Strings have no quotes, other values are as in TOML, and an absent value is `none`."""
    if value is None:
        return "none"
    if isinstance(value, str):
        return value
    return f"{value:g}" if type(value) is float else shown(value)


def keeps_its_width(old: str | None, new: str | None) -> bool:
    """Return whether two windows, each a comma-separated list, have equally many blocks of the same ordered kind, such as days.

    A change between two such windows does not weaken the file, as each block has its own cap. Blocks without an order, such as regions,
    contain different people, so a change between them may weaken the file. A narrower window may weaken it too. It charges fewer blocks,
    and only the file itself states that the run reads fewer blocks.
    """
    if old is None or new is None:
        return False
    kinds = [load(target)((), MOST_BLOCKS) for target in BLOCKS.values() if load(target).ordered]
    return any(_width(kind, old.split(", ")) == _width(kind, new.split(", ")) > 0 for kind in kinds)


def _width(kind: BlockKind, stated: Sequence[str]) -> int:
    """Return the number of blocks in a window; 0 if they are not of this kind, or if they are too many for one window."""
    ranks: set[int] = set()
    for text in stated:
        first, dots, last = text.partition("..")
        if not dots:
            last = first
        if not (kind.holds(first) and kind.holds(last)):
            return 0
        lowest, highest = kind.rank(first), kind.rank(last)
        if not 0 <= highest - lowest < MOST_IN_WINDOW:
            return 0
        ranks.update(range(lowest, highest + 1))
    return len(ranks) if len(ranks) <= MOST_IN_WINDOW else 0
