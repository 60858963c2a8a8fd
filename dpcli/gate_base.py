"""What a file was before: at a git revision, or in the JSON of an earlier gate; and whether its number still means the same."""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpcli.accounting import account
from dpcli.errors import DpcliError, InputError
from dpcli.pipeline.model import Pipeline

Statement = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Base:
    """One file at the base: epsilon at delta, what it was a statement about, and the caps it set itself."""

    epsilon: float
    delta: float | None
    statement: Statement
    cap: float | None
    max_increase: float | None

    def changes(self, statement: Statement, pipeline: Pipeline, capped_outside: bool) -> list[str]:
        """What makes the two numbers incomparable, and caps that the file has loosened for itself."""
        found = [
            f"{key} {self.statement.get(key)} -> {value}" for key, value in statement.items() if self.statement.get(key) != value
        ]
        cap = pipeline.budget.epsilon if pipeline.budget else None
        if not capped_outside and self.cap is not None and cap is not None and cap > self.cap:
            found.append(f"budget.epsilon {self.cap:g} -> {cap:g}")
        limit = pipeline.gate.max_increase
        if self.max_increase is not None and (limit is None or limit > self.max_increase):
            found.append(f"gate.max_increase {self.max_increase:g} -> {'none' if limit is None else f'{limit:g}'}")
        return found


def statement_of(pipeline: Pipeline) -> dict[str, Any]:
    """What an epsilon is a statement about: change one of these and it is another number."""
    privacy = pipeline.privacy
    return {
        "unit": privacy.unit,
        "adjacency": privacy.adjacency.value,
        "max_contributions": privacy.max_contributions,
        "dataset_size": privacy.dataset_size,
        "delta": pipeline.budget.delta if pipeline.budget and pipeline.budget.delta is not None else privacy.delta,
        "adaptive": privacy.adaptive,
    }


def bases_at(ref: str, paths: Sequence[str], cap: Callable[[Pipeline], Pipeline]) -> dict[str, Base | None]:
    """Each file as it stands at the git revision `ref`; None where it is not there. Raises InputError for a bad `ref`."""
    if ref.startswith("-") or "-" in paths:
        raise InputError(f"--base-ref: expected a git revision and files, found {ref!r} and {', '.join(paths)}")
    return {path: _at_ref(ref, path, cap) for path in paths}


def _at_ref(ref: str, path: str, cap: Callable[[Pipeline], Pipeline]) -> Base | None:
    from dpcli.pipeline.read import parse

    folder, name = os.path.split(os.path.abspath(path))
    if _git(folder, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}").returncode != 0:
        raise InputError(f"--base-ref: expected a commit known to git in {folder}, found {ref!r}")
    shown = _git(folder, "show", f"{ref}:./{name}")
    if shown.returncode != 0:
        return None
    try:
        own = parse(shown.stdout, f"{ref}:{path}")
        pipeline = cap(own)
        result = account(pipeline, delta=pipeline.budget.delta if pipeline.budget else None)
    except DpcliError as error:
        raise InputError(f"{path} at {ref} cannot be compared with: {error}") from None
    return Base(
        result.upper, result.delta, statement_of(pipeline), own.budget.epsilon if own.budget else None, own.gate.max_increase
    )


def _git(folder: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["git", "-C", folder, *arguments], capture_output=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"--base-ref: git cannot be run: {error}") from None


def bases_from(baseline: str, paths: Sequence[str]) -> dict[str, Base | None]:
    """Each file as an earlier `dpcli gate -f json` found it."""
    if not os.path.isfile(baseline):
        raise InputError(f"--baseline {baseline}: expected a regular file, found none")
    try:
        found = json.loads(Path(baseline).read_bytes())
        if found["schema"] != "dpcli/gate/v1":
            raise ValueError(f"schema {found['schema']!r}")
        read = {
            os.path.normpath(entry["pipeline"]["path"]): _from_json(entry)
            for entry in found["files"]
            if entry["result"] is not None
        }
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"--baseline {baseline}: expected what dpcli gate -f json writes, found something else ({error!r})"
        ) from None
    return {path: read.get(os.path.normpath(path)) for path in paths}


def _from_json(entry: Mapping[str, Any]) -> Base:
    form, stated = entry["base_form"], entry["result"]["epsilon_upper"]
    epsilon = math.inf if stated == "inf" else stated
    if type(epsilon) not in (int, float) or not epsilon >= 0.0:
        raise ValueError(f"epsilon {stated!r}")
    return Base(float(epsilon), form["statement"]["delta"], form["statement"], form["budget_epsilon"], form["max_increase"])
