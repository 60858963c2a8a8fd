"""The conditions that the gate checks for one file: requirements of the file, each with a verdict and a message (verdicts.py).

judge.py collects them. Some concern the current file alone: its caps, its *horizon* (a planned number of runs with a cap on all of them),
its lint findings, the policy and the proof of its epsilon. Others compare it with its *base*, the earlier version: its *statement* (the
keys that say what epsilon means, such as unit and adjacency), its *terms* (all keys of [privacy], [budget] and [gate]), and the rise of its
epsilon.

`written` is a pipeline with the caps that its own file states, `external` the caps of flags and policy, and `result` the account under the
caps in force. A *target* is the epsilon with which a condition would pass. Epsilons are upper bounds, so a cap that passes does hold. An
epsilon that no accountant can bound is "unknown", which never passes.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpcli.analysis.account import Account, headline
from dpcli.analysis.budget_verdict import EpsilonVerdict, warning_level
from dpcli.base.errors import CannotCertify, InputError, NotRepresentable
from dpcli.base.rounding import up
from dpcli.base.stated import difference
from dpcli.file.pipeline.gate_keys import Horizon
from dpcli.file.pipeline.model import Budget, Entry, Pipeline
from dpcli.file.toml.findings import Diagnostic, Path
from dpcli.file.toml.limits import escaped_path
from dpcli.file.toml.shown import escaped
from dpcli.gate.caps import CapsInForce, ExternalCaps, StatedCap, binding_caps, caps_in_force, max_rise, warn_rise
from dpcli.gate.policy import Policy, scheme_of
from dpcli.gate.term_changes import TermChange, changed_terms, horizon_change, planned_runs, promised_delta
from dpcli.gate.verdicts import Base, Condition, Target, Verdict
from dpcli.git.work_trees import holds, work_tree

HORIZON_KEY = ("gate", "horizon")
HORIZON_CAVEAT = "for a schedule fixed in advance; charge runs that depend on earlier results to a ledger"
FAR_APART = 8  # ratio of two counts above which a search between them goes on at their geometric mean; affects speed alone


def cap_conditions(result: Account, caps: CapsInForce | None = None) -> Iterator[Condition]:
    """Yield the conditions that compare the privacy loss of a pipeline with its caps. The pipeline must have a budget.

    The verdict is "unknown" if no accountant finds a finite bound. A waiver cannot cover a cap on rho.

    Args:
        caps: The caps in force with their sources, which messages name; None if all caps are the file's own.
    """
    assert result.budget is not None
    epsilon, rho = result.budget.epsilon, result.budget.rho
    epsilon_caps, rho_caps = ((), ()) if caps is None else (caps.epsilon, caps.rho)
    warning = f", above the {warning_level(result.pipeline)}"
    if epsilon is None and math.isinf(result.upper):  # only rho has a cap, and no finite epsilon is certified
        yield _uncertified_condition(result.delta)
    if epsilon is not None:
        yield _epsilon_condition(epsilon, epsilon_caps[0].words() if epsilon_caps else "", warning)
    for cap in epsilon_caps[1:]:  # the first one is the cap of the budget
        yield _epsilon_condition(_verdict_on_cap(result.pipeline, cap.cap), cap.words(), warning)
    if rho is not None:
        source = rho_caps[0].words() if rho_caps else ""
        text = f"{rho.words()}{source}{warning if rho.verdict == 'warn' else ''}"
        yield Condition("rho", rho.verdict, text, ("budget", "rho"))


def _epsilon_condition(cap: EpsilonVerdict, source: str, warning: str) -> Condition:
    """Return the condition on one cap. `source` are words behind the cap, and `warning` those for an epsilon near it."""
    if math.isinf(cap.spent):
        return _uncertified_condition(cap.delta)
    text = f"epsilon {up(cap.spent)} at delta = {cap.delta!r}, cap {cap.cap!r}{source}{warning if cap.verdict == 'warn' else ''}"
    return Condition("budget", cap.verdict, text, measured=cap.spent, target=Target(cap.cap, cap.delta))


def _uncertified_condition(delta: float) -> Condition:
    return Condition("budget", "unknown", f"no finite epsilon can be certified at delta = {delta!r}")


def _verdict_on_cap(pipeline: Pipeline, cap: StatedCap) -> EpsilonVerdict:
    """Return the verdict on a cap that is not the cap of the budget, at the delta of this cap."""
    assert pipeline.budget is not None
    budget = Budget(cap.value, cap.delta, pipeline.budget.warn_at)
    judged = headline(replace(pipeline, budget=budget), delta=cap.delta).budget
    assert judged is not None and judged.epsilon is not None
    return judged.epsilon


def delta_condition(written: Pipeline, external: ExternalCaps) -> Iterator[Condition]:
    """Yield a failed condition if the delta of the file's budget is larger than the delta in [privacy].

    There is none if flags or the policy state a delta, which the file cannot change.
    """
    promised = written.privacy.delta
    of_budget = written.budget.delta if written.budget else None
    if external.tightest.delta is None and promised is not None and of_budget is not None and of_budget > promised:
        text = f"budget.delta: expected at most privacy.delta = {promised!r}, found {of_budget!r}"
        yield Condition("delta", "fail", text, ("budget", "delta"))


def horizon_condition(result: Account, horizon: Horizon) -> Condition:
    """Return the condition that all runs of the horizon, composed at the delta of the budget, stay within the horizon's cap.

    The accountants compose the runs, so the total is in general less than the sum of their epsilons. The condition does not cover runs that
    are chosen because of earlier results. Such runs need a privacy filter.
    """
    try:
        total = _epsilon_of_runs(result, horizon.count)
    except InputError as error:
        return Condition("horizon", "invalid", str(error), HORIZON_KEY)
    text = f"{horizon.schedule}: epsilon {up(total)} at delta = {result.delta!r} for all runs together, cap {horizon.epsilon!r}"
    if math.isinf(total):
        return Condition("horizon", "unknown", text, HORIZON_KEY)
    target = Target(horizon.epsilon, result.delta, horizon.count)
    if total <= horizon.epsilon:
        return Condition("horizon", "pass", f"{text} ({HORIZON_CAVEAT})", HORIZON_KEY, measured=total, target=target)
    fit = runs_that_fit(result, horizon)
    room = f"at most {fit:,} runs would fit" if fit else "not even one run would fit"
    return Condition("horizon", "fail", f"{text}; {room} ({HORIZON_CAVEAT})", HORIZON_KEY, measured=total, target=target)


def runs_that_fit(result: Account, horizon: Horizon) -> int:
    """Return the largest number of runs that are together within the horizon's cap. All runs of the horizon must exceed the cap."""
    fitting, exceeding = 0, horizon.count
    while exceeding - fitting > 1:
        # A count may have eighteen digits, so the bisection uses the geometric mean while the ends are far apart.
        lower = max(fitting, 1)
        middle = math.isqrt(lower * exceeding) if exceeding > FAR_APART * lower else (fitting + exceeding) // 2
        if _epsilon_of_runs(result, middle) <= horizon.epsilon:
            fitting = middle
        else:
            exceeding = middle
    return fitting


def _epsilon_of_runs(result: Account, runs: int) -> float:
    return headline(result.pipeline, delta=result.delta, runs=runs).upper


def runs_of(pipeline: Pipeline, horizon: Horizon | None) -> int:
    """Return the number of runs in the longer horizon, of the file or of flags and policy (`horizon`); 1 without a horizon."""
    return max((planned.count for planned in (horizon, pipeline.gate.horizon) if planned is not None), default=1)


def binding_horizons(*stated: Horizon | None) -> tuple[Horizon, ...]:
    """Return the horizons that no other horizon implies.

    A horizon implies another if it has at least as many runs and at most the same epsilon.
    """
    horizons = [horizon for horizon in stated if horizon is not None]
    binding: list[Horizon] = []
    for horizon in sorted(horizons, key=lambda horizon: (-horizon.count, horizon.epsilon)):
        if all(horizon.epsilon < longer.epsilon for longer in binding):
            binding.append(horizon)
    return tuple(binding)


def finding_conditions(diagnostics: Sequence[Diagnostic], pipeline: Pipeline) -> Iterator[Condition]:
    """Yield a condition for each lint finding. An error becomes the verdict "fail", and a warning becomes "warn"."""
    for diagnostic in diagnostics:
        about = [entry.name for entry in pipeline.mechanisms if _is_about(diagnostic, entry)]
        # Keys in findings shorten names. If two shortened names are equal, a waiver for one mechanism must not cover the other.
        mechanism = about[0] if len(about) == 1 else None
        message = f"{diagnostic.key}: {diagnostic.message}" if diagnostic.key else diagnostic.message
        verdict: Verdict = "fail" if diagnostic.severity == "error" else "warn"
        yield Condition(diagnostic.rule, verdict, message, (), (diagnostic.line, diagnostic.column), mechanism)


def _is_about(diagnostic: Diagnostic, entry: Entry) -> bool:
    """Return whether the key of a finding is an entry or a key of the entry."""
    key = f'mechanism["{escaped(entry.name)}"]'
    return diagnostic.key == key or diagnostic.key.startswith(f"{key}.")


def required_conditions(policy: Policy, pipeline: Pipeline) -> Iterator[Condition]:
    """Yield a failed condition for each required value that the file does not have, and for each forbidden sampling scheme."""
    privacy = pipeline.privacy
    stated = (
        ("unit", privacy.unit, policy.require_unit),
        ("adjacency", privacy.adjacency.value, tuple(adjacency.value for adjacency in policy.require_adjacency)),
        ("dataset", privacy.dataset, policy.require_dataset),
    )
    for key, value, allowed in stated:
        if allowed and value not in allowed:
            text = f"privacy.{key}: the policy expects {' or '.join(allowed)}, found {'none' if value is None else value}"
            yield Condition("policy", "fail", text, ("privacy", key))
    for index, entry in enumerate(pipeline.mechanisms):
        # An entry whose type never uses private data (`free`) has no sampling that matters.
        if not entry.spec.free and scheme_of(entry) in policy.forbid_sampling:
            message = f"{escaped(entry.name)}: the policy forbids sampling scheme {scheme_of(entry)}"
            yield Condition("policy", "fail", message, ("mechanism", index, "sampling"))


def link_condition(path: str, is_compared: bool) -> Iterator[Condition]:
    """Yield a condition for a file in a work tree that is a link to a file outside it.

    A change under review does not show the content behind such a link. The verdict is "fail" if the gate compares with a base, and "warn"
    otherwise.
    """
    stated = os.path.abspath(path)
    real, current = os.path.realpath(stated), work_tree(os.path.realpath(os.getcwd()))
    # This is the work tree of the repository under review. One of the folders may be a link to another repository.
    top = current if current is not None and holds(current, stated) else work_tree(os.path.dirname(stated))
    if path == "-" or top is None or holds(os.path.realpath(top), real):  # "-" is standard input
        return
    text = f"a link out of the repository, to {escaped_path(real)}: expected a file whose content is in the repository"
    yield Condition("link", "fail" if is_compared else "warn", text, ())


def new_file_condition(result: Account, external: ExternalCaps, unpriced: str = "") -> Condition:
    """Return the condition on the rise of a file that has no readable version at the base.

    It is a warning if there is a limit on the rise, which cannot be applied.

    Args:
        unpriced: The reason why the version at the base cannot be read; "" if there is no such version.
    """
    before = f"the version at the base cannot be read ({unpriced})" if unpriced else "new file: no earlier version"
    limits = max_rise(external, result.pipeline.gate.max_increase).stated()
    if not limits:
        return Condition("increase", "warn" if unpriced else "pass", before)
    verb = "was" if len(limits) == 1 else "were"
    return Condition("increase", "warn", f"{before}, so {' and '.join(limits)} {verb} not applied")


def epsilon_now(result: Account, base: Base) -> float:
    """Return the current epsilon at the delta of the base. Epsilons at two deltas cannot be compared.

    A base without a delta is compared at the current delta.
    """
    return result.upper if base.delta in (None, result.delta) else headline(result.pipeline, delta=base.delta).upper


def statement_conditions(
    result: Account, written: Pipeline, base: Base, external: ExternalCaps, horizons: Sequence[Horizon], lost_caps: Sequence[str]
) -> Iterator[Condition]:
    """Yield a failed condition if the file changes its privacy statement or loosens its terms. Yield a passed condition for other changes.

    Args:
        result: The account of the current file, under the caps in force.
        written: The current file with its own caps.
        horizons: The horizons of flags and policy.
        lost_caps: Caps of the policy, in words, that applied to the earlier version and no longer apply to the file.
    """
    terms = changed_terms(base.terms, base.statement, written, result.pipeline, _replaced_caps(base.terms, written, external))
    changes = [*terms, *horizon_change(base.horizon, planned_runs(written.gate.horizon), horizons)]
    weaker = [change for change in changes if change.weaker]
    words = "; ".join([*(change.words for change in weaker), *lost_caps])
    harmless = [change for change in changes if not change.weaker and not change.replaced_by]
    if words:
        allowed = external.tightest.allow_statement_change
        verdict: Verdict = "pass" if allowed else "fail"
        permission = "(allowed)"
        if not allowed:
            permission = '(allowed with a waiver of "statement", which names its approver, or --allow-statement-change)'
        yield Condition("statement", verdict, f"{words} {permission}", _first_path(weaker))
    for change in changes:
        if not change.weaker and change.replaced_by:
            yield Condition("terms", "pass", f"{change.words}; {change.replaced_by} applies", change.key)
    if harmless:
        text = "; ".join(change.words for change in harmless)
        yield Condition("terms", "pass", f"{text} (weakens no cap in force)", _first_path(harmless))


def _replaced_caps(terms: Mapping[str, Any], written: Pipeline, external: ExternalCaps) -> dict[str, str]:
    """Return the current cap in words, such as `the policy's 3.0`, for each cap in the base's terms that a current cap implies.

    If a file raises its own cap but a current cap implies the earlier one, the change loosens nothing.
    """
    caps, delta = caps_in_force(written, external), promised_delta(terms)
    rises = binding_caps(external.stated("max_increase", "--max-increase"))
    keys = {"budget.epsilon": caps.epsilon, "budget.rho": caps.rho, "gate.max_increase": rises}
    replaced_by = {}
    for key, binding in keys.items():
        earlier = terms.get(key)
        if earlier is None:
            continue
        cap = next((binding_cap.cap for binding_cap in binding if binding_cap.cap.is_within(earlier, delta)), None)
        if cap is not None:
            replaced_by[key] = f"{cap.source.possessive} {cap.value!r}"
    return replaced_by


def _first_path(changed: Sequence[TermChange]) -> Path:
    """Return the first key that changed. If only the policy has changed, return the key of [privacy]."""
    return changed[0].key if changed else ("privacy",)


def increase_condition(result: Account, base: Base, epsilon: float, external: ExternalCaps) -> Condition:
    """Return the condition on the rise of epsilon, at the delta of the base.

    The limit is the smallest limit of the flags, the policy, the base and the file. `epsilon` is the current one (`epsilon_now`).
    """
    limits, warning_levels = max_rise(external, result.pipeline.gate.max_increase, base.max_increase), warn_rise(external)
    change = difference(epsilon, base.epsilon)  # rounded up, so that the rise is not understated
    at_delta = "" if base.delta is None else f" at delta = {base.delta!r}"
    before = f"renamed from {escaped_path(base.earlier_path)}: " if base.earlier_path else ""
    text = f"{before}epsilon {up(base.epsilon)} -> {up(epsilon)} ({'+' if change >= 0 else ''}{up(change)}){at_delta}"
    limit = limits.allowed(base.epsilon)
    if (limit is not None or warning_levels.stated()) and not math.isfinite(change):  # no finite epsilon on one side
        return Condition("increase", "unknown", text)
    verdict: Verdict = "pass"
    warning = ""
    if warning_levels.is_exceeded_by(change, base.epsilon):
        verdict, warning = "warn", f", above the warning level {warning_levels.words(base.epsilon)}"
    if limit is None:
        return Condition("increase", verdict, f"{text}{warning}")
    if limits.is_exceeded_by(change, base.epsilon):
        verdict = "fail"
    text = f"{text}, allowed {limits.words(base.epsilon)}{warning}"
    return Condition("increase", verdict, text, measured=epsilon, target=Target(base.epsilon + limit, base.delta))


def proof_condition(result: Account, certificates: Sequence[str]) -> Condition:
    """Return the verdict on a file's epsilon as it is printed: "unknown" if no proof of it was found, with the reason.

    Args:
        certificates: Paths of certificates, one of which must be the proof. Without any, a proof is searched for.
    """
    if certificates:
        return _named_proof_condition(result, certificates)
    from dpcli.certify.certificate import prove
    from dpcli.certify.named_certificate import NamedProof, digest_of, text_of

    try:
        proof = prove(result.pipeline, delta=result.at)  # `at`: the delta of the account
    except NotRepresentable as error:
        return Condition("proof", "unknown", f"epsilon {up(result.upper)} has no proof: {error}", ())
    if proof.epsilon != proof.headline:  # the proved epsilon, as text, is not the printed one but a larger one
        return Condition(
            "proof", "unknown", f"epsilon {proof.headline} has no proof; {proof.epsilon} at delta = {proof.delta} has one", ()
        )
    digest = digest_of(text_of(proof.certificate))
    return Condition("proof", "pass", NamedProof(digest, proof.epsilon, proof.delta).words, ())


def _named_proof_condition(result: Account, certificates: Sequence[str]) -> Condition:
    """Return the verdict by the first certificate that proves the epsilon, or "unknown" with the reason why each does not."""
    from dpcli.certify.named_certificate import named_proof

    reasons = []
    for path in certificates:
        try:
            return Condition("proof", "pass", named_proof(path, result.pipeline, result.upper, result.at).words, ())
        except CannotCertify as error:
            reasons.append(str(error))
    return Condition("proof", "unknown", f"epsilon {up(result.upper)} has no proof: {'; '.join(reasons)}", ())
