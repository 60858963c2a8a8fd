"""What a session that was held costs, given its votes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcli.base.errors import CannotCertify, InputError
from dpcli.numerics.arrays import Array, np
from dpcli.predict.voting.vote_costs import VoteCosts

if TYPE_CHECKING:
    from dpcli.predict.pate.plan import VotingPlan
    from dpcli.predict.pate.transcript import Transcript
    from dpcli.predict.voting.votes import VoteCounts


def realised_costs(plan: VotingPlan, votes: VoteCounts, kept: Transcript) -> VoteCosts:
    """Of every query that was charged, the lost ones too: those whose answer was charged count as answered.

    Raises CannotCertify where what a student predicted for a query is lost.
    """
    kept.session.require_same({"votes": votes.digest()})
    asked = np.array(kept.asked)
    if plan.pate.check == "student" and not {*kept.asked} <= kept.predictions.keys():
        raise CannotCertify(
            f"{plan.folder}: expected what the student predicted for every query, found some that were lost: what they cost given the "
            "votes is not known; the guarantee holds whatever the votes are"
        )
    if asked.max(initial=-1) >= len(votes):
        raise InputError(f"{plan.path}: expected votes for every query that was asked, found {len(votes)} rows")
    return plan.aggregator.realised(votes.counts[asked], compared(votes, kept)[asked], np.array(kept.charged, dtype=float))


def compared(votes: VoteCounts, kept: Transcript) -> Array:
    """What the threshold was compared with, (n,): the largest count, or the largest difference to what the student predicted."""
    found = votes.largest.copy()
    for query, prediction in kept.predictions.items():
        found[query] = votes.beyond(query, np.array([prediction]))[0]
    return found
