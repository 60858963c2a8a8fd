"""The caps on epsilon and rho: of flags, the policy and the file the tighter ones hold."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from dpcli.analysis.account import Account, EpsilonVerdict, headline
from dpcli.analysis.rho import warning_level
from dpcli.base.errors import InputError
from dpcli.base.rounding import up
from dpcli.base.values import dataclass
from dpcli.file.pipeline.model import Budget, Pipeline
from dpcli.gate.merged_caps import BUDGET, POLICY, HeldCap, Outside, StatedCap, flag, held
from dpcli.gate.terms import promised_delta
from dpcli.gate.verdicts import Condition, Target


@dataclass(frozen=True, slots=True)
class Holding:
    """The caps that hold for a file. epsilon: by their deltas, several where none makes another needless. delta: the smallest stated."""

    epsilon: tuple[HeldCap, ...]
    rho: tuple[HeldCap, ...]
    delta: float | None

    def judges(self, delta: float | None) -> bool:
        """Whether a cap holds at this delta; where none is on epsilon, whether the epsilon is told at it."""
        return delta in ({one.cap.delta for one in self.epsilon} or {self.delta})


def holding(own: Pipeline, outside: Outside) -> Holding:
    """The caps that hold for a file with its own caps.

    A cap on epsilon holds at the delta that is stated with it, else at the smallest of all. A delta that is stated without an epsilon is
    one for every cap: no cap holds at a larger one.
    """
    budget = own.budget or Budget()
    promised = budget.delta if budget.delta is not None else own.privacy.delta
    flags, policy = outside.flags, outside.policy
    pairs = (
        (BUDGET, budget.epsilon, promised if budget.epsilon is not None else budget.delta),
        (POLICY, policy.epsilon, policy.delta),
        (flag("--max-epsilon"), flags.epsilon, flags.delta),
    )
    smallest = min((d for d in (promised, own.privacy.delta, policy.delta, flags.delta) if d is not None), default=None)
    bare = [delta for _, epsilon, delta in pairs if epsilon is None and delta is not None]
    stated = [
        StatedCap(epsilon, source, min((smallest if delta is None else delta, *bare)) if smallest is not None else None)
        for source, epsilon, delta in pairs
        if epsilon is not None
    ]
    rho = [*([] if budget.rho is None else [StatedCap(budget.rho, BUDGET)]), *outside.stated("rho", "--max-rho")]
    return Holding(held(stated), held(rho), smallest)


def capped(own: Pipeline, outside: Outside) -> Pipeline:
    """The pipeline with the caps that hold: on epsilon the one at the smallest delta; as it is where there is none."""
    caps = holding(own, outside)
    if not caps.epsilon and not caps.rho:
        return own
    first = caps.epsilon[0].cap if caps.epsilon else None
    rho = caps.rho[0].cap.value if caps.rho else None
    warn_at = own.budget.warn_at if own.budget else Budget().warn_at
    epsilon, delta = (None, caps.delta) if first is None else (first.value, first.delta)
    return replace(own, budget=Budget(epsilon, delta, warn_at, rho))


def require_cap(own: Pipeline, outside: Outside) -> None:
    """Raise InputError where no cap holds."""
    caps = holding(own, outside)
    if not caps.epsilon and not caps.rho:
        raise InputError(f"{own.path}: budget: no cap to judge by: state a [budget] in the file, or give --max-epsilon or --policy")


def kept_caps(terms: Mapping[str, Any], own: Pipeline, outside: Outside) -> dict[str, str]:
    """Each key of a file's earlier caps that a cap of now makes up for, whatever becomes of the key, and that cap: `the policy's 3.0`.

    terms: what the file said before, as `terms_of` has it.
    """
    caps, delta = holding(own, outside), promised_delta(terms)
    rises = held(outside.stated("max_increase", "--max-increase"))
    keys = {"budget.epsilon": caps.epsilon, "budget.rho": caps.rho, "gate.max_increase": rises}
    kept = {}
    for key, holding_now in keys.items():
        old = terms.get(key)
        by = next((one.cap for one in holding_now if old is not None and one.cap.is_within(old, delta)), None)
        if by is not None:
            kept[key] = f"{by.source.whose} {by.value!r}"
    return kept


def delta_condition(own: Pipeline, outside: Outside) -> Iterator[Condition]:
    """A no to a file that holds its epsilon to a larger delta than the one that it promises."""
    promised, at = own.privacy.delta, own.budget.delta if own.budget else None
    if outside.tightest.delta is None and promised is not None and at is not None and at > promised:
        text = f"budget.delta: expected at most privacy.delta = {promised!r}, found {at!r}"
        yield Condition("delta", "fail", text, ("budget", "delta"))


def cap_conditions(result: Account, caps: Holding | None = None) -> Iterator[Condition]:
    """Whether what the pipeline spends is within its caps, of which there is one at least; what no accountant bounds is unknown.

    No waiver speaks of rho. caps: where they may come from several places, which is then said.
    """
    assert result.budget is not None
    epsilon, rho = result.budget.epsilon, result.budget.rho
    near = f", above the {warning_level(result.pipeline)}"
    if epsilon is None and math.isinf(result.upper):
        yield _uncertified(result.delta)
    words = [one.words() for one in caps.epsilon] if caps is not None else []
    if epsilon is not None:
        yield _epsilon_condition(epsilon, words[0] if words else "", near)
    for one, said in zip(caps.epsilon[1:] if caps is not None else (), words[1:], strict=True):
        yield _epsilon_condition(_spent(result.pipeline, one.cap), said, near)
    if rho is not None:
        said = caps.rho[0].words() if caps is not None and caps.rho else ""
        text = f"{rho.words()}{said}{near if rho.verdict == 'warn' else ''}"
        yield Condition("rho", rho.verdict, text, ("budget", "rho"))


def _epsilon_condition(cap: EpsilonVerdict, words: str, near: str) -> Condition:
    """Whether a cap holds. words: where it comes from; near: what is added where it nearly does not."""
    if math.isinf(cap.spent):
        return _uncertified(cap.delta)
    text = f"epsilon {up(cap.spent)} at delta = {cap.delta!r}, cap {cap.cap!r}{words}{near if cap.verdict == 'warn' else ''}"
    return Condition("budget", cap.verdict, text, measured=cap.spent, target=Target(cap.cap, cap.delta))


def _uncertified(delta: float) -> Condition:
    return Condition("budget", "unknown", f"no finite epsilon can be certified at delta = {delta!r}")


def _spent(pipeline: Pipeline, cap: StatedCap) -> EpsilonVerdict:
    """What the pipeline spends against a further cap, at the delta of that."""
    assert pipeline.budget is not None
    budget = Budget(cap.value, cap.delta, pipeline.budget.warn_at)
    judged = headline(replace(pipeline, budget=budget), delta=cap.delta).budget
    assert judged is not None and judged.epsilon is not None
    return judged.epsilon
