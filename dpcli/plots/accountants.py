"""accountants: epsilon of one pipeline by each accountant, side by side."""

from __future__ import annotations

import math

from dpcli.analysis.account import Account
from dpcli.analysis.account_rows import AccountRow
from dpcli.document.chart import Axis, Bar, Chart, Tone
from dpcli.plots.drawing import bound, name_of, not_a_bound, setting
from dpcli.plots.epsilons import Question

WIDE = 30.0  # ratio of the largest to the smallest epsilon above which the axis is logarithmic


def chart(question: Question) -> Chart:
    """Return a chart with a bar of epsilon for each accountant. Notes name the accountants without a number.

    The smallest bound is on top, and approximations (~) are last. Raises InputError or CannotCertify as `Question.headline` does.
    """
    account = question.headline()
    rows = sorted((row for row in account.rows if row.bound is not None), key=lambda row: (not row.accountant.sound, row.upper))
    values = sorted(row.upper for row in rows)
    positive = [value for value in values if value > 0.0]
    wide = len(positive) == len(values) and values[-1] > WIDE * values[0]
    low = 10.0 ** math.floor(math.log10(values[0] / 2.0)) if wide else 0.0
    return Chart(
        kind="accountants",
        title="epsilon by accountant",
        subtitle=f"{name_of(account)}: {setting(account)}",
        x=Axis("epsilon", low, 1.6 * values[-1] if wide else 1.05 * (values[-1] or 1.0), scale="log" if wide else "linear"),
        y=Axis("accountant", -0.5, len(rows) - 0.5, categories=tuple(row.accountant.name for row in reversed(rows))),
        bars=tuple(_bar(row, len(rows) - 1 - i, account) for i, row in enumerate(rows)),
        notes=(_bounds(account), *_approximate(account), *_without_bar(account)),
    )


def _bounds(account: Account) -> str:
    mark = "; ~ marks an approximation" if _approximate(account) else ""
    return f"upper bounds, rounded up{mark}; the smallest bound is the headline"


def _bar(row: AccountRow, position: int, account: Account) -> Bar:
    tone = Tone.MAIN if row is account.winner else Tone.MUTED
    label = bound(row.upper) if row.accountant.sound else f"~ {bound(row.upper)}"
    return Bar(row.accountant.name, label, float(position), row.upper, tone)


def _approximate(account: Account) -> tuple[str, ...]:
    return not_a_bound(account, (row.accountant.name for row in account.rows))


def _without_bar(account: Account) -> tuple[str, ...]:
    """Return notes on the accountants without a number, by their reason."""
    reasons: dict[str, list[str]] = {}
    for row in account.rows:
        if row.bound is None:
            reasons.setdefault(row.reason or "no reason is given", []).append(row.accountant.name)
    return tuple(f"no bar for {', '.join(names)}: {reason}" for reason, names in reasons.items())
