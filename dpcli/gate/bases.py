"""The *base* of each file: the earlier version with which the gate compares it, so that a change cannot raise the cost unseen.

judge.py asks for the bases before it judges the files. `bases_at` reads them from a git revision (--base-ref), and `bases_from` from the
JSON that an earlier `dpcli gate -f json` wrote (--baseline). That JSON has numbers and *terms* (the values of [privacy], [budget] and
[gate]) but not the text of a file: it shows that epsilon rose, but not which change raised it (`costs_of`). An earlier version that is no
valid pipeline becomes an `UnreadableBase`, and the file is then judged like a new one, with a warning. A *standing* is the type of a
mechanism and the evidence for its cost; the *statement* consists of the keys that say what epsilon means.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from dpcli.analysis.account import headline
from dpcli.analysis.difference import Priced, priced_changes, statement_of
from dpcli.base.errors import DpcliError, InputError
from dpcli.base.fields import COUNT, DELTA, NON_NEGATIVE, POSITIVE, Constraint
from dpcli.base.values import dataclass
from dpcli.file.pipeline.gate_keys import Waiver
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.toml.findings import InvalidFile
from dpcli.file.toml.shown import first_names
from dpcli.gate.claims import standings_of
from dpcli.gate.term_changes import planned_runs, terms_of
from dpcli.gate.verdicts import Base, PlannedRuns, Standing, first_finding
from dpcli.git.past_files import PastFile, files_at
from dpcli.git.work_trees import work_tree
from dpcli.mechanisms.spec import CostEvidence

# The terms in the JSON of an earlier gate that are numbers, with the condition that each number must meet. `_checked_terms` checks
# "budget.rho" on its own, because this key may be absent.
CHECKED_TERMS = {
    "budget.epsilon": POSITIVE,
    "gate.max_increase": NON_NEGATIVE,
    "budget.warn_at": POSITIVE,
    "budget.delta": DELTA,
    "privacy.delta": DELTA,
}

AddCaps = Callable[[str, Pipeline], Pipeline]  # function that returns the pipeline at a path with the caps in force


@dataclass(frozen=True, slots=True)
class UnreadableBase:
    """An earlier version that cannot be read as a pipeline, with the reason."""

    reason: str


def waiver_data(waiver: Waiver) -> dict[str, Any]:
    """Return a waiver as a JSON value. Equal waivers have equal values."""
    return {**asdict(waiver), "expires": waiver.expires.isoformat()}


def base_form(pipeline: Pipeline, capped: Pipeline) -> dict[str, Any]:
    """Return the part of a gate's JSON with which a later gate compares (`bases_from`). `capped` has the caps in force."""
    return {
        "statement": statement_of(capped),
        "terms": terms_of(pipeline),
        "mechanisms": standings_of(pipeline),
        "horizon": planned_runs(pipeline.gate.horizon),
        "waivers": [waiver_data(waiver) for waiver in pipeline.gate.waiver],
    }


def costs_of(base: Base, data: bytes) -> tuple[Priced, ...]:
    """Return the changes from the base to a file with the content `data`, each with its cost if it alone were made to the base.

    The result is empty if the base is from the JSON of an earlier gate, which does not contain the text of the file.
    """
    if base.account is None or base.data is None:
        return ()
    return priced_changes(base.data, data, base.account)


def bases_at(ref: str, paths: Sequence[str], add_caps: AddCaps) -> dict[str, Base | UnreadableBase | None]:
    """Return the base of each file by its path, which is the version at the git revision `ref`; None for a new file.

    Raises InputError if `ref` is not a revision, a path is standard input, an earlier version is a Git LFS pointer, or has no account.
    """
    if ref.startswith("-") or "-" in paths:
        raise InputError(f"--base-ref: expected a git revision and files, found {ref!r} and {first_names(paths)}")
    past_files = files_at(ref, paths)
    return {path: None if past_file is None else _at_ref(ref, path, past_file, add_caps) for path, past_file in past_files.items()}


def _at_ref(ref: str, path: str, past_file: PastFile, add_caps: AddCaps) -> Base | UnreadableBase:
    """Return the base of one file from its content. Raises InputError for a Git LFS pointer, or if the account cannot be computed.

    The caps are those that apply to the current path.
    """
    from dpcli.file.pipeline.other_files import LFS_POINTER
    from dpcli.file.pipeline.read import parse

    name = past_file.earlier_path or path
    try:
        if past_file.data.startswith(LFS_POINTER):
            raise InputError("it is a Git LFS pointer: keep pipelines out of Git LFS")
        written = parse(past_file.data, f"{ref}:{name}")
        pipeline = add_caps(path, written)
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
    the root of the repository around it. Raises InputError if the JSON cannot be read or has another form, or if one of `paths` has an
    entry without an account or two different entries.
    """
    if not os.path.isfile(baseline):
        raise InputError(f"--baseline {baseline}: no such file")
    try:
        with open(baseline, "rb") as file:
            document = json.load(file)
        if document["schema"] != "dpcli/gate/v1":
            raise ValueError(f"schema {document['schema']!r}")
        entries = list(_entries(document["files"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError) as error:
        raise InputError(f"--baseline {baseline}: not written by dpcli gate -f json: {error!r}") from None
    return {path: _base_of_file(f"--baseline {baseline}: {path}", os.path.realpath(path), entries) for path in paths}


def _entries(files: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Base | None]]:
    """Yield the base of each file in the JSON, with each real path that its path may mean."""
    current = os.getcwd()
    folders = (current, work_tree(current) or current)
    for file in files:
        base = _from_json(file)
        for real_path in {os.path.realpath(os.path.join(folder, file["pipeline"]["path"])) for folder in folders}:
            yield real_path, base


def _base_of_file(what: str, real_path: str, entries: Sequence[tuple[str, Base | None]]) -> Base | None:
    """Return the base of one file; None if it has no entry.

    Raises InputError, with a message that begins with `what`, if an entry has no account or if two entries differ.
    """
    bases = [base for entry_path, base in entries if entry_path == real_path]
    if any(base is None for base in bases):  # `_from_json` returned None for the entry
        raise InputError(f"{what}: no comparison is possible, as the earlier gate computed no epsilon for this file")
    if any(base != bases[0] for base in bases):
        raise InputError(
            f"{what}: expected one entry, found {len(bases)}; use the working directory in which the baseline was written"
        )
    return bases[0] if bases else None


def _from_json(entry: Mapping[str, Any]) -> Base | None:
    """Return the base of one file from its JSON; None if the file had no account.

    Raises ValueError, KeyError, TypeError, AttributeError or IndexError if the JSON has another form than `base_form` writes.
    """
    if entry["result"] is None:
        return None
    stated_form, stated_epsilon = entry["base_form"], entry["result"]["epsilon_upper"]
    epsilon = math.inf if stated_epsilon == "inf" else _number(stated_epsilon, NON_NEGATIVE)
    statement = dict(stated_form["statement"])
    standings = {
        str(name): Standing(str(type_name), _evidence(evidence))
        for name, (type_name, evidence) in stated_form["mechanisms"].items()
    }
    horizon = stated_form.get("horizon")
    if horizon is not None:
        runs, cap = horizon[0], horizon[1]
        horizon = PlannedRuns(int(_number(runs, COUNT)), _number(cap, POSITIVE))
    return Base(
        epsilon,
        _optional(statement["delta"], DELTA),
        statement,
        terms=_checked_terms(stated_form["terms"]),
        standings=standings,
        horizon=horizon,
        waivers=tuple(dict(waiver) for waiver in stated_form.get("waivers", ())),
    )


def _checked_terms(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the terms of an entry after a check of their numbers.

    Raises KeyError if a term of `CHECKED_TERMS` is absent, and ValueError if a number is invalid.
    """
    terms = dict(stated)
    for key, rule in CHECKED_TERMS.items():
        terms[key] = _optional(terms[key], rule)
    terms["budget.rho"] = _optional(terms.get("budget.rho"), POSITIVE)  # absent in the JSON of a gate that knew no cap on rho
    return terms


def _evidence(stated: Any) -> CostEvidence:
    """Return the evidence with this number. Raises ValueError if no evidence has it."""
    if type(stated) is not int or stated not in tuple(CostEvidence):
        raise ValueError(f"evidence {stated!r} in place of one of {', '.join(map(str, CostEvidence))}")
    return CostEvidence(stated)


def _optional(stated: Any, rule: Constraint) -> float | None:
    return None if stated is None else _number(stated, rule)


def _number(stated: Any, rule: Constraint) -> float:
    """Return a number of the JSON as a float. Raises ValueError if it is a bool, or not a finite number that meets the rule."""
    if type(stated) not in (int, float) or not math.isfinite(stated) or not rule.holds(stated):
        raise ValueError(f"{stated!r} in place of {rule.text}")
    return float(stated)
