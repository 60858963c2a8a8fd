"""The CI gate: several files against their caps and against what they cost before; unknown is never a pass."""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from dpcli.accounting import Account, account
from dpcli.errors import CannotCertify, DpcliError, InputError
from dpcli.pipeline.diagnostics import Diagnostic, InvalidFile
from dpcli.pipeline.model import Budget, Pipeline

Verdict = Literal["pass", "fail", "unknown", "invalid"]
EXIT_CODES: dict[Verdict, int] = {"pass": 0, "fail": 1, "unknown": 3, "invalid": 2}
PRECEDENCE: tuple[Verdict, ...] = ("invalid", "unknown", "fail", "pass")

Linter = Callable[[str], tuple[Diagnostic, ...]]


@dataclass(frozen=True, slots=True)
class Condition:
    """One thing a file must satisfy, and whether it does."""

    name: str
    verdict: Verdict
    message: str
    key: str = "budget"


@dataclass(frozen=True, slots=True)
class Judged:
    """One file: its account (None where it cannot be read), the conditions, what it cost at the base, and the diagnostics."""

    path: str
    account: Account | None
    conditions: tuple[Condition, ...]
    base: float | None
    diagnostics: tuple[Diagnostic, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst of the conditions."""
        return worst(condition.verdict for condition in self.conditions)


@dataclass(frozen=True, slots=True)
class Policy:
    """Caps from outside the files; each, where given, replaces the file's own.

    epsilon, delta: cap and the delta it is measured at. max_increase: over the base, in nats.
    """

    epsilon: float | None = None
    delta: float | None = None
    max_increase: float | None = None


def checked_policy(
    epsilon: float | None, delta: float | None, max_increase: float | None, base_ref: str | None, baseline: str | None
) -> Policy:
    """The policy from flags. Raises InputError for numbers out of range, two bases, or an increase without a base."""
    if epsilon is not None and not 0.0 < epsilon < math.inf:
        raise InputError(f"--max-epsilon: expected a number > 0, found {epsilon!r}")
    if delta is not None and not 0.0 <= delta < 1.0:
        raise InputError(f"--delta: expected a number in [0, 1), found {delta!r}")
    if max_increase is not None and not 0.0 <= max_increase < math.inf:
        raise InputError(f"--max-increase: expected a number >= 0, found {max_increase!r}")
    if base_ref and baseline:
        raise InputError("expected one of --base-ref and --baseline, found both")
    if max_increase is not None and not (base_ref or baseline):
        raise InputError("--max-increase: expected --base-ref or --baseline to compare with, found neither")
    return Policy(epsilon, delta, max_increase)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict that decides the exit code."""
    found = set(verdicts)
    return next((verdict for verdict in PRECEDENCE if verdict in found), "pass")


def gate(paths: Sequence[str], policy: Policy, bases: Mapping[str, float | None] | None, lint: Linter) -> tuple[Judged, ...]:
    """Judge each file.

    Args:
        bases: epsilon of each path at the base, None for a path that is new there; no comparison where `bases` is None.
        lint: diagnostics of a file; an error among them fails it.
    """
    return tuple(_judge(path, policy, bases, lint) for path in paths)


def _judge(path: str, policy: Policy, bases: Mapping[str, float | None] | None, lint: Linter) -> Judged:
    from dpcli.pipeline.read import load

    try:
        pipeline = capped(load(path), policy)
        result = account(pipeline, delta=pipeline.budget.delta if pipeline.budget else None)
        diagnostics = lint(path)
    except InvalidFile as error:
        return Judged(
            path, None, (Condition("file", "invalid", "the file cannot be read as a pipeline", ""),), None, error.diagnostics
        )
    except InputError as error:
        return Judged(path, None, (Condition("file", "invalid", str(error), ""),), None, ())
    conditions = [_cap(result), *_findings(diagnostics)]
    base = None if bases is None else bases.get(path)
    if bases is not None:
        conditions.append(_increase(result, base, pipeline.gate.max_increase))
    return Judged(path, result, tuple(conditions), base, diagnostics)


def capped(pipeline: Pipeline, policy: Policy) -> Pipeline:
    """The pipeline with the policy's caps in place of its own. Raises InputError where neither states one."""
    own = pipeline.budget
    epsilon = policy.epsilon if policy.epsilon is not None else own.epsilon if own else None
    if epsilon is None:
        raise InputError(f"{pipeline.path}: budget: expected a [budget] in the file or --max-epsilon, found neither")
    delta = next((d for d in (policy.delta, own.delta if own else None, pipeline.privacy.delta) if d is not None), None)
    limit = policy.max_increase if policy.max_increase is not None else pipeline.gate.max_increase
    return replace(
        pipeline, budget=Budget(epsilon, delta, own.warn_at if own else 0.8), gate=replace(pipeline.gate, max_increase=limit)
    )


def _cap(result: Account) -> Condition:
    from dpcli.report.rounding import up

    assert result.budget is not None
    cap = result.budget
    if math.isinf(cap.spent):
        return Condition("budget", "unknown", "no finite epsilon can be certified")
    text = f"epsilon {up(cap.spent)} at delta = {cap.delta:g}, cap {cap.epsilon:g}"
    return Condition("budget", "fail" if cap.spent > cap.epsilon else "pass", text + _remedy(result))


def _remedy(result: Account) -> str:
    """What would fit: the least noise, in the mechanism that runs most often and can be brought to the cap by its noise alone."""
    from dpcli.calibration import calibrate, parameter_key

    cap = result.budget
    if cap is None or cap.spent <= cap.epsilon:
        return ""
    for charge in sorted(result.charges, key=lambda charge: -charge.count):
        key = parameter_key(charge.entries[0], "noise")
        if key is not None and len(charge.entries) == 1:
            with suppress(InputError, CannotCertify):
                fit = calibrate(result.pipeline, cap.epsilon, cap.delta, targets=((charge.name, key),))
                return f"; {key} = {fit.value:g} in {charge.name} would fit"
    return ""


def _findings(diagnostics: tuple[Diagnostic, ...]) -> list[Condition]:
    return [Condition(d.rule, "fail", f"{d.key}: {d.message}", d.key) for d in diagnostics if d.severity == "error"]


def _increase(result: Account, base: float | None, limit: float | None) -> Condition:
    from dpcli.report.rounding import up

    if base is None:
        return Condition("increase", "pass", "new file: nothing to compare with")
    change = result.upper - base
    text = f"epsilon {up(base)} -> {up(result.upper)} ({'+' if change >= 0 else ''}{up(change)})"
    if limit is None:
        return Condition("increase", "pass", text)
    if not math.isfinite(change):
        return Condition("increase", "unknown", text)
    return Condition("increase", "fail" if change > limit else "pass", f"{text}, allowed +{limit:g}")


def bases_at(ref: str, paths: Sequence[str], policy: Policy) -> dict[str, float | None]:
    """Epsilon of each file as it stands at the git revision `ref`; None where it is not there. Raises InputError for a bad `ref`."""
    return {path: _at_ref(ref, path, policy) for path in paths}


def _at_ref(ref: str, path: str, policy: Policy) -> float | None:
    from dpcli.pipeline.read import parse

    folder, name = os.path.split(os.path.abspath(path))
    if ref.startswith("-"):
        raise InputError(f"expected a git revision, found {ref!r}")
    if _git(folder, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}").returncode != 0:
        raise InputError(f"--base-ref: expected a commit known to git in {folder}, found {ref!r}")
    shown = _git(folder, "show", f"{ref}:./{name}")
    if shown.returncode != 0:
        return None
    try:
        pipeline = capped(parse(shown.stdout, f"{ref}:{path}"), policy)
        return account(pipeline, delta=pipeline.budget.delta if pipeline.budget else None).upper
    except DpcliError as error:
        raise InputError(f"{path} at {ref} cannot be compared with: {error}") from None


def _git(folder: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["git", "-C", folder, *arguments], capture_output=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"--base-ref: git cannot be run: {error}") from None


def bases_from(baseline: str, paths: Sequence[str]) -> dict[str, float | None]:
    """Epsilon of each file from the JSON that an earlier `dpcli gate -f json` or `dpcli account -f json` wrote."""
    try:
        found = json.loads(Path(baseline).read_bytes())
        files = found["files"] if found["schema"] == "dpcli/gate/v1" else [found]
        epsilons = {entry["pipeline"]["path"]: float(entry["result"]["epsilon_upper"]) for entry in files}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"--baseline {baseline}: expected what dpcli gate -f json writes, found something else ({error!r})"
        ) from None
    return {path: epsilons.get(path) for path in paths}
