"""What a session costs: whatever the votes are, which is the guarantee, and given the votes, which is private."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcli.base.errors import CannotCertify
from dpcli.numerics.closed.conversion import balle, classic
from dpcli.predict.pate.held_costs import realised_costs
from dpcli.predict.pate.sanitised import Sanitised, sanitised
from dpcli.predict.voting.vote_costs import VoteCosts

if TYPE_CHECKING:
    from dpcli.analysis.account import Account
    from dpcli.predict.pate.plan import VotingPlan
    from dpcli.predict.pate.transcript import Transcript
    from dpcli.predict.voting.votes import VoteCounts


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
    """plan.account is the guarantee. expected: over the noise of a session; realised: of one that has.

    as_planned: the account of a session that had been planned to end where this one did, whatever the votes are; None where none was held.
    sanitised: what is released of `realised`, where the file says how.
    """

    plan: VotingPlan
    votes: VoteCounts | None
    expected: VoteEpsilon | None
    realised: VoteEpsilon | None
    as_planned: Account | None = None
    sanitised: Sanitised | None = None


def vote_account(plan: VotingPlan) -> VoteAccount:
    """Of the votes that the file names or that `fit` has left, and of the transcript, where there is one."""
    from dpcli.predict.pate.kept_votes import votes_kept
    from dpcli.predict.pate.transcript import read_transcript

    votes = votes_kept(plan)
    if votes is None:
        return VoteAccount(plan, None, None, None)
    asked = min(len(votes), plan.queries)
    kept = read_transcript(plan)
    expected = None
    if plan.pate.check == "votes":  # what a student will have learnt by then is not known beforehand
        expected = _epsilon(plan.aggregator.expected(votes.counts[:asked], votes.largest[:asked]), plan)
    if kept is None or not len(kept):
        return VoteAccount(plan, votes, expected, None)
    realised = None
    with suppress(CannotCertify):  # what is lost cannot be priced, and the guarantee stands
        realised = _epsilon(realised_costs(plan, votes, kept), plan)
    noised = sanitised(plan, kept)
    return VoteAccount(plan, votes, expected, realised, _as_planned(plan, kept), noised)


def _as_planned(plan: VotingPlan, kept: Transcript) -> Account | None:
    """None where nothing was answered, which no entry can state."""
    from dpcli.analysis.account import account

    answers = len(kept.answered)
    return account(plan.with_limits(len(kept), answers)) if answers else None


def _epsilon(costs: VoteCosts, plan: VotingPlan) -> VoteEpsilon | None:
    """None where the file's delta is 0, at which nothing is known."""
    delta = plan.account.delta
    if not delta:
        return None
    epsilon, order = costs.epsilon(delta, balle)
    return VoteEpsilon(epsilon, order, costs.epsilon(delta, classic)[0], costs.asked, costs.answered)
