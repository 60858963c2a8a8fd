"""The privacy loss of a Gaussian mechanism: its Normal law in numbers that the mechanism computes, and as a picture."""

from __future__ import annotations

from dpcli.base.rounding import figures
from dpcli.document.chart import Axis, Chart, Line, Marker, Points, Tone
from dpcli.explain.wrapped import filled
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.numerics.arrays import np

NOISES = (0.5, 1.0, 2.0, 5.0, 10.0)  # over the sensitivity
DRAWN = 1.0
POINTS = 121
LAW = (
    "Of a Gaussian mechanism with L2 sensitivity Delta and noise sigma, rho = Delta^2 / (2 sigma^2): under P, the dataset that the "
    "output comes from, the loss is Normal with mean rho and variance 2 rho; under Q it is Normal with mean -rho and the same variance. "
    "So rhos add up, and many Gaussian releases are one of the summed rho (Bun and Steinke, arXiv:1605.02065, Proposition 6). By the "
    "mechanism that dpcli account prices:"
)


def gaussian_loss() -> str:
    """The law in words, and its numbers for some noises."""
    rows = [("sigma / Delta", "rho", "mean", "variance", "under Q: mean"), *map(_row, NOISES)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = ("  " + "   ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(["the privacy loss of a Gaussian mechanism", "", filled(LAW), "", *table])


def _row(noise: float) -> tuple[str, ...]:
    mechanism = Gaussian(1.0 / noise)
    (loss,) = mechanism.losses()
    under_p, under_q = loss.tilted(0.0), loss.tilted(-1.0)
    return tuple(figures(x) for x in (noise, mechanism.zcdp(), under_p.mean, under_p.variance, under_q.mean))


def chart() -> Chart:
    """How likely each loss is under P and under Q, by the differences of the mechanism's tail probabilities."""
    mechanism = Gaussian(1.0 / DRAWN)
    (loss,) = mechanism.losses()
    law, rho = loss.tilted(0.0), mechanism.zcdp()
    reach = law.mean + 3.5 * law.variance**0.5
    edges = np.linspace(-reach, reach, POINTS)
    tails = loss.tails(edges)
    under_p, under_q = _density(edges, tails.p_above), _density(edges, tails.q_above)
    top = max(y for _, y in under_p)
    return Chart(
        kind="plrv",
        title=f"privacy loss of a Gaussian mechanism: Normal with mean rho = {figures(rho)} and variance 2 rho = {figures(law.variance)}",
        subtitle=f"one release, sensitivity over noise = {figures(1.0 / DRAWN)}, no sampling",
        x=Axis("privacy loss", -reach, reach),
        y=Axis("density", 0.0, 1.1 * top),
        lines=(
            Line("under P, which the output is drawn from", under_p),
            Line("under Q, its neighbour", under_q, Tone.SECOND, True),
        ),
        markers=(Marker(f"mean rho = {figures(rho)}", law.mean, top),),
        notes=("delta at epsilon is the part of the first curve above epsilon that the second, times e^epsilon, does not cover",),
    )


def _density(edges: np.ndarray, log_above: np.ndarray) -> Points:
    """Probability of each interval over its width, at its middle."""
    shares = -np.diff(np.exp(log_above)) / np.diff(edges)
    return tuple(zip((0.5 * (edges[1:] + edges[:-1])).tolist(), shares.tolist(), strict=True))
