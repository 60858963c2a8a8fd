"""epsilon-sigma: epsilon against the noise.

The noise is the noise multiplier, sigma or scale of one mechanism, and everything else stays as in the file. epsilon_over.py draws the
chart; this module chooses the values at which epsilon is computed.
"""

from __future__ import annotations

from dpcli.document.chart import Chart
from dpcli.numerics.arrays import np
from dpcli.plots import epsilon_over
from dpcli.plots.epsilons import Question, varied_key

# Choices of what is drawn. They change the picture and the time, and no bound.
POINTS = 49  # number of values of the noise
REACH = (0.4, 6.0)  # smallest and largest noise, relative to the file's


def chart(question: Question) -> Chart:
    """Return the chart of epsilon by the noise multiplier, sigma or scale, around the file's value.

    Raises InputError if not exactly one mechanism can be varied and none is named, or epsilon is 0, and CannotCertify if there is no finite
    epsilon.
    """
    entry, key = varied_key(question, "noise")
    stated = float(getattr(entry.spec, key))
    values = {*(stated * np.geomspace(*REACH, POINTS)).tolist(), stated}
    label = key.replace("_", " ")
    noise = epsilon_over.of_key(question, entry, key, stated, sorted(values))
    return epsilon_over.chart("epsilon-sigma", f"epsilon by {label}", label, question, noise)
