"""The votes of fitted teachers, as they are kept in the folder of a session: private, for its owner's eyes."""

from __future__ import annotations

import io
import json
import os
from typing import TYPE_CHECKING

from dpcli.errors import InputError
from dpcli.numerics.arrays import np
from dpcli.predict.pate.transcript import OWN, TRANSCRIPT
from dpcli.predict.pate.vote_file import table_of, votes_of
from dpcli.predict.voting.votes import VoteCounts, vote_counts

if TYPE_CHECKING:
    from dpcli.predict.pate.plan import VotingPlan

HELD = "held.json"
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
        by = made["teaching"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{plan.folder}: expected votes that dpcli pate fit has left, found a damaged {MADE}") from None
    if by != plan.teaching():
        raise InputError(f"{plan.folder}: expected votes of the teachers of this file, found those of others: fit these anew")
    return vote_counts(table_of(place), plan.pate.teachers, plan.pate.labels, place)


def bind_votes(plan: VotingPlan, votes: VoteCounts, run: str) -> None:
    """Leave which votes a session is held with, before its first query."""
    from dpcli.sessions.folder import replaced

    replaced(os.path.join(plan.folder, HELD), json.dumps({"run": run, "votes": votes.digest()}).encode(), OWN)


def refuse_other_votes(plan: VotingPlan, votes: VoteCounts | None) -> None:
    """Raise InputError where the folder holds a session that was not begun with these votes; None: with some that are to be fitted.

    Its labels could be priced no more, nor could it go on, once its votes had been written over.
    """
    if not any(os.path.exists(os.path.join(plan.folder, name)) for name in (HELD, TRANSCRIPT)):
        return
    try:
        with open(os.path.join(plan.folder, HELD), encoding="utf-8") as file:
            same = votes is not None and json.load(file)["votes"] == votes.digest()
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        same = False
    if not same:
        raise InputError(
            f"{plan.folder}: expected a folder for the votes of these teachers, found one that holds a session on other votes, whose "
            "labels stay charged: name another pate.output"
        )


def require_bound(plan: VotingPlan, votes: VoteCounts, run: str) -> None:
    """Raise InputError unless these are the votes that a session was held with: others would be priced for what they were not asked."""
    try:
        with open(os.path.join(plan.folder, HELD), encoding="utf-8") as file:
            same = json.load(file) == {"run": run, "votes": votes.digest()}
    except (OSError, ValueError, RecursionError):
        same = False
    if not same:
        raise InputError(
            f"{plan.folder}: expected the votes that this session began with, found others: they have changed since; its labels stay "
            "charged, and other votes need another pate.output"
        )


def keep_votes(plan: VotingPlan, votes: VoteCounts) -> None:
    """Leave them, and whose they are, which comes last: votes without it are none."""
    from dpcli.sessions.folder import replaced

    content = io.BytesIO()
    np.save(content, votes.counts)
    replaced(os.path.join(plan.folder, VOTES), content.getvalue(), OWN)
    replaced(os.path.join(plan.folder, MADE), json.dumps({"teaching": plan.teaching()}).encode())
