"""The conditions that need the base: that the number still means the same, and how much it rose."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from dpcli.analysis.account import Account, headline
from dpcli.base.rounding import up
from dpcli.base.stated import difference
from dpcli.file.pipeline.gate_keys import Horizon
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.toml.findings import Path
from dpcli.file.toml.limits import escaped_path
from dpcli.gate.bases import Base
from dpcli.gate.caps import kept_caps
from dpcli.gate.merged_caps import Outside
from dpcli.gate.rises import blocking, warning
from dpcli.gate.terms import Changed, changed_horizon, changed_terms, horizon_data
from dpcli.gate.verdicts import Condition, Target, Verdict


def new_file(result: Account, outside: Outside, unpriced: str = "") -> Condition:
    """A file that was not there, or whose version at the base cannot be read (`unpriced` says why): a warning where the rise is limited, as
    all of its epsilon may be one."""
    before = f"the version at the base cannot be read ({unpriced})" if unpriced else "new file: no earlier version"
    limits = blocking(outside, result.pipeline.gate.max_increase).stated()
    if not limits:
        return Condition("increase", "warn" if unpriced else "pass", before)
    were = "was" if len(limits) == 1 else "were"
    return Condition("increase", "warn", f"{before}, so {' and '.join(limits)} {were} not applied")


def epsilon_now(result: Account, base: Base) -> float:
    """Epsilon at the base's delta."""
    return result.upper if base.delta in (None, result.delta) else headline(result.pipeline, delta=base.delta).upper


def statement_conditions(
    result: Account, own: Pipeline, base: Base, outside: Outside, horizons: Sequence[Horizon], escaped: Sequence[str]
) -> Iterator[Condition]:
    """Whether the file is still a statement about the same, and holds itself to no less than before; and what else it changed.

    own: the file with its own caps. horizons: from outside. escaped: what the policy held the file to as it was, and no longer does.
    """
    terms = changed_terms(base.terms, base.statement, own, result.pipeline, kept_caps(base.terms, own, outside))
    changed = [*terms, *changed_horizon(base.horizon, horizon_data(own.gate.horizon), horizons)]
    weaker = [one for one in changed if one.weaker]
    words = "; ".join([*(one.words for one in weaker), *escaped])
    raised = [one for one in changed if not one.weaker and one.held]
    other = [one for one in changed if not one.weaker and not one.held]
    if words:
        allowed = outside.tightest.allow_statement_change
        verdict: Verdict = "pass" if allowed else "fail"
        note = "(allowed)" if allowed else "(--allow-statement-change lets it pass)"
        yield Condition("statement", verdict, f"{words} {note}", _first(weaker))
    for one in raised:
        yield Condition("terms", "pass", f"{one.words}; {one.held} holds", one.key)
    if other:
        text = "; ".join(one.words for one in other)
        yield Condition("terms", "pass", f"{text} (weakens nothing that holds here)", _first(other))


def _first(changed: Sequence[Changed]) -> Path:
    """Where the file states the first key that changed; the policy may be what did, and the file is then judged by its statement."""
    return changed[0].key if changed else ("privacy",)


def increase_condition(result: Account, base: Base, now: float, outside: Outside) -> Condition:
    """The rise of epsilon at the base's delta, against the smallest of the limits from outside, the base's own, and the file's."""
    block, warn = blocking(outside, result.pipeline.gate.max_increase, base.max_increase), warning(outside)
    change = difference(now, base.epsilon)
    at = "" if base.delta is None else f" at delta = {base.delta!r}"
    before = f"renamed from {escaped_path(base.renamed)}: " if base.renamed else ""
    text = f"{before}epsilon {up(base.epsilon)} -> {up(now)} ({'+' if change >= 0 else ''}{up(change)}){at}"
    limit = block.allowed(base.epsilon)
    if (limit is not None or warn.stated()) and not math.isfinite(change):
        return Condition("increase", "unknown", text)
    told = f", above the warning level {warn.words(base.epsilon)}" if warn.passed_by(change, base.epsilon) else ""
    if limit is None:
        return Condition("increase", "warn" if told else "pass", f"{text}{told}")
    target = Target(base.epsilon + limit, base.delta)
    verdict: Verdict = "fail" if block.passed_by(change, base.epsilon) else "warn" if told else "pass"
    return Condition("increase", verdict, f"{text}, allowed {block.words(base.epsilon)}{told}", measured=now, target=target)
