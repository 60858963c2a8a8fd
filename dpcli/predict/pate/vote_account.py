"""The account of a session of votes: whatever the votes are, which is the guarantee, and given the votes, which is private."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcli.base.errors import CannotCertify
from dpcli.numerics.closed.conversion import balle, classic
from dpcli.predict.pate.sanitised import Sanitised, realised_costs, sanitised

if TYPE_CHECKING:
    from dpcli.analysis.account import Account
    from dpcli.predict.pate.pate_plan import VotingPlan
    from dpcli.predict.voting.aggregators import VoteCosts
    from dpcli.predict.voting.vote_counts import VoteCounts


@dataclass(frozen=True, slots=True)
class VoteEpsilon:
    """An epsilon that depends on the votes, by both conversions; private as it stands. answered: of the queries, or how many on average."""

    epsilon: float
    order: float
    classic: float
    queries: int
    answered: float


@dataclass(frozen=True, slots=True)
class VoteAccount:
    """plan.account is the guarantee. expected: over the noise of a session; realised: of one that has been held.

    as_planned: the account of a session that had been planned to end where this one did, whatever the votes are; None where none was held,
    or nothing was answered, which no entry can state. sanitised: what is released of `realised`, where the file says how.
    """

    plan: VotingPlan
    votes: VoteCounts | None
    expected: VoteEpsilon | None
    realised: VoteEpsilon | None
    as_planned: Account | None = None
    sanitised: Sanitised | None = None


def vote_account(plan: VotingPlan) -> VoteAccount:
    """Account for the votes that the file names or that `fit` has left, and the transcript, where there is one."""
    from dpcli.analysis.account import account
    from dpcli.predict.pate.transcript import read_transcript
    from dpcli.predict.pate.vote_files import votes_kept

    votes = votes_kept(plan)
    if votes is None:
        return VoteAccount(plan, None, None, None)
    kept = read_transcript(plan)
    expected = realised = None
    if plan.pate.check == "votes":  # what a student will have learnt by then is not known beforehand
        put = min(len(votes), plan.queries)
        expected = _epsilon(plan.aggregator.expected(votes.counts[:put], votes.largest[:put]), plan)
    if kept is None or not len(kept):
        return VoteAccount(plan, votes, expected, None)
    with suppress(CannotCertify):  # what is lost cannot be priced, and the guarantee stands
        realised = _epsilon(realised_costs(plan, votes, kept), plan)
    answers = len(kept.answered)
    as_planned = account(plan.with_limits(len(kept), answers)) if answers else None
    return VoteAccount(plan, votes, expected, realised, as_planned, sanitised(plan, kept))


def _epsilon(costs: VoteCosts, plan: VotingPlan) -> VoteEpsilon | None:
    """Return both epsilons; None where the file's delta is 0, at which nothing is known."""
    delta = plan.account.delta
    if not delta:
        return None
    epsilon, order = costs.epsilon(delta, balle)
    return VoteEpsilon(epsilon, order, costs.epsilon(delta, classic)[0], costs.queries, costs.answered)
