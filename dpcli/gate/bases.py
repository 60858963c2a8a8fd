"""The base of a comparison: files at a git revision or in the JSON of an earlier gate, and changes that weaken their terms."""

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
from dpcli.gate.verdicts import Base, first_finding
from dpcli.git.command import work_tree
from dpcli.git.past_files import PastFile, files_at
from dpcli.ledger.plugin import BLOCKS

if TYPE_CHECKING:
    from dpcli.ledger.blocks.block_kinds import BlockKind

WINDOW = "privacy.window"
TABLES_OF_GATE = ("waiver", "horizon")  # compared as whole tables, not key by key
MOST_HASH_PARTS = 10**6
WIDEST = 2000  # blocks of a ledger

Capped = Callable[[str, Pipeline], Pipeline]


@dataclass(frozen=True, slots=True)
class Unpriced:
    """An earlier version that cannot be read as a pipeline, with the reason."""

    reason: str


def waiver_data(waiver: Waiver) -> dict[str, Any]:
    """Return a waiver as JSON; two waivers are equal if their JSON is."""
    return {**asdict(waiver), "expires": waiver.expires.isoformat()}


def base_form(pipeline: Pipeline, capped: Pipeline) -> dict[str, Any]:
    """Return the part of a gate's JSON that a later gate compares with, for `bases_from`. capped: the pipeline with the caps in force."""
    return {
        "statement": statement_of(capped),
        "terms": terms_of(pipeline),
        "mechanisms": standings_of(pipeline),
        "horizon": horizon_data(pipeline.gate.horizon),
        "waivers": [waiver_data(waiver) for waiver in pipeline.gate.waiver],
    }


def costs_of(base: Base, data: bytes) -> tuple[Priced, ...]:
    """Return the cost of each change, made alone to the base; nothing if only figures of the base are available, not its text."""
    if base.account is None or base.data is None:
        return ()
    return priced_changes(base.data, data, base.account)


def bases_at(ref: str, paths: Sequence[str], cap: Capped) -> dict[str, Base | Unpriced | None]:
    """Return each file's version at the git revision `ref`; None for a new file. Raises InputError for a bad `ref`."""
    if ref.startswith("-") or "-" in paths:
        raise InputError(f"--base-ref: expected a git revision and files, found {ref!r} and {first_names(paths)}")
    return {
        path: None if past_file is None else _at_ref(ref, path, past_file, cap) for path, past_file in files_at(ref, paths).items()
    }


def _at_ref(ref: str, path: str, past_file: PastFile, cap: Capped) -> Base | Unpriced:
    from dpcli.file.pipeline.other_files import LFS_POINTER
    from dpcli.file.pipeline.read import parse

    name = past_file.renamed or path
    try:
        if past_file.data.startswith(LFS_POINTER):
            raise InputError("it is a Git LFS pointer: keep pipelines out of Git LFS")
        own = parse(past_file.data, f"{ref}:{name}")
        pipeline = cap(path, own)
        result = headline(pipeline, delta=pipeline.budget.delta if pipeline.budget else None)
    except InvalidFile as error:
        return Unpriced(first_finding(error.diagnostics))
    except DpcliError as error:
        raise InputError(f"{name} at {ref} cannot be compared with: {error}") from None
    return Base(
        result.upper,
        result.delta,
        statement_of(pipeline),
        terms_of(own),
        standings_of(own),
        horizon_data(own.gate.horizon),
        tuple(map(waiver_data, own.gate.waiver)),
        result,
        past_file.data,
        past_file.renamed,
    )


def bases_from(baseline: str, paths: Sequence[str]) -> dict[str, Base | None]:
    """Return each file's base from the JSON of an earlier `dpcli gate -f json`; None if the file is not in it.

    Two paths name the same file if they lead to the same place; a relative path may count from the working directory or from the root of
    the repository around it. Everything read is checked, since a verdict depends on it.

    Raises:
        InputError: the JSON does not exist or is not of this form, or a file in it had no account or differs between two entries.
    """
    if not os.path.isfile(baseline):
        raise InputError(f"--baseline {baseline}: no such file")
    try:
        with open(baseline, "rb") as file:
            document = json.load(file)
        if document["schema"] != "dpcli/gate/v1":
            raise ValueError(f"schema {document['schema']!r}")
        entries = [(place, _from_json(entry)) for entry in document["files"] for place in _places(entry["pipeline"]["path"])]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError) as error:
        raise InputError(f"--baseline {baseline}: not written by dpcli gate -f json: {error!r}") from None
    return {path: _base_of_file(f"--baseline {baseline}: {path}", os.path.realpath(path), entries) for path in paths}


def _places(path: str) -> Iterator[str]:
    """Yield the real paths that a path of the baseline may mean."""
    current = os.getcwd()
    yield from {os.path.realpath(os.path.join(folder, path)) for folder in (current, work_tree(current) or current)}


def _base_of_file(what: str, place: str, entries: Sequence[tuple[str, Base | None]]) -> Base | None:
    bases = [base for at, base in entries if at == place]
    if any(base is None for base in bases):
        raise InputError(f"{what}: nothing to compare with: the file could not be accounted then")
    if any(base != bases[0] for base in bases):
        raise InputError(
            f"{what}: expected one entry, found {len(bases)}; use the working directory that the baseline was written in"
        )
    return bases[0] if bases else None


def _from_json(entry: Mapping[str, Any]) -> Base | None:
    """Return the base of one file from its JSON; None if the file had no account."""
    if entry["result"] is None:
        return None
    stated, epsilon = entry["base_form"], entry["result"]["epsilon_upper"]
    statement, horizon = dict(stated["statement"]), stated.get("horizon")
    return Base(
        math.inf if epsilon == "inf" else _number(epsilon, NON_NEGATIVE),
        _optional(statement["delta"], DELTA),
        statement,
        _checked_terms(stated["terms"]),
        {str(name): (str(kind), _evidence(worth)) for name, (kind, worth) in stated["mechanisms"].items()},
        None if horizon is None else (int(_number(horizon[0], COUNT)), _number(horizon[1], POSITIVE)),
        tuple(dict(waiver) for waiver in stated.get("waivers", ())),
    )


def _checked_terms(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the terms with their numbers checked, so that they can be compared."""
    terms = dict(stated)
    for key, rule in (("budget.epsilon", POSITIVE), ("gate.max_increase", NON_NEGATIVE), ("budget.warn_at", POSITIVE)):
        terms[key] = _optional(terms[key], rule)
    terms["budget.rho"] = _optional(terms.get("budget.rho"), POSITIVE)
    for key in ("budget.delta", "privacy.delta"):
        terms[key] = _optional(terms[key], DELTA)
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

    words: the change in words, such as `budget.warn_at 0.8 -> 1.0`.
    weaker: whether the change weakens the file.
    key: the place of the key in the file.
    replaced_by: for a raised cap, the cap that holds instead, such as `the policy's 3.0`, so that nothing is weaker.
    """

    words: str
    weaker: bool
    key: Path
    replaced_by: str = ""


def terms_of(pipeline: Pipeline) -> dict[str, Any]:
    """Return the JSON value of every key of [privacy], [budget] and [gate] by its dotted name; None for an absent key."""
    return {name: _plain(_stated(pipeline, name)) for name in _keys()}


def _keys() -> Members:
    tables = {"privacy": Privacy, "budget": Budget, "gate": Gate}
    return {
        f"{table}.{name}": m for table, cls in tables.items() for name, m in members_of(cls).items() if name not in TABLES_OF_GATE
    }


def _stated(pipeline: Pipeline, name: str) -> Any:
    table, _, key = name.partition(".")
    return getattr(getattr(pipeline, table), key, None)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return ", ".join(value)  # JSON would turn a tuple into a list, which is not equal to it
    return value.value if isinstance(value, enum.Enum) else value


def changed_terms(
    terms: Mapping[str, Any], statement: Mapping[str, Any], own: Pipeline, capped: Pipeline, replaced: Mapping[str, str]
) -> Iterator[Changed]:
    """Yield each changed key of the statement and of the terms.

    Args:
        terms: the terms of the earlier version.
        statement: the statement of the earlier version, under the caps in force.
        own: the current file with its own caps.
        capped: the current file with the caps in force.
        replaced: by key, the cap that implies the file's earlier cap; raising such a cap weakens nothing.
    """
    now = statement_of(capped)
    differing = {key for key, value in now.items() if statement.get(key) != value}
    for key, value in now.items():
        if key in differing:
            yield Changed(f"{key} {value_in_words(statement.get(key))} -> {value_in_words(value)}", True, _place(key, own))
    for name, member in _keys().items():
        old, new = terms.get(name), _plain(_stated(own, name))
        key = name.partition(".")[2]
        if old == new or (key in differing and (name.startswith("privacy.") or key == "delta")):
            continue
        words, place = f"{name} {value_in_words(old)} -> {value_in_words(new)}", tuple(name.split("."))
        if name == "budget.delta":  # of the cap on epsilon
            yield Changed(words, "budget.epsilon" not in replaced and _loosens(terms, own), place)
        elif name in replaced and _weaker(member, old, new):
            yield Changed(f"{name} raised from {value_in_words(old)} to {value_in_words(new)}", False, place, replaced[name])
        else:
            moved = name == WINDOW and keeps_its_width(old, new)
            yield Changed(words, not moved and _weaker(member, old, new), place)


def promised_delta(terms: Mapping[str, Any]) -> float | None:
    """Return the delta at which a file with these terms holds its own cap on epsilon."""
    at: float | None = terms.get("budget.delta")
    return terms.get("privacy.delta") if at is None else at


def _loosens(terms: Mapping[str, Any], own: Pipeline) -> bool:
    """Return whether a file had a cap on epsilon, and now holds it at a larger delta or at no stated one."""
    old, new = promised_delta(terms), promised_delta(terms_of(own))
    return terms.get("budget.epsilon") is not None and old is not None and (new is None or new > old)


def _place(key: str, own: Pipeline) -> Path:
    """Return where a file states a key of its statement: the budget's delta comes before that of [privacy]."""
    return ("budget", key) if key == "delta" and own.budget is not None and own.budget.delta is not None else ("privacy", key)


def _weaker(member: Member, old: Any, new: Any) -> bool:
    """Return whether a change may weaken the file. A smaller limit does not, nor does a key that was not stated before."""
    if member.safer is None:
        return True
    if member.safer == "stated":
        return old is not None
    return old is not None and (new is None or new > old)


def horizon_data(horizon: Horizon | None) -> tuple[int, float] | None:
    """Return the number of runs and the cap of a horizon."""
    return None if horizon is None else (horizon.count, horizon.epsilon)


def horizon_change(old: tuple[int, float] | None, new: tuple[int, float] | None, outside: Sequence[Horizon]) -> Iterator[Changed]:
    """Yield a changed horizon.

    Fewer runs, a higher cap or a removed horizon weaken the file, unless a horizon from outside implies the earlier one.
    """
    if old != new:
        horizons = [horizon for horizon in (new, *map(horizon_data, outside)) if horizon is not None]
        implied = old is None or any(runs >= old[0] and epsilon <= old[1] for runs, epsilon in horizons)
        yield Changed(f"gate.horizon {_runs(old)} -> {_runs(new)}", not implied, ("gate", "horizon"))


def _runs(horizon: tuple[int, float] | None) -> str:
    return "none" if horizon is None else f"{horizon[0]:,} runs within {horizon[1]:g}"


def value_in_words(value: Any) -> str:
    """Return a value as it appears in messages: as in TOML, and `none` for an absent one."""
    if value is None:
        return "none"
    if isinstance(value, str):
        return value
    return f"{value:g}" if type(value) is float else shown(value)


def keeps_its_width(old: str | None, new: str | None) -> bool:
    """Return whether two windows, each a comma-separated list, have equally many blocks of the same ordered kind.

    Such a window may move, since each block has a cap of its own. Blocks without an order hold different people, and nothing but the
    file itself supports a narrower window, which charges fewer blocks.
    """
    if old is None or new is None:
        return False
    kinds = [load(target)((), MOST_HASH_PARTS) for target in BLOCKS.values() if load(target).ordered]
    return any(_width(kind, old.split(", ")) == _width(kind, new.split(", ")) > 0 for kind in kinds)


def _width(kind: BlockKind, stated: Sequence[str]) -> int:
    """Return the number of blocks in a window; 0 if they are not of this kind, or if they are too many for one window."""
    ranks: set[int] = set()
    for text in stated:
        first, dots, last = text.partition("..")
        ends = (first, last if dots else first)
        if not all(map(kind.holds, ends)) or not 0 <= kind.rank(ends[1]) - kind.rank(ends[0]) < WIDEST:
            return 0
        ranks.update(range(kind.rank(ends[0]), kind.rank(ends[1]) + 1))
    return len(ranks) if len(ranks) <= WIDEST else 0
