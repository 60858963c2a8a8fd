"""The cost of a voting session given its votes, and the release of that cost (`sanitise` in [pate]).

Teachers vote on public queries, and a noisy vote gives each answer (pate_session.py, which calls `sanitise` at the end of a session and
`require_sanitisable` before its charge). The *transcript* of the session records charges, answers and the release (transcript.py).

The cost given the votes, D, is a Renyi divergence (aggregators.py), and private. It may be released once, as D + c S + sigma S' Z. Z is
standard normal, S is the smooth sensitivity of D at beta (vote_sensitivity.py), and S' = S (1 + c (e^beta - 1)) is the smooth sensitivity
of D + c S. The factor c is chosen so that the release is below D + S with probability at most `failure`. The release itself costs
`cost_of_release`, for which an *entry* of type rdp, a [[mechanism]] table of the pipeline file, pays.

The release must be above D + S, and not only above D. D bounds the divergence of the session's outcome from the outcome with neighbouring
votes. The reverse divergence is bounded by the D of the neighbouring votes, which is at most D + S, and may be larger than D: for votes of
(17, 3) with noise 2, at order 4, it is 3.3 times as large.
"""

from __future__ import annotations

import decimal
import hashlib
import json
import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from dpcli.base.errors import CannotCertify, Denied, InputError, InternalError
from dpcli.file.pipeline.parts import shares_its_price
from dpcli.mechanisms.sampling.schemes import Unsampled
from dpcli.mechanisms.stated.renyi import RdpSpec
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.closed.conversion import balle
from dpcli.numerics.logspace import log_ndtr
from dpcli.numerics.roots import bracket_root
from dpcli.predict.aggregators import normal_noise
from dpcli.predict.vote_sensitivity import smooth_bound

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Entry, Pipeline
    from dpcli.predict.aggregators import VoteCosts
    from dpcli.predict.pate.pate_plan import VotingPlan
    from dpcli.predict.pate.transcript import Transcript, TranscriptFile
    from dpcli.predict.query_counts import AnswerCounter
    from dpcli.predict.vote_bounds import Counts
    from dpcli.predict.vote_counts import VoteCounts

# Relative amounts by which S, and the cost of a release, are raised. They exceed the rounding errors; smaller ones might be unsound.
ROUNDING, COST_ROUNDING = 1e-9, 1e-14
DIGITS = 6  # significant digits of the released number
SLACK = 1e-9  # The entry that pays may be this relative amount below the cost of the release, since the file rounds the number.


def realised_costs(plan: VotingPlan, votes: VoteCounts, transcript: Transcript) -> VoteCosts:
    """Return the cost given the votes of every query that was charged, even if its answer was lost.

    A query whose answer was charged counts as answered.

    Raises:
        CannotCertify: If the student's prediction for a query is lost.
        InputError: If there are no votes for a query that was asked.
    """
    transcript.session.require_same({"votes": votes.digest()})
    queries = np.array(transcript.queries, dtype=int)
    if plan.pate.check == "student" and not set(transcript.queries) <= transcript.predictions.keys():
        raise CannotCertify(
            f"{plan.folder}: the student's predictions for some queries were lost: their cost given the votes is not known; the "
            "guarantee holds whatever the votes are"
        )
    if queries.max(initial=-1) >= len(votes):
        raise InputError(f"{plan.path}: expected votes for every query that was asked, found {len(votes)} rows")
    answered = np.array(transcript.answer_charged, dtype=float)
    return plan.aggregator.cost(votes.counts[queries], compared_numbers(votes, transcript)[queries], answered)


def compared_numbers(votes: VoteCounts, transcript: Transcript) -> Array:
    """Return the number that was compared with the threshold, for each query, (n,).

    It is the largest count, or the largest difference between a count and the student's prediction.
    """
    largest = votes.largest.copy()
    for query, prediction in transcript.predictions.items():
        largest[query] = votes.differences(query, np.array([prediction]))[0]
    return largest


@dataclass(frozen=True, slots=True)
class ReleaseParameters:
    """The parameters of a release, which are fixed before any vote is read.

    Attributes:
        order: Renyi order of the cost that is released.
        beta: Smoothness of the sensitivity.
        sigma: Standard deviation of the noise, over the smooth sensitivity.
        failure: Probability that the released number is below the cost that it bounds.
    """

    order: float
    beta: float
    sigma: float
    failure: float


def cost_of_release(release: ReleaseParameters) -> float:
    """Return the Renyi divergence of the release at its order: the cost of Gaussian noise in proportion to the smooth sensitivity.

    It is infinite if sigma is so small that the cost overflows. Raises CannotCertify if the order is not between 1 and 1 / (2 beta).
    Source: Papernot et al. 2018, arXiv:1802.08908, Theorem 23.
    """
    a, beta = release.order, release.beta
    if not (a > 1.0 and beta >= 0.0 and 2.0 * a * beta < 1.0 and release.sigma > 0.0):
        raise CannotCertify(f"expected an order between 1 and 1 / (2 beta) = {0.5 / beta if beta else math.inf:g}, found {a:g}")
    shift = a * math.exp(2.0 * beta) / release.sigma / release.sigma
    change_of_scale = (-0.5 * math.log1p(-2.0 * a * beta) + beta * a) / (a - 1.0)
    return (shift + change_of_scale) * (1.0 + COST_ROUNDING)


def noisy_cost(cost: float, smooth: float, release: ReleaseParameters, normal: float) -> float:
    """Return the number D + c S + sigma S' Z that is released.

    Args:
        cost: The cost D.
        smooth: Its smooth sensitivity S.
        normal: Z, a draw from N(0, 1).

    Raises CannotCertify if no c makes the number larger than D + S with probability 1 - failure.
    """
    if not (0.0 <= cost < math.inf and 0.0 <= smooth < math.inf and math.isfinite(normal)):
        raise InternalError("a cost, its sensitivity or its noise is not finite: this is a bug in dpcli, and nothing was released")
    s = smooth * (1.0 + ROUNDING)
    c = raising_factor(release)
    return cost + c * s + release.sigma * s * (1.0 + c * math.expm1(release.beta)) * normal


def raising_factor(release: ReleaseParameters) -> float:
    """Return c with Pr[sigma (1 + c (e^beta - 1)) Z < 1 - c] = failure. Raises CannotCertify if there is none."""
    # z with Pr[Z > z] = failure, rounded up: a larger z gives a larger c, which is safe. If failure > Pr[Z > -1], z is about -1. No
    # positive float is below Pr[Z > 40].
    _, z = bracket_root(lambda x: log_ndtr(-x) - math.log(release.failure), -1.0, 40.0)
    denominator = 1.0 - z * release.sigma * math.expm1(release.beta)
    if z > 0.0 and denominator <= 0.0:
        raise CannotCertify(
            "no margin covers the noise, which grows with the margin: try a smaller beta or sigma, or a larger failure"
        )
    return max((1.0 + z * release.sigma) / denominator, 0.0)


@dataclass(frozen=True, slots=True)
class Sanitised:
    """A released cost.

    Attributes:
        rdp: Released Renyi divergence of the session at `order`. It is below the true one with probability at most `failure`.
        release_rdp: Renyi divergence that the release itself cost.
    """

    rdp: float
    release_rdp: float
    order: float
    failure: float

    def epsilon(self, delta: float) -> float:
        """Return the epsilon of the labels and the released number together."""
        total = np.array([max(self.rdp, 0.0) + self.release_rdp])
        return float(balle(np.array([self.order]), total, math.log(delta))[0])


def require_sanitisable(plan: VotingPlan) -> None:
    """Check before a session that the release that the file asks for will be possible. The check depends on the file alone.

    Raises:
        InputError: If no entry pays for the release.
        CannotCertify: If the release has no finite cost, or the conditions of its sensitivity do not hold.
    """
    release = _release(plan)
    if release is None:
        return
    _require_paid(plan, release, cost_of_release(release))
    raising_factor(release)
    # Without queries, this call checks only the conditions of the sensitivity, which depend on the file alone.
    no_counts = np.zeros((0, plan.pate.labels), dtype=np.int64)
    _by_distance(plan, no_counts, np.zeros(0), release)


def sanitise(plan: VotingPlan, votes: VoteCounts, file: TranscriptFile, counter: AnswerCounter) -> None:
    """Release the cost of an ended session once, and write it to the transcript. The release is counted before its noise is drawn.

    Nothing is released if the file does not ask for it, or if the noise of the session can be reproduced, so that the labels have no finite
    cost. If a release was lost because an older transcript was restored, it is not made again: no entry pays for a second one.
    """
    release = _release(plan)
    if release is None or file.content.sanitised is not None or not file.content.private:
        return
    try:
        counter.take()
        released = asdict(_draw_release(plan, votes, file.content, release))
    except (Denied, CannotCertify):  # an earlier release was lost, or the cost given the votes is not known
        released = {}
    file.add({"what": "sanitised", "of": _digest(file.content, release), **released})


def read_sanitised(plan: VotingPlan, transcript: Transcript) -> Sanitised | None:
    """Return the release of a session; None if none was made, or it was lost, so that the statement has the guarantee alone.

    Raises InputError if the file now describes a release with other parameters.
    """
    release, line = _release(plan), transcript.sanitised
    if release is None or line is None:
        return None
    if line["of"] != _digest(transcript, release):
        raise InputError(
            f"{plan.folder}: the cost was released with parameters other than those of pate.sanitise: a second release would cost again, "
            "and no entry pays for it"
        )
    if "rdp" not in line:
        return None
    return Sanitised(**{name: float(line[name]) for name in ("rdp", "release_rdp", "order", "failure")})


def _release(plan: VotingPlan) -> ReleaseParameters | None:
    """Return the parameters of the release that the file asks for; None if it asks for none."""
    stated = plan.pate.sanitise
    return None if stated is None else ReleaseParameters(stated.order, stated.beta, stated.sigma, stated.failure)


def _digest(transcript: Transcript, release: ReleaseParameters) -> str:
    """Return the SHA-256 of a session's name and the parameters of its release."""
    parameters = json.dumps(asdict(release), sort_keys=True)
    return hashlib.sha256((transcript.session.run + parameters).encode()).hexdigest()


def _require_paid(plan: VotingPlan, release: ReleaseParameters, cost: float) -> None:
    """Raise InputError unless an entry of the file pays for the release, so that the file's epsilon includes its cost."""
    name = plan.pate.sanitise.mechanism if plan.pate.sanitise is not None else ""
    entry = next((mechanism for mechanism in plan.pipeline.mechanisms if mechanism.name == name), None)
    problem = _payment_problem(entry, plan.pipeline, release)
    if problem is not None:
        raise InputError(
            f'{plan.path}: pate.sanitise.mechanism: expected the name of an entry of type "rdp" that pays for the release, '
            f"orders = [{release.order:g}], values = [{cost * (1.0 + SLACK):.12g}], found {problem}"
        )


def _payment_problem(entry: Entry | None, pipeline: Pipeline, release: ReleaseParameters) -> str | None:
    """Return the reason why an entry does not pay for the release; None if it pays.

    An account may use any of the stated orders, so that the entry must pay for the release at each of them.
    """
    if entry is None or not isinstance(entry.spec, RdpSpec):
        return "none"
    if not isinstance(entry.sampling, Unsampled | None) or shares_its_price(entry, pipeline):
        return "an entry that is sampled, partitioned or part of another entry, although votes depend on all data"
    for order, value in zip(entry.spec.orders, entry.spec.values, strict=True):
        try:
            least = cost_of_release(replace(release, order=order)) * (1.0 - SLACK)
        except CannotCertify:
            return f"the order {order:g}, at which the release has no finite cost"
        if value < least:
            return f"{value:g} at order {order:g}, where it costs {least:.12g}"
    return None


def _by_distance(plan: VotingPlan, answered: Counts, largest: Array, release: ReleaseParameters) -> Array:
    """Return the sensitivity of the session's cost at each distance. Raises CannotCertify, with the key, if it is not known."""
    try:
        return plan.aggregator.sensitivity(answered, largest, plan.pate.teachers, release.order)
    except CannotCertify as reason:
        raise CannotCertify(f"{plan.path}: pate.sanitise: {reason}") from None


def _draw_release(plan: VotingPlan, votes: VoteCounts, transcript: Transcript, release: ReleaseParameters) -> Sanitised:
    """Draw the noise of the release, and return the released cost, rounded up."""
    from dpcli.random.streams import SystemStream

    cost = float(realised_costs(plan, votes, transcript).rdp(np.array([release.order]))[0])
    answered = votes.counts[sorted(transcript.answered)]
    largest = compared_numbers(votes, transcript)[np.array(transcript.queries, dtype=int)]
    smooth = smooth_bound(_by_distance(plan, answered, largest, release), release.beta)
    normal = float(normal_noise(SystemStream(), 1)[0])
    released = round_up(noisy_cost(cost, smooth, release, normal))
    return Sanitised(released, cost_of_release(release), release.order, release.failure)


def round_up(value: float) -> float:
    """Return the value rounded up to DIGITS: the last bits of a noisy float reveal something about it without noise (Mironov 2012)."""
    context = decimal.Context(prec=DIGITS, rounding=decimal.ROUND_CEILING)
    return float(context.create_decimal(value))
