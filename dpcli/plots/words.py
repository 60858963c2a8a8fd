"""The words around a picture: everything that an epsilon depends on, and numbers rounded in their safe direction."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from dpcli.analysis.account import Account
from dpcli.base.rounding import figures, up
from dpcli.file.pipeline.parts import schemes
from dpcli.plots.epsilons import Epsilon

DIGITS = 6  # of a number that nobody stated so
MORE_IS_SAFER = frozenset({"noise_multiplier", "sigma", "scale", "threshold_sigma", "temperature", "orders"})  # keys of mechanisms


def name_of(account: Account) -> str:
    """The pipeline's name, else its path."""
    path = account.pipeline.path
    return account.pipeline.name or ("standard input" if path == "-" else path) or "the pipeline"


def setting(account: Account) -> str:
    """Unit, adjacency, delta and sampling."""
    privacy = account.pipeline.privacy
    parts = [
        f"per {privacy.unit or 'record'}",
        privacy.adjacency.value,
        f"delta = {account.delta!r}",
        f"sampling: {schemes(account.pipeline)}",
    ]
    return ", ".join([f"groups of {account.group_size:,}", *parts] if account.group_size > 1 else parts)


def epsilon_at_most(account: Account) -> str:
    """The headline as a marker says it."""
    assert account.winner is not None
    return f"epsilon <= {up(account.upper)} ({account.winner.accountant.name})"


def bound(value: float) -> str:
    """An upper bound, rounded up."""
    return up(value)


def percent_up(share: float) -> str:
    """A share of at most this, in percent, rounded up."""
    return f"{min(math.ceil(share * 1e4) / 1e2, 100.0):.2f} %"


def few(value: float) -> str:
    """A stated number in few digits; not a bound."""
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:.6g}"


def few_up(value: float) -> str:
    """The same number in few digits, rounded up."""
    return few(float(Context(prec=DIGITS, rounding=ROUND_CEILING).plus(Decimal(repr(value)))))


def parameter(name: str, value: float) -> str:
    """A number of a mechanism's key to read: as it is stated, or of more digits than six those, noise rounded down and all else up."""
    if len(Decimal(repr(value)).as_tuple().digits) <= DIGITS:
        return repr(value)
    return figures(value, DIGITS, ROUND_FLOOR if name in MORE_IS_SAFER else ROUND_CEILING)


def line_label(names: tuple[str, ...], epsilons: Iterable[Epsilon]) -> str:
    """The accountant that was asked for, or those that gave the smallest bounds along the line."""
    if len(names) == 1:
        return names[0]
    winners = list(dict.fromkeys(epsilon.accountant for epsilon in epsilons))
    return (
        f"accountant{'s' if len(winners) > 1 else ''}: {' and '.join(winners)}"
        if len(winners) < 3
        else f"smallest of {len(winners)} accountants"
    )


def certificate(epsilons: Iterable[Epsilon]) -> str:
    """What the points of a line are worth, and how far the truth may be from them."""
    values = [epsilon for epsilon in epsilons if epsilon.upper > 0.0]  # 0 is certain
    gaps = [(e.upper - e.lower) / e.upper for e in values if e.lower is not None]
    points = f"{len(values)} points, each an upper bound on epsilon"
    if not gaps:
        return f"{points}; the true one may be smaller"
    some = "" if len(gaps) == len(values) else f" at {len(gaps)}"
    return f"{points}, certified from below{some}: the true one is at most a fraction {loosely(max(gaps))} smaller"


def loosely(gap: float) -> str:
    """One digit, rounded up."""
    return f"{Context(prec=1, rounding=ROUND_CEILING).plus(Decimal(gap)):.0e}" if gap > 0.0 else "0"


def not_a_bound(account: Account, drawn: Iterable[str]) -> tuple[str, ...]:
    """Which of the accountants that are drawn approximate."""
    rows = {row.accountant.name for row in account.rows if not row.accountant.sound and row.bound is not None}
    names = sorted(rows & set(drawn))
    return (f"{', '.join(names)}: an approximation, not a bound",) if names else ()
