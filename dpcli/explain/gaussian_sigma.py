"""How much Gaussian noise an epsilon takes: the classical formula beside the exact condition, in computed numbers."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal

from dpcli.base.rounding import up
from dpcli.explain.wrapped import filled
from dpcli.numerics.closed.normal import analytic_sigma, classical_delta, classical_sigma, fails_from

DELTA = 1e-5  # of the table
EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
DELTAS = (1e-3, 1e-5, 1e-6, 1e-9)
HEAD = ("epsilon", "classical sigma", "analytic sigma", "true delta of the classical sigma")


def gaussian_sigma() -> str:
    """Both formulas, a table of them, and the range in which the first one is proved and that in which it fails."""
    return "\n\n".join(
        [f"Gaussian noise for one release of sensitivity 1 at delta = {DELTA!r}", _table(), filled(_proved()), filled(_beyond())]
    )


def _table() -> str:
    rows = [HEAD, *map(_row, EPSILONS)]
    return "\n".join(
        "  " + "   ".join(f"{cell:>{len(title)}}" for cell, title in zip(row, HEAD, strict=False)) + "".join(row[len(HEAD) :])
        for row in rows
    )


def _row(epsilon: float) -> tuple[str, ...]:
    found = classical_delta(epsilon, DELTA)
    mark = ("  too little noise",) if found > DELTA else ()
    return f"{epsilon:g}", up(classical_sigma(epsilon, DELTA)), up(analytic_sigma(epsilon, DELTA)), _upwards(found), *mark


def _upwards(delta: float) -> str:
    """Two digits, rounded up."""
    return f"{Context(prec=2, rounding=ROUND_CEILING).plus(Decimal(delta)):.1e}"


def _proved() -> str:
    few, many = (classical_sigma(epsilon, DELTA) / analytic_sigma(epsilon, DELTA) for epsilon in (1.0, 0.1))
    return (
        "Classical: sigma = sqrt(2 ln(1.25/delta)) sensitivity / epsilon, proved for epsilon < 1 only (Dwork and Roth 2014, "
        f"Theorem 3.22 and appendix A). There it is enough, and {few:.1f} to {many:.1f} times what is needed at epsilon from 1 to "
        "0.1. Analytic: the least sigma that is (epsilon, delta)-DP, at any epsilon (Balle and Wang 2018, arXiv:1805.06530, "
        "Theorem 8). dpcli uses the second alone: it prices the noise that a file states, however that was chosen, and dpcli "
        "calibrate-sigma solves for the least."
    )


def _beyond() -> str:
    ends = ", ".join(f"{up(fails_from(delta), 2)} at delta = {delta!r}" for delta in DELTAS)
    return (
        "From epsilon = 1 on nothing is proved of the classical formula, and far above it is false: its sigma falls like "
        f"1/epsilon, while 1/sqrt(2 epsilon) is needed. The noise is too little above epsilon = {ends}. At epsilon = 20 the "
        f"formula promises delta = {DELTA!r}, and delta is {_upwards(classical_delta(20.0, DELTA))}. Rule DP106 warns of a stated "
        "epsilon above 1 that comes from it."
    )
