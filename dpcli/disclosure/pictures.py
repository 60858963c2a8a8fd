"""The pictures of a disclosure: the attacker's errors, the privacy profile, and each mechanism's share."""

from __future__ import annotations

import math

from dpcli.analysis.account import Account
from dpcli.analysis.curve import ProfileCurve
from dpcli.disclosure.facts import Facts
from dpcli.document.chart import Axis, Bar, Chart, Line, Marker, Tone
from dpcli.plots.delta_epsilon import GUARANTEES
from dpcli.plots.drawing import draw, epsilon_at_most, name_of, noted, setting
from dpcli.plots.epsilons import Question
from dpcli.plots.trade_off import WHOLE, picture

FAINT = 1e-3  # of the file's delta: below that, no delta matters
MOST = 20  # bars


def pictures(facts: Facts) -> tuple[Chart, ...]:
    """Nothing where nothing is certified: then there is nothing to draw."""
    if facts.meaning is None:
        return ()
    curve = facts.meaning.curve  # the one that the sentences and tables quote
    errors = picture(facts.account, ((WHOLE, curve),))
    # Where only pairs are known, the curve has steps between them, and epsilon is asked for anew at each delta.
    profile = _profile(facts.account, curve) if curve.close else (draw("delta-epsilon", _question(facts)),)
    return tuple(noted(chart, facts.diagnostics) for chart in (errors, *profile, *_shares(facts.account)))


def _question(facts: Facts) -> Question:
    return Question(facts.pipeline, delta=facts.account.delta)


def _profile(account: Account, curve: ProfileCurve) -> tuple[Chart, ...]:
    """delta by epsilon, down to deltas that no longer matter; none where the whole curve is below those."""
    low = max(FAINT * (account.delta or 1e-6), 1e-300)
    pairs = zip(curve.epsilons.tolist(), curve.upper.tolist(), strict=True)
    points = tuple((epsilon, min(delta, 1.0)) for epsilon, delta in pairs if delta >= low)
    if len(points) < 2:
        return ()
    here = (
        (Marker(f"{epsilon_at_most(account)} at delta = {account.delta!r}", account.upper, account.delta),) if account.delta else ()
    )
    return (
        Chart(
            kind="delta-epsilon",
            title="privacy profile: delta by epsilon",
            subtitle=f"{name_of(account)}: {setting(account)}",
            x=Axis("epsilon", 0.0, 1.05 * max(account.upper, points[-1][0])),
            y=Axis("delta", low, 1.0, scale="log"),
            lines=(Line("smallest bound of all accountants", points, Tone.MAIN),),
            markers=here,
            notes=(GUARANTEES,),
        ),
    )


def _shares(account: Account) -> tuple[Chart, ...]:
    """Bars of the shares of the total; none where there is one mechanism only, or where the accountant has no shares."""
    shares = sorted(zip(account.shares, (charge.name for charge in account.charges), strict=True), reverse=True)
    if len(shares) < 2 or any(math.isnan(share) for share, _ in shares) or account.winner is None:
        return ()
    rest = sum(share for share, _ in shares[MOST:])
    shown = [*shares[:MOST], *([(rest, f"{len(shares) - MOST:,} others")] if len(shares) > MOST else [])]
    names = tuple(name for _, name in reversed(shown))
    bars = tuple(
        Bar(name, f"{100.0 * share:.1f} %", float(len(shown) - 1 - i), 100.0 * share, Tone.MAIN)
        for i, (share, name) in enumerate(shown)
    )
    return (
        Chart(
            kind="shares",
            title="share of the total cost, by mechanism",
            subtitle=f"{name_of(account)}: {setting(account)}",
            x=Axis("share of the total", 0.0, 1.05 * max(100.0 * share for share, _ in shown) or 1.0, unit="%"),
            y=Axis("mechanism", -0.5, len(shown) - 0.5, categories=names),
            bars=bars,
            notes=(f"as the accountant {account.winner.accountant.name} adds it up; shares are not epsilons",),
        ),
    )
