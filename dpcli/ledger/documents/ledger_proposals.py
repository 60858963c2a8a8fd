"""What waits for a second person's approval, in words and in the machine form."""

from __future__ import annotations

from typing import Any

from dpcli.ledger.proposals import Proposal
from dpcli.ledger.state import LedgerState


def asked(proposal: Proposal, state: LedgerState) -> str:
    """What it would change."""
    asks = proposal.asks
    if asks["kind"] == "amend":
        return f"a cap of epsilon {asks['epsilon']!r} instead of {state.epsilon!r}"
    if asks["kind"] == "quota":
        return f"{asks['share']} of the cap for {'' if asks['of'] == 'person' else 'the team '}{asks['name']}"
    if asks["kind"] == "moved":
        return f"to move the dataset to {asks['to']}"
    return f'to give back "{asks["key"]}"'


def proposed(proposal: Proposal, state: LedgerState) -> str:
    """The answer to whoever proposed it."""
    until = f"proposed in entry {proposal.seq}, until {proposal.expires}: {asked(proposal, state)}"
    raises = proposal.asks["kind"] == "amend" and proposal.asks["epsilon"] > state.largest
    seen = ", who says whether an output was seen (--no-output-seen)" if raises else ""
    return f"{until}; nothing changes before another person approves it{seen}: dpcli budget approve LEDGER {proposal.seq} --reason TEXT"


def waiting(state: LedgerState, now: str) -> tuple[str, ...]:
    """A line for each that can still be approved."""
    return tuple(
        f"waits for another person's approval: entry {each.seq} of {each.who}, until {each.expires}: {asked(each, state)} "
        f"({each.asks['why']})"
        for each in state.proposals.values()
        if each.expires > now
    )


def proposals_data(state: LedgerState) -> dict[str, Any]:
    """Those that are open, expired ones too; nothing in a ledger that takes no second person."""
    if state.terms is None or not state.terms.two_person:
        return {}
    return {
        "proposals": [
            {"entry": each.seq, "who": each.who, "expires": each.expires, "asks": dict(each.asks)}
            for each in state.proposals.values()
        ]
    }
