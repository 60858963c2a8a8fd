"""What a session costs: whatever the votes are, which is the guarantee, and given the votes, which is private."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcli.errors import InputError
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.closed.conversion import balle, classic
from dpcli.predict.pate.vote_costs import VoteCosts

if TYPE_CHECKING:
    from dpcli.analysis.account import Account
    from dpcli.predict.pate.plan import VotingPlan
    from dpcli.predict.pate.transcript import Transcript
    from dpcli.predict.pate.votes import VoteCounts


@dataclass(frozen=True, slots=True)
class VoteEpsilon:
    """An epsilon that depends on the votes, by both conversions; private as it stands.

    answered: how many queries, or how many on average.
    """

    epsilon: float
    order: float
    classic: float
    asked: int
    answered: float


@dataclass(frozen=True, slots=True)
class VoteAccount:
    """plan.account is the guarantee. expected: over the noise of a session that has not been held; realised: of one that has.

    as_planned: the account of a session that had been planned to end where this one did, whatever the votes are; None where none was held.
    """

    plan: VotingPlan
    votes: VoteCounts | None
    expected: VoteEpsilon | None
    realised: VoteEpsilon | None
    as_planned: Account | None = None


def vote_account(plan: VotingPlan) -> VoteAccount:
    """Of the votes that the file names or that `fit` has left, and of the transcript, where there is one."""
    from dpcli.predict.pate.kept_votes import votes_kept
    from dpcli.predict.pate.transcript import read_transcript

    votes = votes_kept(plan)
    if votes is None:
        return VoteAccount(plan, None, None, None)
    asked = min(len(votes), plan.queries)
    kept = read_transcript(plan)
    expected = _epsilon(plan.aggregator.expected(votes.counts[:asked], votes.largest[:asked]), plan)
    if kept is None or not len(kept):
        return VoteAccount(plan, votes, expected, None)
    return VoteAccount(plan, votes, expected, _epsilon(realised_costs(plan, votes, kept), plan), _as_planned(plan, kept))


def _as_planned(plan: VotingPlan, kept: Transcript) -> Account | None:
    """None where nothing was answered, which no entry can state."""
    from dpcli.analysis.account import account

    answers = len(kept.answered)
    return account(plan.with_limits(len(kept), answers)) if answers else None


def realised_costs(plan: VotingPlan, votes: VoteCounts, kept: Transcript) -> VoteCosts:
    """Of every query that was charged, the lost ones too: those whose answer was charged count as answered."""
    asked = np.array(kept.asked)
    if asked.max(initial=-1) >= len(votes):
        raise InputError(f"{plan.path}: expected votes for every query that was asked, found {len(votes)} rows")
    return plan.aggregator.realised(votes.counts[asked], compared(votes, kept)[asked], np.array(kept.charged, dtype=float))


def compared(votes: VoteCounts, kept: Transcript) -> Array:
    """What the threshold was compared with, (n,): the largest count, or the largest difference to what the student predicted."""
    found = votes.largest.copy()
    for query, prediction in kept.predictions.items():
        found[query] = float((votes.counts[query] - votes.teachers * np.array(prediction)).max())
    return found


def _epsilon(costs: VoteCosts, plan: VotingPlan) -> VoteEpsilon | None:
    """None where the file's delta is 0, at which nothing is known."""
    delta = plan.account.delta
    if not delta:
        return None
    epsilon, order = costs.epsilon(delta, balle)
    return VoteEpsilon(epsilon, order, costs.epsilon(delta, classic)[0], costs.asked, costs.answered)
