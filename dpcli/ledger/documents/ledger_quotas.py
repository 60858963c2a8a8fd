"""Quotas in words and in the machine form: whose, how much of each is used, and what is left."""

from __future__ import annotations

from typing import Any

from dpcli.base.rounding import up as rounded
from dpcli.ledger import amounts
from dpcli.ledger.denial import down
from dpcli.ledger.filters.filter import label
from dpcli.ledger.quotas import Quota, concerning
from dpcli.ledger.state import LedgerState


def used(state: LedgerState, quota: Quota) -> float:
    """The share of a quota that is used; of blocks, on the fullest."""
    return quota.share_used(state.quota_used(quota), state.caps)


def alerted(state: LedgerState, quota: Quota) -> bool:
    """Whether it is used as far as its alert says."""
    return quota.share < 1 and used(state, quota) >= float(quota.alert_at)


def said(state: LedgerState, quota: Quota) -> str:
    """One quota, in a sentence."""
    spent, limits = state.quota_used(quota), quota.limits(state.caps)
    left = {name: max(value, value * 0) for name, value in amounts.add(limits, spent, -1).items()}
    words = " and ".join(f"{down(value)} of {label(name)}" for name, value in left.items() if state.caps[name])
    members = f" ({', '.join(quota.members)})" if quota.of == "team" else ""
    on = "" if state.open_terms().family is None else " on the fullest block"
    share = used(state, quota)
    taken = f"used to {rounded(100.0 * share, 1)} %" if share <= 100.0 else "exceeded by what was charged before it"
    return f"{quota.words}{members}, {quota.share} of the cap, is {taken}{on}: {words} left"


def warnings(state: LedgerState, who: str) -> tuple[str, ...]:
    """A line for each quota of somebody that is used as far as its alert says."""
    return tuple(f"warning: {said(state, quota)}" for quota in concerning(state.quotas, who) if alerted(state, quota))


def strangers(state: LedgerState, quota: Quota) -> tuple[str, ...]:
    """A line where members of a quota were never charged for anything: under a name that nobody signs with, it holds nobody."""
    names = [name for name in quota.members if name not in (state.people or {})] if quota.share < 1 else []
    if not names:
        return ()
    listed = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
    holds = f"{quota.words} holds whoever signs with exactly {'that name' if len(names) == 1 else 'those names'}"
    return (f"note: {listed} {'was' if len(names) == 1 else 'were'} charged nothing here so far; {holds}",)


def lines(state: LedgerState) -> tuple[str, ...]:
    """A line for each quota that limits anything."""
    return tuple(
        ("warning: " if alerted(state, quota) else "") + said(state, quota) for quota in state.quotas.values() if quota.share < 1
    )


def quotas_data(state: LedgerState) -> dict[str, Any]:
    """Every quota that was ever set, as it now is; nothing where none was."""
    if not state.quotas:
        return {}
    return {
        "quotas": [
            {
                "of": quota.of,
                "name": quota.name,
                "members": list(quota.members),
                "share": str(quota.share),
                "alert_at": str(quota.alert_at),
                "entry": quota.seq,
                "spent": {name: str(value) for name, value in state.quota_used(quota).items()},
                "limit": {name: str(value) for name, value in quota.limits(state.caps).items()},
                "share_used": used(state, quota),
                "alert": alerted(state, quota),
            }
            for quota in state.quotas.values()
        ]
    }
