"""epsilon-steps: epsilon against the number of steps."""

from __future__ import annotations

from dpcli.document.chart import Chart
from dpcli.file.pipeline.model import Entry
from dpcli.numerics.arrays import np
from dpcli.plots import epsilon_over
from dpcli.plots.epsilons import Question, varied

POINTS = 41  # number of values of steps
REACH = (1e-2, 10.0)  # smallest and largest number of steps, relative to the file's
MOST = 10**18  # largest number of steps that a file may state


def chart(question: Question) -> Chart:
    """Return the chart of epsilon by steps, from a hundredth of the file's steps to ten times. Raises InputError or CannotCertify."""
    entry, key = varied(question, "steps")
    own = _steps(entry, question.pipeline.privacy.dataset_size)
    low, high = max(1.0, REACH[0] * own), min(max(REACH[1] * own, 10.0), MOST)
    steps = sorted({round(value) for value in np.geomspace(low, high, POINTS)} | {own})
    return epsilon_over.chart(
        "epsilon-steps", "epsilon by number of steps", "steps", question, entry, key, float(own), [float(n) for n in steps]
    )


def _steps(entry: Entry, dataset_size: int | None) -> int:
    """Return the number of steps in the file, computed from its epochs if it states epochs."""
    rate = getattr(entry.sampling, "lower_rate", lambda _: None)(dataset_size)
    return entry.runs(dataset_size).steps_at(rate)
