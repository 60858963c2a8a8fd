"""The costs of a voting session given its votes, for the owner of the data. The guarantee is the account that holds for any votes.

Teachers of disjoint shards of private data vote on public queries (pate_session.py). Where they agree, a noisy vote costs less than its
worst case, so an epsilon *given the votes* can be smaller; but it depends on private data and is itself private. `vote_account` computes it
for `dpcli pate account`. `expected` averages over the noise before a session, and `realised` uses what was answered. Only `sanitised` may
be released: it has noise, and is charged (vote_release.py).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcli.base.errors import CannotCertify
from dpcli.numerics.closed.conversion import balle, classic
from dpcli.predict.pate.transcript import read_transcript
from dpcli.predict.pate.vote_files import read_votes
from dpcli.predict.pate.vote_release import Sanitised, read_sanitised, realised_costs

if TYPE_CHECKING:
    from dpcli.analysis.account import Account
    from dpcli.predict.aggregators import VoteCosts
    from dpcli.predict.pate.pate_plan import VotingPlan
    from dpcli.predict.vote_counts import VoteCounts


@dataclass(frozen=True, slots=True)
class VoteEpsilon:
    """An epsilon that depends on the votes, and is private.

    Attributes:
        epsilon: Epsilon by the conversion of Balle et al., which is at most the classic one.
        order: Renyi order at which epsilon is attained.
        classic: Epsilon by the classic conversion.
        answered: Number of queries that were answered, or its expectation.
    """

    epsilon: float
    order: float
    classic: float
    queries: int
    answered: float


@dataclass(frozen=True, slots=True)
class VoteAccount:
    """The costs of a session given its votes. The guarantee is plan.account.

    Attributes:
        expected: Expected cost over the noise of a session.
        realised: Cost of the session so far; None if there was none.
        as_planned: Account, for any votes, of a file with the queries and answers of this session. None if there was no session, or no
            answer: no entry can state zero answers.
        sanitised: Release of `realised`; None if the file does not ask for one.
    """

    plan: VotingPlan
    votes: VoteCounts | None
    expected: VoteEpsilon | None
    realised: VoteEpsilon | None
    as_planned: Account | None = None
    sanitised: Sanitised | None = None


def vote_account(plan: VotingPlan) -> VoteAccount:
    """Return the account of the votes that the file names or that `fit` has written, with the transcript if there is one."""
    from dpcli.analysis.account import account

    votes = read_votes(plan)
    if votes is None:
        return VoteAccount(plan, votes=None, expected=None, realised=None)
    transcript = read_transcript(plan)
    expected = realised = None
    if plan.pate.check == "votes":  # The student's predictions are not known beforehand.
        queries = min(len(votes), plan.queries)
        expected = _epsilon(plan.aggregator.expected_cost(votes.counts[:queries], votes.largest[:queries]), plan)
    if transcript is None or not len(transcript):
        return VoteAccount(plan, votes, expected, realised=None)
    with suppress(CannotCertify):  # A lost prediction cannot be priced. The guarantee holds without it.
        realised = _epsilon(realised_costs(plan, votes, transcript), plan)
    answers = len(transcript.answered)
    as_planned = account(plan.with_limits(len(transcript), answers)) if answers else None
    return VoteAccount(plan, votes, expected, realised, as_planned, read_sanitised(plan, transcript))


def _epsilon(costs: VoteCosts, plan: VotingPlan) -> VoteEpsilon | None:
    """Return the epsilons by both conversions from Renyi divergences; None if the file's delta is 0, at which neither holds."""
    delta = plan.account.delta
    if not delta:
        return None
    epsilon, order = costs.epsilon(delta, balle)
    classic_epsilon, _ = costs.epsilon(delta, classic)
    return VoteEpsilon(epsilon, order, classic=classic_epsilon, queries=costs.queries, answered=costs.answered)
