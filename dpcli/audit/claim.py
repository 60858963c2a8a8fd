"""The privacy claim that an audit tries to refute: an (epsilon, delta) pair, and the trade-off curve if a pipeline file makes the claim.

The *account* of a file is its cost as the accountants compute it; its epsilon at the file's delta is the *headline*. A file claims more:
every pair on its privacy profile, delta as a function of epsilon. The trade-off curve is the least false negative rate that the pairs allow
at each false positive rate. Between its *corners* it is straight. A claim is about the change that the audit makes (`varied`); if the
file's adjacency differs, the claim is converted to several changes at once (`_group_size`), or refused. The claim of a file errs towards
less privacy: epsilon and delta are upper bounds, and error rates are rounded down.
"""

from __future__ import annotations

import bisect
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

from dpcli.analysis.account import Account, headline
from dpcli.analysis.curve import ProfileCurve, corner_points, profile
from dpcli.base.errors import CannotCertify, InputError
from dpcli.file.pipeline.model import Pipeline
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.numerics.arrays import np

# The epsilons at which the profile is computed. Fewer points would claim less, so that an audit refutes less; more would take more time.
DENSE_UP_TO = 12.0  # epsilon in nats up to which the grid of the curve is dense
DENSE_POINTS, WIDE_POINTS = 97, 17  # numbers of points of that grid, and of the grid over all epsilons
ROUNDING = 1e-12  # allowance for the rounding of an interpolation between rates; without it, a true claim might be refuted
RECORDS_OF_A_REPLACEMENT = 2  # to replace a record is to remove one record and to add another


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """A privacy claim.

    Attributes:
        epsilon, delta: The claimed pair.
        adjacency: Adjacency of the neighbouring datasets.
        source: Description of the origin of the claim.
        curve: All claimed (epsilon, delta) pairs.
        account: Account of the pipeline; None if the pair was stated directly.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    source: str
    curve: ProfileCurve
    account: Account | None = None

    @property
    def has_curve(self) -> bool:
        """Return whether more than one pair is claimed, as by a pipeline file; flags claim a single pair."""
        return self.account is not None

    @property
    def trade_off(self) -> Callable[[float], float]:
        """Function from a false positive rate to a lower bound on the false negative rate that the claim allows."""
        return _trade_off(self)

    @property
    def corners(self) -> tuple[tuple[float, float], ...]:
        """The corners (false positive rate, false negative rate) of `trade_off`, in increasing order of the false positive rate."""
        return corner_points(self.curve)


@functools.lru_cache(maxsize=4)
def _trade_off(claim: Claim) -> Callable[[float], float]:
    """Return the linear interpolation of the corners. Audits evaluate it thousands of times, so it is cached for each claim object."""
    fprs, fnrs = zip(*claim.corners, strict=True)

    def fnr_at(fpr: float) -> float:
        right = min(max(bisect.bisect_right(fprs, fpr), 1), len(fprs) - 1)
        share = (fpr - fprs[right - 1]) / (fprs[right] - fprs[right - 1])
        return float(max(fnrs[right - 1] + share * (fnrs[right] - fnrs[right - 1]) - ROUNDING, 0.0))

    return fnr_at


def stated_claim(epsilon: float, delta: float, adjacency: Adjacency) -> Claim:
    """Return the claim of a stated pair. Raises InputError for values out of range."""
    if not 0.0 <= epsilon < math.inf:
        raise InputError(f"--epsilon: expected a finite number >= 0, found {epsilon!r}")
    if not 0.0 <= delta < 1.0:
        raise InputError(f"--delta: expected a number in [0, 1), found {delta!r}")
    curve = ProfileCurve(np.array([epsilon]), upper=np.array([delta]), lower=np.zeros(1))
    return Claim(epsilon, delta, adjacency, "as stated on the command line", curve)


def file_claim(pipeline: Pipeline, delta: float | None, varied: Adjacency) -> Claim:
    """Return the claim of a pipeline file about the two datasets of the audit.

    Args:
        delta: Delta at which epsilon is compared; None for the delta of the file.
        varied: The difference between the two datasets of the audit.

    Returns:
        The claim with the smallest sound upper bound on epsilon at delta, and with pairs along the whole privacy profile. A replaced record
        counts as two records if the file's adjacency is add-remove.

    Raises:
        CannotCertify: The file has no finite epsilon, or its claim does not apply to what the audit varies.
        InputError: No delta is stated, it is out of range, or the pipeline contradicts itself.
    """
    group_size = _group_size(pipeline.privacy.adjacency, varied)
    account = headline(pipeline, delta=delta, group_size=group_size)
    # The winner is the row of the accountant that gives the headline; None if no accountant applies.
    if account.winner is None or not math.isfinite(account.upper):
        raise CannotCertify(f"{pipeline.path}: no finite epsilon can be certified, so there is nothing to audit")
    source = f"{account.winner.accountant.name} accountant"
    if group_size > 1:
        source += f", for {group_size} records at once"
    curve = _claimed_curve(pipeline, account, group_size)
    return Claim(account.upper, account.delta, varied, source, curve, account)


def _claimed_curve(pipeline: Pipeline, account: Account, group_size: int) -> ProfileCurve:
    """Return the pairs along the privacy profile of the pipeline. At the headline epsilon and beyond, delta is at most the claimed one."""
    # Somewhat beyond the headline, where the claimed delta is smaller. The 1e-3 keeps the range from being empty if the headline is 0.
    end = 1.25 * account.upper + 1e-3
    dense, wide = np.linspace(0.0, min(end, DENSE_UP_TO), DENSE_POINTS), np.linspace(0.0, end, WIDE_POINTS)
    epsilons = sorted({*dense.tolist(), *wide.tolist(), account.upper})
    # 1e-6 is a usual delta, for a claim with delta = 0. It decides which accountants are run, and does not affect soundness.
    curve = profile(pipeline, epsilons, group_size, account.delta or 1e-6)
    upper = np.where(curve.epsilons >= account.upper, np.minimum(curve.upper, account.delta), curve.upper)
    return ProfileCurve(curve.epsilons, upper=upper, lower=np.minimum(curve.lower, upper))


def _group_size(claimed_about: Adjacency, varied: Adjacency) -> int:
    """Return the number of changes that lead from one dataset of the audit to the other. The claim's adjacency defines a change.

    Raises CannotCertify if no number of changes leads to the other dataset.
    """
    if claimed_about is varied:
        return 1
    if claimed_about is Adjacency.ADD_REMOVE and varied is Adjacency.REPLACE_ONE:
        return RECORDS_OF_A_REPLACEMENT
    raise CannotCertify(
        f"expected datasets that are neighbours in the sense of the claim ({claimed_about.value}), found an audit with {varied.value}: "
        "the claim says nothing about these; set audit.neighbours, or vary records as in the claim"
    )
