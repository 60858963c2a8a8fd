"""The votes of fitted teachers, as they are kept in the folder of a session: private, for its owner's eyes."""

from __future__ import annotations

import io
import json
import os
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError
from dpcli.numerics.arrays import Array, np
from dpcli.predict.pate.data import queries_digest, query_inputs
from dpcli.predict.pate.transcript import TRANSCRIPT
from dpcli.predict.pate.vote_file import table_of, votes_of
from dpcli.predict.voting.votes import VoteCounts, vote_counts
from dpcli.sessions.charged import session_there

if TYPE_CHECKING:
    from dpcli.predict.pate.plan import VotingPlan

VOTES, MADE = "votes.npy", "votes.json"


def votes_kept(plan: VotingPlan) -> VoteCounts | None:
    """Those of the file that [pate] names, or those that teachers have left; None where these are still to be fitted.

    Raises InputError where they are no votes, or those of other teachers.
    """
    if plan.pate.votes is not None:
        return votes_of(plan.pate, plan.path)
    place = os.path.join(plan.folder, VOTES)
    try:
        with open(os.path.join(plan.folder, MADE), encoding="utf-8") as file:
            made = json.load(file)
        by, asked = made["teaching"], made["queries"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{plan.folder}: expected votes that dpcli pate fit has left, found a damaged {MADE}") from None
    if by != plan.teaching():
        raise InputError(f"{plan.folder}: expected votes of the teachers of this file, found those of others: fit these anew")
    if asked != queries_digest(query_inputs(plan.pate, plan.path)):
        raise InputError(
            f"{plan.path}: pate.queries: expected the inputs that the teachers were asked about, in their order, found changed content: "
            "put them back, or fit these anew"
        )
    return vote_counts(table_of(place), plan.pate.teachers, plan.pate.labels, place)


def refuse_other_votes(plan: VotingPlan, votes: VoteCounts | None) -> None:
    """Raise InputError where the folder holds a session that was not begun with these votes; None: with some that are to be fitted.

    Its labels could be priced no more, nor could it go on, once its votes had been written over.
    """
    session = session_there(plan.folder)
    if session is None and not os.path.exists(os.path.join(plan.folder, TRANSCRIPT)):
        return
    if session is None or votes is None or session.inputs.get("votes") != votes.digest():
        raise InputError(
            f"{plan.folder}: expected a folder for the votes of these teachers, found one that holds a session on other votes, whose "
            "labels stay charged: name another pate.output"
        )


def keep_votes(plan: VotingPlan, votes: VoteCounts, queries: Array) -> None:
    """Leave them, and whose they are, which comes last: votes without it are none."""
    from dpcli.sessions.folder import replaced

    content = io.BytesIO()
    np.save(content, votes.counts)
    replaced(os.path.join(plan.folder, VOTES), content.getvalue(), 0o600)
    replaced(
        os.path.join(plan.folder, MADE), json.dumps({"teaching": plan.teaching(), "queries": queries_digest(queries)}).encode()
    )
