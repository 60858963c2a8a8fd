"""The conditions that a file must meet: caps, horizon, lint rules, policy, and, against a base, its statement and its rise."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpcli.analysis.account import Account, headline
from dpcli.analysis.budget_verdict import EpsilonVerdict, warning_level
from dpcli.base.errors import InputError
from dpcli.base.rounding import up
from dpcli.base.stated import difference
from dpcli.base.values import dataclass
from dpcli.file.pipeline.gate_keys import Horizon
from dpcli.file.pipeline.model import Budget, Pipeline
from dpcli.file.toml.findings import Diagnostic, Path
from dpcli.file.toml.limits import escaped_path
from dpcli.file.toml.shown import escaped
from dpcli.gate.bases import Changed, changed_terms, horizon_change, horizon_data, promised_delta
from dpcli.gate.caps import BUDGET, POLICY, BindingCap, Outside, StatedCap, binding_caps, flag, max_rise, warn_rise
from dpcli.gate.policy import Policy, scheme_of
from dpcli.gate.verdicts import Base, Condition, Target, Verdict
from dpcli.git.command import holds, work_tree

HORIZON = ("gate", "horizon")
PLANNED = "a schedule fixed in advance; runs decided on after looking at results belong in a ledger"


@dataclass(frozen=True, slots=True)
class CapsInForce:
    """The caps that hold for a file.

    epsilon: the caps on epsilon in the order of their deltas; several if none implies another.
    rho: the caps on rho.
    delta: the smallest delta stated.
    """

    epsilon: tuple[BindingCap, ...]
    rho: tuple[BindingCap, ...]
    delta: float | None

    def judges(self, delta: float | None) -> bool:
        """Return whether a cap on epsilon holds at this delta; if there is none, whether epsilon is reported at this delta."""
        return delta in ({level.cap.delta for level in self.epsilon} or {self.delta})


def caps_in_force(own: Pipeline, outside: Outside) -> CapsInForce:
    """Return the caps in force for a file: its own, the flags' and the policy's.

    A cap on epsilon holds at the delta stated with it, else at the smallest delta stated. A delta stated without an epsilon limits every
    cap: no cap holds at a larger delta.
    """
    budget = own.budget or Budget()
    flags, policy = outside.flags, outside.policy
    pairs = (
        (BUDGET, budget.epsilon, own.cap_delta if budget.epsilon is not None else budget.delta),
        (POLICY, policy.epsilon, policy.delta),
        (flag("--max-epsilon"), flags.epsilon, flags.delta),
    )
    smallest = min((d for d in (own.cap_delta, own.privacy.delta, policy.delta, flags.delta) if d is not None), default=None)
    bare = [delta for _, epsilon, delta in pairs if epsilon is None and delta is not None]
    stated = [
        StatedCap(epsilon, source, min((smallest if delta is None else delta, *bare)) if smallest is not None else None)
        for source, epsilon, delta in pairs
        if epsilon is not None
    ]
    rho = [*([] if budget.rho is None else [StatedCap(budget.rho, BUDGET)]), *outside.stated("rho", "--max-rho")]
    return CapsInForce(binding_caps(stated), binding_caps(rho), smallest)


def with_caps_in_force(own: Pipeline, outside: Outside) -> Pipeline:
    """Return the pipeline with the caps in force, of those on epsilon the cap at the smallest delta; unchanged if there is none."""
    caps = caps_in_force(own, outside)
    if not caps.epsilon and not caps.rho:
        return own
    first = caps.epsilon[0].cap if caps.epsilon else None
    rho = caps.rho[0].cap.value if caps.rho else None
    warn_at = own.budget.warn_at if own.budget else Budget().warn_at
    epsilon, delta = (None, caps.delta) if first is None else (first.value, first.delta)
    return replace(own, budget=Budget(epsilon, delta, warn_at, rho))


def require_cap(own: Pipeline, outside: Outside) -> None:
    """Raises InputError if no cap holds."""
    caps = caps_in_force(own, outside)
    if not caps.epsilon and not caps.rho:
        raise InputError(f"{own.path}: budget: no cap to judge by: state a [budget] in the file, or give --max-epsilon or --policy")


def cap_conditions(result: Account, caps: CapsInForce | None = None) -> Iterator[Condition]:
    """Yield the conditions that compare the spending of a pipeline with its caps, of which there is at least one.

    The verdict is "unknown" if no accountant bounds the spending. No waiver covers a cap on rho. caps: the caps in force with their
    sources, which messages then name; None if all caps are the file's own.
    """
    assert result.budget is not None
    epsilon, rho = result.budget.epsilon, result.budget.rho
    warning = f", above the {warning_level(result.pipeline)}"
    if epsilon is None and math.isinf(result.upper):
        yield _uncertified(result.delta)
    sources = [cap.words() for cap in caps.epsilon] if caps is not None else []
    if epsilon is not None:
        yield _epsilon_condition(epsilon, sources[0] if sources else "", warning)
    for cap, source in zip(caps.epsilon[1:] if caps is not None else (), sources[1:], strict=True):
        yield _epsilon_condition(_spent(result.pipeline, cap.cap), source, warning)
    if rho is not None:
        source = caps.rho[0].words() if caps is not None and caps.rho else ""
        text = f"{rho.words()}{source}{warning if rho.verdict == 'warn' else ''}"
        yield Condition("rho", rho.verdict, text, ("budget", "rho"))


def _epsilon_condition(cap: EpsilonVerdict, source: str, warning: str) -> Condition:
    if math.isinf(cap.spent):
        return _uncertified(cap.delta)
    text = f"epsilon {up(cap.spent)} at delta = {cap.delta!r}, cap {cap.cap!r}{source}{warning if cap.verdict == 'warn' else ''}"
    return Condition("budget", cap.verdict, text, measured=cap.spent, target=Target(cap.cap, cap.delta))


def _uncertified(delta: float) -> Condition:
    return Condition("budget", "unknown", f"no finite epsilon can be certified at delta = {delta!r}")


def _spent(pipeline: Pipeline, cap: StatedCap) -> EpsilonVerdict:
    """Return the verdict on a further cap, at the delta of that cap."""
    assert pipeline.budget is not None
    budget = Budget(cap.value, cap.delta, pipeline.budget.warn_at)
    judged = headline(replace(pipeline, budget=budget), delta=cap.delta).budget
    assert judged is not None and judged.epsilon is not None
    return judged.epsilon


def delta_condition(own: Pipeline, outside: Outside) -> Iterator[Condition]:
    """Fail a file that caps its epsilon at a larger delta than the one in [privacy]."""
    promised, at = own.privacy.delta, own.budget.delta if own.budget else None
    if outside.tightest.delta is None and promised is not None and at is not None and at > promised:
        text = f"budget.delta: expected at most privacy.delta = {promised!r}, found {at!r}"
        yield Condition("delta", "fail", text, ("budget", "delta"))


def horizon_condition(result: Account, horizon: Horizon) -> Condition:
    """Compare the composition of all runs of the horizon with its cap, at the delta of the budget.

    The sound accountants compose the runs; the total is not a multiple of one run's epsilon. Runs chosen from the results of earlier
    ones are not covered: they need a privacy filter.
    """
    try:
        total = _total(result, horizon.count)
    except InputError as error:
        return Condition("horizon", "invalid", str(error), HORIZON)
    text = f"{horizon.schedule}: epsilon {up(total)} at delta = {result.delta!r} for all together, cap {horizon.epsilon!r}"
    if math.isinf(total):
        return Condition("horizon", "unknown", text, HORIZON)
    target = Target(horizon.epsilon, result.delta, horizon.count)
    if total <= horizon.epsilon:
        return Condition("horizon", "pass", f"{text} ({PLANNED})", HORIZON, measured=total, target=target)
    fit = runs_that_fit(result, horizon)
    room = f"at most {fit:,} runs would fit" if fit else "not even one run would fit"
    return Condition("horizon", "fail", f"{text}; {room} ({PLANNED})", HORIZON, measured=total, target=target)


def runs_that_fit(result: Account, horizon: Horizon) -> int:
    """Return, by bisection, the largest number of runs below the horizon's whose composition is within its cap."""
    good, bad = 0, horizon.count
    while bad - good > 1:
        # By ratio while the ends are far apart: a count may have eighteen digits.
        middle = math.isqrt(max(good, 1) * bad) if bad > 8 * max(good, 1) else (good + bad) // 2
        good, bad = (middle, bad) if _total(result, middle) <= horizon.epsilon else (good, middle)
    return good


def _total(result: Account, runs: int) -> float:
    return headline(result.pipeline, delta=result.delta, runs=runs).upper


def runs_of(pipeline: Pipeline, horizon: Horizon | None) -> int:
    """Return the number of runs planned for a file: by its own horizon or by the one from outside, whichever plans more."""
    return max((planned.count for planned in (horizon, pipeline.gate.horizon) if planned is not None), default=1)


def binding_horizons(*stated: Horizon | None) -> tuple[Horizon, ...]:
    """Return the horizons that bind; a horizon with at least as many runs within at most the same epsilon implies another."""
    ordered = sorted((horizon for horizon in stated if horizon is not None), key=lambda horizon: (-horizon.count, horizon.epsilon))
    return tuple(horizon for k, horizon in enumerate(ordered) if all(horizon.epsilon < other.epsilon for other in ordered[:k]))


def finding_conditions(diagnostics: Sequence[Diagnostic], pipeline: Pipeline) -> Iterator[Condition]:
    """Turn lint findings into conditions: an error fails the file, a warning stays a warning."""
    prefixes = [f'mechanism["{escaped(entry.name)}"]' for entry in pipeline.mechanisms]
    for diagnostic in diagnostics:
        about = [
            entry.name
            for entry, prefix in zip(pipeline.mechanisms, prefixes, strict=True)
            if diagnostic.key == prefix or diagnostic.key.startswith(prefix + ".")
        ]
        # Names are cut in messages: if two look the same, a waiver for one of them must not reach the other.
        mechanism = about[0] if len(about) == 1 else None
        message = f"{diagnostic.key}: {diagnostic.message}" if diagnostic.key else diagnostic.message
        verdict: Verdict = "fail" if diagnostic.severity == "error" else "warn"
        yield Condition(diagnostic.rule, verdict, message, (), (diagnostic.line, diagnostic.column), mechanism)


def required_conditions(policy: Policy, pipeline: Pipeline) -> Iterator[Condition]:
    """Fail a file that lacks a value that the policy requires, or uses a sampling scheme that it forbids."""
    privacy = pipeline.privacy
    stated = (
        ("unit", privacy.unit, policy.require_unit),
        ("adjacency", privacy.adjacency, policy.require_adjacency),
        ("dataset", privacy.dataset, policy.require_dataset),
    )
    for key, value, allowed in stated:
        if allowed and value not in allowed:
            expected = " or ".join(str(getattr(item, "value", item)) for item in allowed)
            own = "none" if value is None else getattr(value, "value", value)
            yield Condition("policy", "fail", f"privacy.{key}: the policy expects {expected}, found {own}", ("privacy", key))
    for index, entry in enumerate(pipeline.mechanisms):
        if not entry.spec.free and scheme_of(entry) in policy.forbid_sampling:
            message = f"{escaped(entry.name)}: the policy forbids sampling scheme {scheme_of(entry)}"
            yield Condition("policy", "fail", message, ("mechanism", index, "sampling"))


def link_condition(path: str, is_compared: bool) -> Iterator[Condition]:
    """Report a file in a work tree that links to a place outside it: an error if changes are compared, else a warning.

    A change under review does not show the content behind such a link.
    """
    spelled = os.path.abspath(path)
    real, current = os.path.realpath(spelled), work_tree(os.path.realpath(os.getcwd()))
    # Of the repository under review, not of one that a link among the file's folders leads into.
    top = current if current is not None and holds(current, spelled) else work_tree(os.path.dirname(spelled))
    if path == "-" or top is None or holds(os.path.realpath(top), real):
        return
    text = f"a link out of the repository, to {escaped_path(real)}: expected a file that the change itself holds"
    yield Condition("link", "fail" if is_compared else "warn", text, ())


def new_file(result: Account, outside: Outside, unpriced: str = "") -> Condition:
    """Warn of a file without an earlier version if a limit on the rise exists, since the limit cannot be applied to it.

    unpriced: the reason why the version at the base cannot be read; empty if there is no such version.
    """
    before = f"the version at the base cannot be read ({unpriced})" if unpriced else "new file: no earlier version"
    limits = max_rise(outside, result.pipeline.gate.max_increase).stated()
    if not limits:
        return Condition("increase", "warn" if unpriced else "pass", before)
    verb = "was" if len(limits) == 1 else "were"
    return Condition("increase", "warn", f"{before}, so {' and '.join(limits)} {verb} not applied")


def epsilon_now(result: Account, base: Base) -> float:
    """Return the current epsilon at the base's delta."""
    return result.upper if base.delta in (None, result.delta) else headline(result.pipeline, delta=base.delta).upper


def statement_conditions(
    result: Account, own: Pipeline, base: Base, outside: Outside, horizons: Sequence[Horizon], escaped: Sequence[str]
) -> Iterator[Condition]:
    """Fail a file that changes its statement or loosens its own terms, and list its other changes.

    Args:
        result: the account of the current file, under the caps in force.
        own: the current file with its own caps.
        base: the earlier version.
        outside: the caps of flags and policy.
        horizons: the horizons from outside.
        escaped: policy caps that held for the earlier version and no longer hold, in words.
    """
    terms = changed_terms(base.terms, base.statement, own, result.pipeline, _replaced_caps(base.terms, own, outside))
    changes = [*terms, *horizon_change(base.horizon, horizon_data(own.gate.horizon), horizons)]
    weaker = [change for change in changes if change.weaker]
    words = "; ".join([*(change.words for change in weaker), *escaped])
    other = [change for change in changes if not change.weaker and not change.replaced_by]
    if words:
        allowed = outside.tightest.allow_statement_change
        verdict: Verdict = "pass" if allowed else "fail"
        note = "(allowed)" if allowed else "(--allow-statement-change lets it pass)"
        yield Condition("statement", verdict, f"{words} {note}", _first_path(weaker))
    for change in changes:
        if not change.weaker and change.replaced_by:
            yield Condition("terms", "pass", f"{change.words}; {change.replaced_by} holds", change.key)
    if other:
        text = "; ".join(change.words for change in other)
        yield Condition("terms", "pass", f"{text} (weakens no cap that holds)", _first_path(other))


def _replaced_caps(terms: Mapping[str, Any], own: Pipeline, outside: Outside) -> dict[str, str]:
    """Return each key of a file's earlier caps that a cap of now implies, and that cap: `the policy's 3.0`.

    terms: of the file at the base, as `terms_of` has them.
    """
    caps, delta = caps_in_force(own, outside), promised_delta(terms)
    rises = binding_caps(outside.stated("max_increase", "--max-increase"))
    keys = {"budget.epsilon": caps.epsilon, "budget.rho": caps.rho, "gate.max_increase": rises}
    replaced_by = {}
    for key, binding in keys.items():
        old = terms.get(key)
        by = next((level.cap for level in binding if old is not None and level.cap.is_within(old, delta)), None)
        if by is not None:
            replaced_by[key] = f"{by.source.whose} {by.value!r}"
    return replaced_by


def _first_path(changed: Sequence[Changed]) -> Path:
    """Return the first key that changed; if only the policy did, the file's statement."""
    return changed[0].key if changed else ("privacy",)


def increase_condition(result: Account, base: Base, now: float, outside: Outside) -> Condition:
    """Compare the rise of epsilon at the base's delta with the smallest limit from outside, the base and the file."""
    block, warn = max_rise(outside, result.pipeline.gate.max_increase, base.max_increase), warn_rise(outside)
    change = difference(now, base.epsilon)
    at = "" if base.delta is None else f" at delta = {base.delta!r}"
    before = f"renamed from {escaped_path(base.renamed)}: " if base.renamed else ""
    text = f"{before}epsilon {up(base.epsilon)} -> {up(now)} ({'+' if change >= 0 else ''}{up(change)}){at}"
    limit = block.allowed(base.epsilon)
    if (limit is not None or warn.stated()) and not math.isfinite(change):
        return Condition("increase", "unknown", text)
    near = f", above the warning level {warn.words(base.epsilon)}" if warn.passed_by(change, base.epsilon) else ""
    if limit is None:
        return Condition("increase", "warn" if near else "pass", f"{text}{near}")
    target = Target(base.epsilon + limit, base.delta)
    verdict: Verdict = "warn" if near else "pass"
    if block.passed_by(change, base.epsilon):
        verdict = "fail"
    return Condition("increase", verdict, f"{text}, allowed {block.words(base.epsilon)}{near}", measured=now, target=target)
