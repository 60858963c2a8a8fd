"""demo: the errors of the best test against a count with Laplace noise: measured, exact, and the least that epsilon allows."""

from __future__ import annotations

from dpcli.document.chart import Axis, Band, Chart, Line, Marker, Points, Tone
from dpcli.explain.demo import CONFIDENCE, COUNT, Demo
from dpcli.numerics.arrays import np
from dpcli.numerics.closed.trade_off import laplace_missed

POINTS = 81


def chart(found: Demo) -> Chart:
    """The measured curve with its band, the exact one, the bound, and blind guessing."""
    bound = _bound(found.epsilon)
    best = next(test for test in found.tests if test.threshold == COUNT + 0.5)
    return Chart(
        kind="demo",
        title=f"the best test against a count with Laplace noise at epsilon = {found.epsilon:g}",
        subtitle=f"made-up data: {COUNT + 1} people or {COUNT} (add-remove, sensitivity 1), each count released {found.trials:,} times; "
        f"numpy's generator, seed {found.seed}",
        x=Axis("false positive rate", 0.0, 1.0),
        y=Axis("false negative rate", 0.0, 1.0),
        lines=(
            Line("measured", _measured(found), Tone.MAIN),
            Line("exact: Laplace noise", _exact(found.epsilon), Tone.THIRD, True),
            Line(f"the bound: ({found.epsilon:g}, 0)-DP", bound, Tone.SECOND),
            Line("no information", ((0.0, 1.0), (1.0, 0.0)), Tone.MUTED, True),
        ),
        bands=(
            Band("no test gets here", tuple((x, 0.0) for x, _ in bound), bound, Tone.SECOND),
            _band(found),
        ),
        markers=(Marker(f"threshold {best.threshold:g}", best.false_positives.measured, 1.0 - best.true_positives.measured),),
        notes=(
            f"each measured point is a threshold on the noisy count, above which the guess is {COUNT + 1}; around it, intervals of both "
            f"errors at {100 * CONFIDENCE:g} % each (Clopper and Pearson 1934)",
            "the likelihood ratio never falls as the noisy count rises, so no test does better than these (Neyman and Pearson 1933)",
            "no test gets below the bound, whatever the mechanism, but what is measured may by chance; Laplace noise attains the bound "
            "except at false positive rates between e^-epsilon / 2 and 1/2",
        ),
    )


def _measured(found: Demo) -> Points:
    points = ((test.false_positives.measured, 1.0 - test.true_positives.measured) for test in found.line)
    return ((0.0, 1.0), *points, (1.0, 0.0))


def _band(found: Demo) -> Band:
    low = tuple((test.false_positives.low, 1.0 - test.true_positives.high) for test in found.line)
    high = tuple((test.false_positives.high, 1.0 - test.true_positives.low) for test in found.line)
    return Band(f"{100 * CONFIDENCE:g} % at each threshold", low, high, Tone.MAIN)


def _exact(epsilon: float) -> Points:
    alphas = np.unique(
        np.concatenate([np.linspace(0.0, 1.0, POINTS), 0.5 * np.exp(-epsilon) * np.array([0.5, 1.0, 1.5, 2.0, 4.0])])
    )
    alphas = alphas[alphas <= 1.0]
    return tuple(zip(alphas.tolist(), laplace_missed(epsilon, alphas).tolist(), strict=True))


def _bound(epsilon: float) -> Points:
    corner = 1.0 / (1.0 + np.exp(epsilon))
    return ((0.0, 1.0), (float(corner), float(corner)), (1.0, 0.0))
