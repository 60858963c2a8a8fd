"""accountants: epsilon of one pipeline by each accountant, side by side.

It shows what the choice of an accountant costs. An *accountant* computes an upper bound on epsilon, or an approximation (~). The numbers
are the rows of the account that `dpcli account` prints (analysis/account.py); the smallest bound is the *headline*, and its accountant the
*winner*.
"""

from __future__ import annotations

import math
import sys

from dpcli.analysis.account import Account
from dpcli.analysis.account_rows import AccountRow
from dpcli.base.rounding import up
from dpcli.document.chart import Axis, Bar, Chart, Tone
from dpcli.plots.drawing import name_of, not_a_bound, setting
from dpcli.plots.epsilons import Question

WIDE = 30.0  # ratio of the largest to the smallest epsilon above which the axis is logarithmic; otherwise the shortest bar would vanish
LOG_ROOM, LINEAR_ROOM = 1.6, 1.05  # factors by which the axis is longer than the bars, which leave room for their labels


def chart(question: Question) -> Chart:
    """Return a chart with a bar of epsilon for each accountant. Notes name the accountants without a number.

    The smallest bound is on top, and approximations (~) are last. Raises InputError if no delta is stated, and CannotCertify if there is no
    finite epsilon, or a named accountant has none.
    """
    account = question.headline()
    bounded = [row for row in account.rows if row.bound is not None]
    rows = sorted(bounded, key=lambda row: (not row.accountant.sound, row.upper))
    top = len(rows) - 1
    return Chart(
        kind="accountants",
        title="epsilon by accountant",
        subtitle=f"{name_of(account)}: {setting(account)}",
        x=_epsilon_axis([row.upper for row in rows]),
        y=Axis("accountant", -0.5, top + 0.5, categories=tuple(row.accountant.name for row in reversed(rows))),
        bars=tuple(_bar(row, top - rank, account) for rank, row in enumerate(rows)),
        notes=_notes(account),
    )


def _epsilon_axis(epsilons: list[float]) -> Axis:
    """Return an axis from 0, or a logarithmic axis if all epsilons are positive and differ by more than a factor of WIDE."""
    smallest, largest = min(epsilons), max(epsilons)
    if smallest > 0.0 and largest > WIDE * smallest:
        # The axis begins at a power of ten that leaves a visible part of the shortest bar.
        low = 10.0 ** math.floor(math.log10(max(smallest / 2.0, sys.float_info.min)))
        return Axis("epsilon", low, LOG_ROOM * largest, scale="log")
    return Axis("epsilon", 0.0, LINEAR_ROOM * (largest or 1.0))


def _bar(row: AccountRow, position: int, account: Account) -> Bar:
    """Return the bar of an accountant at a height, from 0 at the bottom. The bar of the headline stands out."""
    tone = Tone.MAIN if row is account.winner else Tone.MUTED
    label = up(row.upper) if row.accountant.sound else f"~ {up(row.upper)}"
    return Bar(row.accountant.name, label, float(position), row.upper, tone)


def _notes(account: Account) -> tuple[str, ...]:
    """Return notes that explain the bars, and notes on the accountants without a number, by their reason."""
    approximate = not_a_bound(account, (row.accountant.name for row in account.rows))
    mark = "; ~ marks an approximation" if approximate else ""
    reasons: dict[str, list[str]] = {}
    for row in account.rows:
        if row.bound is None:
            reasons.setdefault(row.reason or "no reason is given", []).append(row.accountant.name)
    without_bar = (f"no bar for {', '.join(names)}: {reason}" for reason, names in reasons.items())
    return (f"upper bounds, rounded up{mark}; the smallest bound is the headline", *approximate, *without_bar)
