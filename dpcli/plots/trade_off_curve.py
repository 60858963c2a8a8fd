"""trade-off: lower bounds on an attacker's errors, false negatives against false positives.

Across is the rate of false positives of a test that tells two neighbouring datasets apart, and upwards its rate of false negatives. No test
is below the curve, which follows from the privacy profile, delta at each epsilon (analysis/curve.py): each pair (epsilon, delta) is a lower
bound made of straight lines (Dong, Roth, Su 2022, arXiv:1905.02383), and the curve is the highest of all of them. So the true curve is
never lower. Two further lines show the *headline* (the pair that the file's account reports) alone, and a test that guesses blindly.
"""

from __future__ import annotations

import itertools
import math

from dpcli.analysis.account import Account
from dpcli.analysis.curve import ProfileCurve, corner_points, profile, trade_off
from dpcli.analysis.trade_off_corners import corners
from dpcli.document.chart import SERIES, Axis, Band, Chart, Line, Tone  # SERIES: the tones of successive lines
from dpcli.document.short_numbers import short_percent_up
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.closed.trade_off import false_negatives
from dpcli.plots.drawing import epsilon_at_most, name_of, not_a_bound, positive_delta, setting
from dpcli.plots.epsilons import EpsilonCurve, Question, curves, one_digit_up

# Points of the profile. More of them make the curve higher, and each curve is a bound; the values are choices.
BENT = 8.0  # epsilons up to this one are closely spaced, because e^epsilon bends the curve there
POINTS, FURTHER_POINTS = 40, 9  # number of epsilons up to BENT, and of epsilons over the whole reach
BEYOND = 1.25  # reach of the epsilons, relative to the smallest epsilon of the account
LEAST_REACH = 1e-3  # added to the reach, because that epsilon may be 0
SMALL_DELTAS = (1e-8, 1e-2, 13)  # (lowest, highest, number), evenly spaced in logs
LARGE_DELTAS = (0.02, 0.8, 27)  # (lowest, highest, number), evenly spaced, because large deltas bend the curve too

TIGHT = 1e-3  # largest gap between certified bounds on delta that the notes state
READ_AT = (0.001, 0.01, 0.1)  # false positive rates at which the notes read the curve


def chart(question: Question) -> Chart:
    """Return the chart of the trade-off curve, of the headline's curve, and of a test that guesses blindly.

    Raises InputError if no delta is stated, and CannotCertify if there is no finite epsilon, or a named accountant has none.
    """
    account = question.headline()
    if not question.accountants:
        return complete_picture(account, _complete(question, account))
    return _picture(account, _accountant_curves(question, account), question.accountants)


def complete_picture(account: Account, curve: ProfileCurve) -> Chart:
    """Return the chart of one curve. `dpcli report` calls it with the profile that its tables quote."""
    return _picture(account, (("trade-off curve", curve),))


def _picture(account: Account, profile_curves: tuple[tuple[str, ProfileCurve], ...], accountants: tuple[str, ...] = ()) -> Chart:
    """Return the chart of labelled curves. `accountants` are those that were named; () if all were used."""
    unsound = {row.accountant.name for row in account.rows if not row.accountant.sound}
    lines: list[Line] = []
    impossible: tuple[Band, ...] = ()
    notes: tuple[str, ...] = ()
    for (label, curve), tone in zip(profile_curves, itertools.cycle(SERIES), strict=False):
        line = Line(label, corner_points(curve), tone, dashed=label in unsound)
        lines.append(line)
        if label not in unsound and not impossible:  # only the first bound is explained
            floor = tuple((x, 0.0) for x, _ in line.points)
            impossible = (Band("impossible for any attack", floor, line.points),)
            notes = _meaning(curve)
    blind = Line("no information", ((0.0, 1.0), (1.0, 0.0)), Tone.MUTED, dashed=True)
    return Chart(
        kind="trade-off",
        title="trade-off curve: an attacker's false negatives against false positives",
        subtitle=f"{name_of(account)}: {setting(account)}",
        x=Axis("false positive rate", 0.0, 1.0),
        y=Axis("false negative rate", 0.0, 1.0),
        lines=(*lines, *_headline_line(account), blind),
        bands=impossible,
        notes=(*notes, *not_a_bound(account, accountants)),
    )


def _meaning(curve: ProfileCurve) -> tuple[str, ...]:
    """Return notes that explain a curve that is a bound."""
    missed_rates = trade_off(curve, READ_AT).tolist()
    rates = "; ".join(
        f"{short_percent_up(1.0 - missed)} at {100.0 * x:g} %" for x, missed in zip(READ_AT, missed_rates, strict=True)
    )
    return (
        "a test that distinguishes two neighbouring datasets has its two error rates on or above the curve: no test is below it, and tests "
        "above it are not ruled out",
        f"the highest true positive rate at several false positive rates: {rates}",
        _accuracy_note(curve),
    )


def _complete(question: Question, account: Account) -> ProfileCurve:
    """Return the privacy profile by all accountants, closely spaced up to BENT, with the headline."""
    reach = BEYOND * min(row.upper for row in account.rows) + LEAST_REACH
    close = np.linspace(0.0, min(reach, BENT), POINTS).tolist()
    epsilons = sorted({*close, *np.linspace(0.0, reach, FURTHER_POINTS).tolist()})
    return _with_headline(profile(question.pipeline, epsilons, question.group_size, positive_delta(account)), account)


def _with_headline(curve: ProfileCurve, account: Account) -> ProfileCurve:
    """Return the curve with the headline as one more pair (epsilon, delta)."""
    if account.winner is None:
        return curve
    index = int(np.searchsorted(curve.epsilons, account.upper))
    epsilons = np.insert(curve.epsilons, index, account.upper)
    return ProfileCurve(epsilons, np.insert(curve.upper, index, account.delta), np.insert(curve.lower, index, account.delta))


def _accountant_curves(question: Question, account: Account) -> tuple[tuple[str, ProfileCurve], ...]:
    """Return the curve of each named accountant, with its label."""
    deltas = sorted({*np.geomspace(*SMALL_DELTAS).tolist(), *np.linspace(*LARGE_DELTAS).tolist(), account.delta, 0.0})
    epsilon_curves = curves(question, account, deltas, lambda delta: (question.pipeline, delta))
    return tuple((curve.label, _profile_of(curve)) for curve in epsilon_curves)


def _profile_of(curve: EpsilonCurve) -> ProfileCurve:
    """Return epsilons at given deltas as a profile, without lower bounds on delta."""
    pairs = sorted((epsilon.upper, delta) for delta, epsilon in curve.epsilons)
    epsilons, deltas = np.array(pairs).T
    return ProfileCurve(epsilons, deltas, np.zeros_like(deltas))


def _headline_line(account: Account) -> tuple[Line, ...]:
    """Return the curve of the headline alone, which is made of straight lines."""
    if account.winner is None or not math.isfinite(account.upper):
        return ()
    alphas = corners([(account.upper, account.delta)])  # the false positive rates at which the curve bends
    rates: Array = false_negatives(np.array([account.upper]), np.array([account.delta]), np.array(alphas))
    label = f"{epsilon_at_most(account)}, delta = {account.delta!r}, by itself"
    return (Line(label, tuple(zip(alphas, rates.tolist(), strict=True)), Tone.THIRD, dashed=True),)


def _accuracy_note(curve: ProfileCurve) -> str:
    """Return a note on the distance of the true curve from the drawn one."""
    gap = float((curve.upper - curve.lower).max())
    if gap < TIGHT:
        return f"from upper bounds on delta at {len(curve.epsilons)} epsilons, certified from below to within {one_digit_up(gap)}"
    return "from upper bounds on epsilon and delta: the true curve may be higher, never lower"
