"""epsilon-steps: epsilon against the number of steps."""

from __future__ import annotations

from dpcli.document.chart import Chart
from dpcli.file.pipeline.model import Entry
from dpcli.mechanisms.sampling.schemes import Batched
from dpcli.numerics.arrays import np
from dpcli.plots import epsilon_over
from dpcli.plots.epsilons import Question, varied

POINTS = 41  # number of values of steps
REACH = (1e-2, 10.0)  # smallest and largest number of steps, relative to the file's
SHORTEST_AXIS = 10.0  # the axis extends at least to this number of steps
MOST = 10**18  # largest number of steps that a file may state


def chart(question: Question) -> Chart:
    """Return the chart of epsilon by steps, from a hundredth of the file's steps to ten times. Raises InputError or CannotCertify."""
    entry, key = varied(question, "steps")
    stated = _stated_steps(entry, question.pipeline.privacy.dataset_size)
    low = max(1.0, REACH[0] * stated)
    high = min(max(REACH[1] * stated, SHORTEST_AXIS), MOST)
    counts = {round(value) for value in np.geomspace(low, high, POINTS)} | {stated}
    steps = epsilon_over.VariedKey(entry, key, float(stated), [float(count) for count in sorted(counts)])
    return epsilon_over.chart("epsilon-steps", "epsilon by number of steps", "steps", question, steps)


def _stated_steps(entry: Entry, dataset_size: int | None) -> int:
    """Return the number of steps in the file, computed from its epochs if it states epochs."""
    rate = entry.sampling.lower_rate(dataset_size) if isinstance(entry.sampling, Batched) else None
    return entry.runs(dataset_size).steps_at(rate)
