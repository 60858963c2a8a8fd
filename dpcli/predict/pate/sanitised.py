"""The epsilon of a session that depends on its votes, released once with noise, and kept: asked again, it is what it was."""

from __future__ import annotations

import decimal
import hashlib
import json
import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from dpcli.base.errors import CannotCertify, Denied, InputError
from dpcli.file.pipeline.parts import shares_its_price
from dpcli.mechanisms.sampling.schemes import Unsampled
from dpcli.mechanisms.stated.renyi import RdpSpec
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.closed.conversion import balle
from dpcli.predict.pate.held_costs import compared, realised_costs
from dpcli.predict.pate.sanitise import Release, raising, release_cost, released
from dpcli.predict.voting.noise import normal_noise
from dpcli.predict.voting.sensitivity import smooth

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Entry, Pipeline
    from dpcli.predict.pate.plan import VotingPlan
    from dpcli.predict.pate.transcript import Transcript, TranscriptFile
    from dpcli.predict.queries.budget import QueryBudget
    from dpcli.predict.voting.votes import VoteCounts
    from dpcli.predict.voting.winner import Counts

DIGITS = 6  # of the released number
SLACK = 1e-9  # relative, by which the entry that pays may be below the cost of the release: the file states it rounded


@dataclass(frozen=True, slots=True)
class Sanitised:
    """What was released: rdp at `order`, at least that of the session but with probability `failure`; release_rdp is what that cost."""

    rdp: float
    release_rdp: float
    order: float
    failure: float

    def epsilon(self, delta: float) -> float:
        """Of the labels and this number together."""
        total = np.array([max(self.rdp, 0.0) + self.release_rdp])
        return float(balle(np.array([self.order]), total, math.log(delta))[0])


def require_sanitisable(plan: VotingPlan) -> None:
    """Raise where the release that the file asks for could not be made at the end: all of that depends on the file alone.

    InputError: no entry pays for it. CannotCertify: it has no finite cost, or the conditions of its sensitivity do not hold.
    """
    release = _release(plan)
    if release is None:
        return
    _require_paid(plan, release, release_cost(release))
    raising(release)
    nothing = np.zeros((0, plan.pate.labels), dtype=np.int64)
    _by_distance(plan, nothing, np.zeros(0), release)


def sanitise(plan: VotingPlan, votes: VoteCounts, file: TranscriptFile, count: QueryBudget) -> None:
    """Release the cost of a session that has ended, once: it is counted before its noise is drawn, and kept in the transcript.

    Nothing where the file asks for none. What was released and is lost, as an older transcript was put back, stays so: a second release
    would cost again, and no entry pays for it.
    """
    release = _release(plan)
    if release is None or file.content.sanitised is not None or not file.content.private:
        return  # labels that anybody can compute cost more than any number
    try:
        count.take()
        made = asdict(_made(plan, votes, file.content, release))
    except (Denied, CannotCertify):
        made = {}
    file.add({"what": "sanitised", "of": _digest(file.content, release), **made})


def sanitised(plan: VotingPlan, held: Transcript) -> Sanitised | None:
    """What was released of a session; None where nothing was, or it is lost.

    Raises InputError where the file describes another release by now.
    """
    release, said = _release(plan), held.sanitised
    if release is None or said is None:
        return None
    if said["of"] != _digest(held, release):
        raise InputError(
            f"{plan.folder}: expected the release that pate.sanitise describes, found that of other parameters: a second one would cost "
            "again, and no entry pays for it"
        )
    names = ("rdp", "release_rdp", "order", "failure")
    return Sanitised(*(float(said[name]) for name in names)) if "rdp" in said else None


def _release(plan: VotingPlan) -> Release | None:
    stated = plan.pate.sanitise
    return None if stated is None else Release(stated.order, stated.beta, stated.sigma, stated.failure)


def _digest(held: Transcript, release: Release) -> str:
    return hashlib.sha256((held.run + json.dumps(asdict(release), sort_keys=True)).encode()).hexdigest()


def _require_paid(plan: VotingPlan, release: Release, cost: float) -> None:
    """The release is one of the file's mechanisms: whatever is published with it, the file's epsilon counts it."""
    name = plan.pate.sanitise.mechanism if plan.pate.sanitise is not None else ""
    entry = next((one for one in plan.pipeline.mechanisms if one.name == name), None)
    wrong = _unpaid(entry, plan.pipeline, release)
    if wrong:
        stated = f"orders = [{release.order:g}], values = [{cost * (1.0 + SLACK):.12g}]"
        wanted = f'expected the name of an entry of type "rdp" that pays for the release, {stated}, found {wrong}'
        raise InputError(f"{plan.path}: pate.sanitise.mechanism: {wanted}")


def _unpaid(entry: Entry | None, pipeline: Pipeline, release: Release) -> str:
    """Why an entry does not pay for the release; empty where it does.

    An account may use any of the orders that are stated, so that none may be stated at less than the release costs there.
    """
    if entry is None or not isinstance(entry.spec, RdpSpec):
        return "none"
    if not isinstance(entry.sampling, Unsampled | None) or shares_its_price(entry, pipeline):
        return "one that is sampled, partitioned or part of another entry: votes are of all of the data"
    for order, value in zip(entry.spec.orders, entry.spec.values, strict=True):
        try:
            least = release_cost(replace(release, order=order)) * (1.0 - SLACK)
        except CannotCertify:
            return f"the order {order:g}, at which the release has no finite cost"
        if value < least:
            return f"{value:g} at order {order:g}, where it costs {least:.12g}"
    return ""


def _by_distance(plan: VotingPlan, answered: Counts, largest: Array, release: Release) -> Array:
    try:
        return plan.aggregator.sensitivity(answered, largest, plan.pate.teachers, release.order)
    except CannotCertify as reason:
        raise CannotCertify(f"{plan.path}: pate.sanitise: {reason}") from None


def _made(plan: VotingPlan, votes: VoteCounts, held: Transcript, release: Release) -> Sanitised:
    from dpcli.random.streams import SystemStream

    total = float(realised_costs(plan, votes, held).rdp(np.array([release.order]))[0])
    answered, largest = votes.counts[sorted(held.answered)], compared(votes, held)[np.array(held.asked, dtype=int)]
    bound = smooth(_by_distance(plan, answered, largest, release), release.beta)
    noise = float(normal_noise(SystemStream(), 1)[0])
    return Sanitised(rounded(released(total, bound, release, noise)), release_cost(release), release.order, release.failure)


def rounded(value: float) -> float:
    """Up to so many digits: the last ones of a noisy number in floating point tell of what it was made of (Mironov 2012)."""
    context = decimal.Context(prec=DIGITS, rounding=decimal.ROUND_CEILING)
    return float(context.create_decimal(value))
