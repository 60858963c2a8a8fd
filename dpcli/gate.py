"""The CI gate: several files against their caps and against what they cost before; unknown is never a pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from dpcli.accounting import Account, account
from dpcli.errors import CannotCertify, InputError
from dpcli.gate_base import Base, statement_of
from dpcli.pipeline.diagnostics import Diagnostic, InvalidFile
from dpcli.pipeline.model import Budget, Pipeline
from dpcli.report.rounding import up

Verdict = Literal["pass", "fail", "unknown", "invalid"]
EXIT_CODES: dict[Verdict, int] = {"pass": 0, "fail": 1, "unknown": 3, "invalid": 2}
PRECEDENCE: tuple[Verdict, ...] = ("invalid", "unknown", "fail", "pass")

Reader = Callable[[str], tuple[Pipeline, tuple[Diagnostic, ...]]]


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
    allow_statement_change: let a file change what its epsilon means, or loosen its own caps, against the base.
    """

    epsilon: float | None = None
    delta: float | None = None
    max_increase: float | None = None
    allow_statement_change: bool = False


def checked_policy(
    epsilon: float | None,
    delta: float | None,
    max_increase: float | None,
    allow_statement_change: bool,
    base_ref: str | None,
    baseline: str | None,
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
    return Policy(epsilon, delta, max_increase, allow_statement_change)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict that decides the exit code."""
    found = set(verdicts)
    return next((verdict for verdict in PRECEDENCE if verdict in found), "pass")


def gate(paths: Sequence[str], policy: Policy, bases: Mapping[str, Base | None] | None, read: Reader) -> tuple[Judged, ...]:
    """Judge each file.

    Args:
        bases: what each path was at the base, None for a path that is new there; no comparison where `bases` is None.
        read: the pipeline in a file and what the rules say of it; an error among those fails the file.
    """
    return tuple(_judge(path, policy, bases, read) for path in paths)


def _judge(path: str, policy: Policy, bases: Mapping[str, Base | None] | None, read: Reader) -> Judged:
    diagnostics: tuple[Diagnostic, ...] = ()
    try:
        pipeline, diagnostics = read(path)
        pipeline = capped(pipeline, policy)
        result = account(pipeline, delta=pipeline.budget.delta if pipeline.budget else None)
    except InvalidFile as error:
        return Judged(
            path, None, (Condition("file", "invalid", "the file cannot be read as a pipeline", ""),), None, error.diagnostics
        )
    except InputError as error:
        rules = _findings(diagnostics)  # a rule that says why comes before the accountant's own refusal
        return Judged(path, None, tuple(rules) or (Condition("file", "invalid", str(error), ""),), None, diagnostics)
    conditions = [_cap(result), *_findings(diagnostics)]
    base = None if bases is None else bases.get(path)
    if bases is not None:
        conditions += _against(result, base, policy)
    return Judged(path, result, tuple(conditions), base.epsilon if base else None, diagnostics)


def capped(pipeline: Pipeline, policy: Policy) -> Pipeline:
    """The pipeline with the policy's caps in place of its own. Raises InputError where neither states one."""
    own = pipeline.budget
    epsilon = policy.epsilon if policy.epsilon is not None else own.epsilon if own else None
    if epsilon is None:
        raise InputError(f"{pipeline.path}: budget: expected a [budget] in the file or --max-epsilon, found neither")
    delta = next((d for d in (policy.delta, own.delta if own else None, pipeline.privacy.delta) if d is not None), None)
    return replace(pipeline, budget=Budget(epsilon, delta, own.warn_at if own else 0.8))


def _cap(result: Account) -> Condition:
    assert result.budget is not None
    cap = result.budget
    if math.isinf(cap.spent):
        return Condition("budget", "unknown", "no finite epsilon can be certified")
    near = ", above the warning level" if cap.verdict == "warn" else ""
    text = f"epsilon {up(cap.spent)} at delta = {cap.delta!r}, cap {cap.epsilon!r}{near}"
    return Condition("budget", "fail" if cap.spent > cap.epsilon else "pass", text + _remedy(result))


def _remedy(result: Account) -> str:
    """What would fit: the least noise, in the mechanism that runs most often and can be brought to the cap by its noise alone."""
    from dpcli.calibration import calibrate, parameter_key

    cap = result.budget
    if cap is None or cap.spent <= cap.epsilon:
        return ""
    for charge in sorted(result.charges, key=lambda charge: -charge.count)[:2]:
        key = parameter_key(charge.entries[0], "noise")
        if key is not None and len(charge.entries) == 1:
            with suppress(InputError, CannotCertify):
                fit = calibrate(result.pipeline, cap.epsilon, cap.delta, targets=((charge.name, key),))
                return f"; {key} = {fit.value:.10g} in {charge.name} would fit"
    return ""


def _findings(diagnostics: tuple[Diagnostic, ...]) -> list[Condition]:
    return [Condition(d.rule, "fail", f"{d.key}: {d.message}", d.key) for d in diagnostics if d.severity == "error"]


def _against(result: Account, base: Base | None, policy: Policy) -> list[Condition]:
    """The conditions that need the base: that the number still means the same, and how much it rose."""
    if base is None:
        return [Condition("increase", "pass", "new file: nothing to compare with")]
    changed = base.changes(statement_of(result.pipeline), result.pipeline, policy.epsilon is not None)
    verdict: Verdict = "fail" if changed and not policy.allow_statement_change else "pass"
    found = (
        [Condition("statement", verdict, "; ".join(changed) + " (--allow-statement-change lets it pass)", "privacy")]
        if changed
        else []
    )
    return [*found, _increase(result, base, policy)]


def _increase(result: Account, base: Base, policy: Policy) -> Condition:
    """The rise of epsilon at the base's delta, against the flag, the base's own limit, or the file's."""
    limits = (policy.max_increase, base.max_increase, result.pipeline.gate.max_increase)
    limit = next((value for value in limits if value is not None), None)
    now = result.upper if base.delta in (None, result.delta) else account(result.pipeline, delta=base.delta).upper
    change = now - base.epsilon
    at = "" if base.delta is None else f" at delta = {base.delta!r}"
    text = f"epsilon {up(base.epsilon)} -> {up(now)} ({'+' if change >= 0 else ''}{up(change)}){at}"
    if limit is None:
        return Condition("increase", "pass", text)
    if not math.isfinite(change):
        return Condition("increase", "unknown", text)
    return Condition("increase", "fail" if change > limit else "pass", f"{text}, allowed +{limit:g}")
