"""Texts about the Gaussian mechanism: its privacy loss, with a picture, and the noise that an epsilon needs.

lookup.py prints them for words such as plrv (privacy-loss random variable) and sigma. Their numbers are computed when they are printed;
bounds are rounded up. P is the distribution of the output on one dataset and Q that on its neighbour; the privacy loss is log P/Q at the
output. The *classical* calibration is sigma = sqrt(2 ln(1.25/delta)) / epsilon for sensitivity 1, proved below epsilon = 1; the *analytic*
one is the smallest sigma that is (epsilon, delta)-DP.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, Context, Decimal

from dpcli.base.rounding import figures, up
from dpcli.document.chart import Axis, Chart, Line, Marker, Points, Tone
from dpcli.explain.lists import filled
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.numerics.arrays import np
from dpcli.numerics.closed.normal import analytic_sigma, classical_delta, classical_sigma, fails_from

# What the examples show; the choice is arbitrary.
TABLE_NOISES = (0.5, 1.0, 2.0, 5.0, 10.0)  # sigma over the sensitivity, in the table
CHART_NOISE = 1.0  # sigma over the sensitivity, in the picture
CHART_POINTS = 121  # number of losses at which the curves of the picture are drawn

LOSS_TEXT = (
    "A Gaussian mechanism with L2 sensitivity Delta and noise sigma has rho = Delta^2 / (2 sigma^2). Under P, the dataset that the "
    "output comes from, the loss is Normal with mean rho and variance 2 rho. Under Q it is Normal with mean -rho and the same variance. "
    "Rhos therefore add up, and several Gaussian releases cost as much as one with the sum of their rhos (Bun and Steinke, "
    "arXiv:1605.02065, Proposition 6). The numbers below are computed by dpcli's Gaussian mechanism:"
)

# The table of the two formulas, and the deltas for which the text says where the classical one fails.
DELTA = 1e-5
EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
DELTAS = (1e-3, 1e-5, 1e-6, 1e-9)
HEAD = ("epsilon", "classical sigma", "analytic sigma", "true delta of the classical sigma")


def gaussian_loss() -> str:
    """Return the distribution of the privacy loss in words, with a table for some values of the noise."""
    rows = [("sigma / Delta", "rho", "mean", "variance", "under Q: mean"), *map(_loss_row, TABLE_NOISES)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = "\n".join(_aligned(row, widths) for row in rows)
    return "\n\n".join(["the privacy loss of a Gaussian mechanism", filled(LOSS_TEXT), table])


def _aligned(row: Sequence[str], widths: Iterable[int]) -> str:
    """Return the cells of a row, each aligned to the right in its width. A last cell may have no width: the mark of `_row`."""
    aligned = [f"{cell:>{width}}" for cell, width in zip(row, widths, strict=False)]
    return "  " + "   ".join(aligned) + "".join(row[len(aligned) :])


def _loss_row(noise: float) -> tuple[str, ...]:
    """Return the row of the table of losses for noise relative to the sensitivity."""
    mechanism = Gaussian(1.0 / noise)
    (loss,) = mechanism.losses()
    under_p, under_q = loss.tilted(0.0), loss.tilted(-1.0)  # the tilt by e^(t loss) leaves P at t = 0 and gives Q at t = -1
    return tuple(figures(x) for x in (noise, mechanism.zcdp(), under_p.mean, under_p.variance, under_q.mean))


def chart() -> Chart:
    """Return the chart of the density of the loss under P and under Q, from differences of the mechanism's tail probabilities."""
    mechanism = Gaussian(1.0 / CHART_NOISE)
    (loss,) = mechanism.losses()
    loss_under_p, rho = loss.tilted(0.0), mechanism.zcdp()
    reach = loss_under_p.mean + 3.5 * loss_under_p.variance**0.5  # 3.5 standard deviations, beyond which nothing is visible
    edges = np.linspace(-reach, reach, CHART_POINTS)
    tails = loss.tails(edges)
    under_p, under_q = _density(edges, tails.p_above), _density(edges, tails.q_above)
    top = max(y for _, y in under_p)
    distribution = f"Normal with mean rho = {figures(rho)} and variance 2 rho = {figures(loss_under_p.variance)}"
    return Chart(
        kind="plrv",
        title=f"privacy loss of a Gaussian mechanism: {distribution}",
        subtitle=f"one release, sensitivity over noise = {figures(1.0 / CHART_NOISE)}, no sampling",
        x=Axis("privacy loss", -reach, reach),
        y=Axis("density", 0.0, 1.1 * top),  # with a margin above the curves
        lines=(
            Line("under P, from which the output is drawn", under_p),
            Line("under Q, its neighbour", under_q, Tone.SECOND, dashed=True),
        ),
        markers=(Marker(f"mean rho = {figures(rho)}", loss_under_p.mean, top),),
        notes=("delta at epsilon is the area, right of epsilon, between the first curve and e^epsilon times the second",),
    )


def _density(edges: np.ndarray, log_above: np.ndarray) -> Points:
    """Return the density in the middle of each interval: its probability over its width."""
    densities = -np.diff(np.exp(log_above)) / np.diff(edges)
    middles = 0.5 * (edges[1:] + edges[:-1])
    return tuple(zip(middles.tolist(), densities.tolist(), strict=True))


def gaussian_sigma() -> str:
    """Return a table of the classical and the analytic formula, with texts about where the classical one is proved and where it fails."""
    title = f"Gaussian noise for one release of sensitivity 1 at delta = {DELTA!r}"
    return "\n\n".join([title, _table(), filled(_classical_range()), filled(_classical_failure())])


def _table() -> str:
    """Return the table of the two formulas. A mark says where the classical noise is too small."""
    widths = [len(title) for title in HEAD]
    return "\n".join(_aligned(row, widths) for row in (HEAD, *map(_row, EPSILONS)))


def _row(epsilon: float) -> tuple[str, ...]:
    """Return the row of the table of formulas for one epsilon."""
    true_delta = classical_delta(epsilon, DELTA)
    mark = ("  too little noise",) if true_delta > DELTA else ()
    sigmas = (up(classical_sigma(epsilon, DELTA)), up(analytic_sigma(epsilon, DELTA)))
    return (f"{epsilon:g}", *sigmas, _two_digits_up(true_delta), *mark)


def _two_digits_up(delta: float) -> str:
    """Return a delta with two significant digits, rounded up."""
    return f"{Context(prec=2, rounding=ROUND_CEILING).plus(Decimal(delta)):.1e}"


def _classical_range() -> str:
    """Return a text that says where the classical formula is proved, and how much noise it wastes there."""
    least_ratio, largest_ratio = (classical_sigma(epsilon, DELTA) / analytic_sigma(epsilon, DELTA) for epsilon in (1.0, 0.1))
    return (
        "Classical: sigma = sqrt(2 ln(1.25/delta)) sensitivity / epsilon, proved for epsilon < 1 only (Dwork and Roth 2014, "
        f"Theorem 3.22 and appendix A). There it is enough: {least_ratio:.1f} to {largest_ratio:.1f} times the necessary noise at epsilon "
        "from 1 to 0.1. Analytic: the smallest sigma that is (epsilon, delta)-DP, at any epsilon (Balle and Wang 2018, arXiv:1805.06530, "
        "Theorem 8). dpcli uses only the analytic formula: it prices the noise that a file states, however it was chosen, and dpcli "
        "calibrate-sigma solves for the smallest."
    )


def _classical_failure() -> str:
    """Return a text that says above which epsilon the classical noise is too small."""
    ends = ", ".join(f"{up(fails_from(delta), 2)} at delta = {delta!r}" for delta in DELTAS)
    return (
        "From epsilon = 1 on, the classical formula is not proved, and far above 1 it is false: its sigma falls like "
        f"1/epsilon, while 1/sqrt(2 epsilon) is needed. The noise is too small above epsilon = {ends}. At epsilon = 20 the "
        f"formula promises delta = {DELTA!r}, and delta is {_two_digits_up(classical_delta(20.0, DELTA))}. Rule DP106 warns of a stated "
        "epsilon above 1 that comes from this formula."
    )
