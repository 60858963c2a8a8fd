"""What a file was in the JSON of an earlier gate: read as anything from outside is, since a pass may hang on it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpcli.base.errors import InputError
from dpcli.base.fields import COUNT, DELTA, NON_NEGATIVE, POSITIVE, Constraint
from dpcli.gate.bases import Base
from dpcli.git.command import work_tree


def bases_from(baseline: str, paths: Sequence[str]) -> dict[str, Base | None]:
    """Each file as an earlier `dpcli gate -f json` found it; None where it found no such file.

    Files are the same where their paths lead to the same place, whatever the spelling. A relative path of the baseline counts from the
    working directory and from the root of the repository around it.

    Raises:
        InputError: no such baseline, something else, or a file that could not be accounted then, or stands there twice.
    """
    if not os.path.isfile(baseline):
        raise InputError(f"--baseline {baseline}: expected a regular file, found none")
    try:
        found = json.loads(Path(baseline).read_bytes())
        if found["schema"] != "dpcli/gate/v1":
            raise ValueError(f"schema {found['schema']!r}")
        entries = [(place, _from_json(entry)) for entry in found["files"] for place in _places(entry["pipeline"]["path"])]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError) as error:
        raise InputError(
            f"--baseline {baseline}: expected what dpcli gate -f json writes, found something else ({error!r})"
        ) from None
    return {path: _chosen(f"--baseline {baseline}: {path}", os.path.realpath(path), entries) for path in paths}


def _places(path: str) -> Iterator[str]:
    """Where a path of the baseline may lead."""
    here = os.getcwd()
    yield from {os.path.realpath(os.path.join(folder, path)) for folder in (here, work_tree(here) or here)}


def _chosen(what: str, place: str, entries: Sequence[tuple[str, Base | None]]) -> Base | None:
    found = [base for at, base in entries if at == place]
    if any(base is None for base in found):
        raise InputError(f"{what}: expected an account to compare with, found that the file could not be accounted then")
    if any(base != found[0] for base in found):
        raise InputError(f"{what}: expected one entry, found several; use the working directory that the baseline was written in")
    return found[0] if found else None


def _from_json(entry: Mapping[str, Any]) -> Base | None:
    """The figures of one file, None where it had none."""
    if entry["result"] is None:
        return None
    stated, epsilon = entry["base_form"], entry["result"]["epsilon_upper"]
    statement, horizon = dict(stated["statement"]), stated.get("horizon")
    return Base(
        math.inf if epsilon == "inf" else _number(epsilon, NON_NEGATIVE),
        _optional(statement["delta"], DELTA),
        statement,
        _terms(stated["terms"]),
        {str(name): (str(kind), _evidence(worth)) for name, (kind, worth) in stated["mechanisms"].items()},
        None if horizon is None else (int(_number(horizon[0], COUNT)), _number(horizon[1], POSITIVE)),
        tuple(dict(waiver) for waiver in stated.get("waivers", ())),
    )


def _terms(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Of the kinds that the keys have, so that they can be compared."""
    found = dict(stated)
    for key, rule in (("budget.epsilon", POSITIVE), ("gate.max_increase", NON_NEGATIVE), ("budget.warn_at", POSITIVE)):
        found[key] = _optional(found[key], rule)
    found["budget.rho"] = _optional(found.get("budget.rho"), POSITIVE)
    for key in ("budget.delta", "privacy.delta"):
        found[key] = _optional(found[key], DELTA)
    return found


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
