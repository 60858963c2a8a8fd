"""The account of a session of votes: whatever the votes are, which is the guarantee, and given the votes, which is private.

What is given the votes is released once, with noise in proportion to its smooth sensitivity: D + c S + sigma S' Z with Z standard normal,
S the smooth sensitivity of D at beta, S' = S (1 + c (e^beta - 1)) that of D + c S, and c such that the release is below D + S with
probability `failure` only. It is itself a release of the votes: `release_cost`.

D bounds the divergence of what was released from what neighbouring votes would have released, and not the reverse one, which is at most
their D: for votes of (17, 3) with noise 2, at order 4, it is 3.3 times as large. Theirs is at most D + S, so that the release bounds both.
"""

from __future__ import annotations

import decimal
import hashlib
import json
import math
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from dpcli.base.errors import CannotCertify, Denied, InputError, InternalError
from dpcli.file.pipeline.parts import shares_its_price
from dpcli.mechanisms.sampling.schemes import Unsampled
from dpcli.mechanisms.stated.renyi import RdpSpec
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.closed.conversion import balle, classic
from dpcli.numerics.logspace import log_ndtr
from dpcli.numerics.roots import bracket_root
from dpcli.predict.aggregators import normal_noise
from dpcli.predict.vote_bounds import smooth_bound

if TYPE_CHECKING:
    from dpcli.analysis.account import Account
    from dpcli.file.pipeline.model import Entry, Pipeline
    from dpcli.predict.aggregators import VoteCosts
    from dpcli.predict.pate.pate_plan import VotingPlan
    from dpcli.predict.pate.transcript import Transcript, TranscriptFile
    from dpcli.predict.query_counts import QueryBudget
    from dpcli.predict.vote_bounds import Counts
    from dpcli.predict.vote_counts import VoteCounts

ROUNDED = 1e-9  # relative, by which S is raised: more than it loses, as it is computed
DIGITS = 6  # of the released number
SLACK = 1e-9  # relative, by which the entry that pays may be below the cost of the release: the file states it rounded


def realised_costs(plan: VotingPlan, votes: VoteCounts, kept: Transcript) -> VoteCosts:
    """Return the cost of every query that was charged, the lost ones too: those whose answer was charged count as answered.

    Raises:
        CannotCertify: If what a student predicted for a query is lost.
    """
    kept.session.require_same({"votes": votes.digest()})
    charged = np.array(kept.queries, dtype=int)
    if plan.pate.check == "student" and not {*kept.queries} <= kept.predictions.keys():
        raise CannotCertify(
            f"{plan.folder}: what the student predicted for some queries was lost: what they cost given the votes is not known; the "
            "guarantee holds whatever the votes are"
        )
    if charged.max(initial=-1) >= len(votes):
        raise InputError(f"{plan.path}: expected votes for every query that was asked, found {len(votes)} rows")
    return plan.aggregator.realised(
        votes.counts[charged], compared_numbers(votes, kept)[charged], np.array(kept.charged, dtype=float)
    )


def compared_numbers(votes: VoteCounts, kept: Transcript) -> Array:
    """Return what the threshold was compared with, (n,): the largest count, or the largest difference to what the student predicted."""
    largest = votes.largest.copy()
    for query, prediction in kept.predictions.items():
        largest[query] = votes.beyond(query, np.array([prediction]))[0]
    return largest


@dataclass(frozen=True, slots=True)
class Release:
    """The parameters of a release, fixed before the votes are seen.

    Attributes:
        order: Order of the divergence that is released.
    """

    order: float
    beta: float
    sigma: float
    failure: float


def release_cost(release: Release) -> float:
    """Return D, at the release's order, of Gaussian noise in proportion to the smooth sensitivity.

    Raises CannotCertify if the order is not below 1 / (2 beta).
    Source: Papernot et al. 2018, arXiv:1802.08908, Theorem 23.
    """
    a, beta = release.order, release.beta
    if not (a > 1.0 and beta >= 0.0 and 2.0 * a * beta < 1.0 and release.sigma > 0.0):
        raise CannotCertify(f"expected an order between 1 and 1 / (2 beta) = {0.5 / beta if beta else math.inf:g}, found {a:g}")
    return (a * math.exp(2.0 * beta) / release.sigma**2 + (-0.5 * math.log1p(-2.0 * a * beta) + beta * a) / (a - 1.0)) * (
        1.0 + 1e-14
    )


def released_cost(cost: float, smooth: float, release: Release, normal: float) -> float:
    """Return what is released of a cost with this smooth sensitivity, given a draw from N(0, 1).

    Raises:
        CannotCertify: If no c makes it larger than the costs of all neighbouring votes with the probability that is asked for.
    """
    if not (0.0 <= cost < math.inf and 0.0 <= smooth < math.inf and math.isfinite(normal)):
        raise InternalError("a cost, its sensitivity or noise that is not finite: this is a bug in dpcli, and no number")
    raised = smooth * (1.0 + ROUNDED)
    c = raising_factor(release)
    return cost + c * raised + release.sigma * raised * (1.0 + c * math.expm1(release.beta)) * normal


def raising_factor(release: Release) -> float:
    """Return c with Pr[sigma (1 + c (e^beta - 1)) Z < 1 - c] = failure. Raises CannotCertify if there is none."""
    z = bracket_root(lambda x: log_ndtr(-x) - math.log(release.failure), -1.0, 40.0)[1]
    left = 1.0 - z * release.sigma * math.expm1(release.beta)
    if z > 0.0 and left <= 0.0:
        raise CannotCertify("the noise grows with what it is to be raised by: a smaller beta or sigma, or a larger failure, may do")
    return max((1.0 + z * release.sigma) / left, 0.0)


@dataclass(frozen=True, slots=True)
class Sanitised:
    """The release: rdp at `order`, at least that of the session but with probability `failure`; release_rdp is what that cost."""

    rdp: float
    release_rdp: float
    order: float
    failure: float

    def epsilon(self, delta: float) -> float:
        """Return the epsilon of the labels and this number together."""
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
    raising_factor(release)
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
        made = asdict(_draw_release(plan, votes, file.content, release))
    except (Denied, CannotCertify):
        made = {}
    file.add({"what": "sanitised", "of": _digest(file.content, release), **made})


def sanitised(plan: VotingPlan, transcript: Transcript) -> Sanitised | None:
    """Return what was released of a session; None if nothing was, or it is lost.

    Raises:
        InputError: If the file describes another release by now.
    """
    release, kept = _release(plan), transcript.sanitised
    if release is None or kept is None:
        return None
    if kept["of"] != _digest(transcript, release):
        raise InputError(
            f"{plan.folder}: was released with other parameters than pate.sanitise states: a second release would cost again, and no entry "
            "pays for it"
        )
    names = ("rdp", "release_rdp", "order", "failure")
    return Sanitised(*(float(kept[name]) for name in names)) if "rdp" in kept else None


def _release(plan: VotingPlan) -> Release | None:
    stated = plan.pate.sanitise
    return None if stated is None else Release(stated.order, stated.beta, stated.sigma, stated.failure)


def _digest(transcript: Transcript, release: Release) -> str:
    return hashlib.sha256((transcript.run + json.dumps(asdict(release), sort_keys=True)).encode()).hexdigest()


def _require_paid(plan: VotingPlan, release: Release, cost: float) -> None:
    """Require that an entry pays for the release: whatever is published with it, the file's epsilon counts it."""
    name = plan.pate.sanitise.mechanism if plan.pate.sanitise is not None else ""
    entry = next((mechanism for mechanism in plan.pipeline.mechanisms if mechanism.name == name), None)
    wrong = _payment_problem(entry, plan.pipeline, release)
    if wrong:
        stated = f"orders = [{release.order:g}], values = [{cost * (1.0 + SLACK):.12g}]"
        wanted = f'expected the name of an entry of type "rdp" that pays for the release, {stated}, found {wrong}'
        raise InputError(f"{plan.path}: pate.sanitise.mechanism: {wanted}")


def _payment_problem(entry: Entry | None, pipeline: Pipeline, release: Release) -> str:
    """Return why an entry does not pay for the release; "" if it does.

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


def _draw_release(plan: VotingPlan, votes: VoteCounts, transcript: Transcript, release: Release) -> Sanitised:
    from dpcli.random.streams import SystemStream

    total = float(realised_costs(plan, votes, transcript).rdp(np.array([release.order]))[0])
    answered = votes.counts[sorted(transcript.answered)]
    largest = compared_numbers(votes, transcript)[np.array(transcript.queries, dtype=int)]
    bound = smooth_bound(_by_distance(plan, answered, largest, release), release.beta)
    noise = float(normal_noise(SystemStream(), 1)[0])
    return Sanitised(round_up(released_cost(total, bound, release, noise)), release_cost(release), release.order, release.failure)


def round_up(value: float) -> float:
    """Round up to six digits: the last ones of a noisy number in floating point tell of what it was made of (Mironov 2012)."""
    context = decimal.Context(prec=DIGITS, rounding=decimal.ROUND_CEILING)
    return float(context.create_decimal(value))


@dataclass(frozen=True, slots=True)
class VoteEpsilon:
    """An epsilon that depends on the votes, by both conversions; private as it stands.

    Attributes:
        answered: Answered of the queries, or how many on average.
    """

    epsilon: float
    order: float
    classic: float
    queries: int
    answered: float


@dataclass(frozen=True, slots=True)
class VoteAccount:
    """The costs of a session given its votes; the guarantee is plan.account.

    Attributes:
        expected: Mean cost over the noise of a session.
        realised: Cost of a session that has been held.
        as_planned: The account of a session that had been planned to end where this one did, whatever the votes are; None if none was held,
            or nothing was answered, which no entry can state.
        sanitised: What is released of `realised`, where the file says how.
    """

    plan: VotingPlan
    votes: VoteCounts | None
    expected: VoteEpsilon | None
    realised: VoteEpsilon | None
    as_planned: Account | None = None
    sanitised: Sanitised | None = None


def vote_account(plan: VotingPlan) -> VoteAccount:
    """Account for the votes that the file names or that `fit` has left, and the transcript, if there is one."""
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
    """Return both epsilons; None if the file's delta is 0, at which nothing is known."""
    delta = plan.account.delta
    if not delta:
        return None
    epsilon, order = costs.epsilon(delta, balle)
    return VoteEpsilon(epsilon, order, costs.epsilon(delta, classic)[0], costs.queries, costs.answered)
