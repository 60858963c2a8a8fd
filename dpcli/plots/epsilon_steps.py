"""epsilon-steps: epsilon against the number of steps, of one mechanism or of a whole run.

Two questions share the name. With one mechanism: what if the run were shorter or longer? Its steps vary around the file's number. With
several: how does epsilon grow while the run goes on, one *entry* ([[mechanism]] table) after the other (`_course`)? In both, each point is
the epsilon of a run that was planned to end there. A run that merely stops early costs what was planned. epsilon_over.py draws the chart;
this module chooses the values at which epsilon is computed. A *charge* is what the account adds up: one entry, or several on one sample,
with the number of its runs.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

from dpcli.analysis.solved_keys import substitute
from dpcli.base.errors import InputError
from dpcli.document.chart import Chart
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.parts import part_names
from dpcli.file.pipeline.resolve import BillLine, resolve
from dpcli.mechanisms.sampling.schemes import Batched
from dpcli.numerics.arrays import np
from dpcli.plots import epsilon_over
from dpcli.plots.epsilons import Question, varied_key

# Choices of what is drawn. They change the picture and the time, and no bound.
POINTS = 41  # number of values of steps
REACH = (1e-2, 10.0)  # smallest and largest number of steps, relative to the file's
SHORTEST_AXIS = 10.0  # the axis extends at least to this number of steps, so that a file with few steps has a curve
FEW_ENTRIES = 8  # largest number of entries whose last steps are in the notes, and among the drawn values
MANY_ENTRIES, FEW_POINTS = 100, 13  # a file with more entries than MANY_ENTRIES has FEW_POINTS values, which each take much work

MOST_STEPS = 10**18  # largest number of steps that a file may state
PLANNED = "each point is the epsilon of a run that was planned to end there"


def chart(question: Question) -> Chart:
    """Return the chart of epsilon by steps. Raises InputError or CannotCertify."""
    # Entries that use no private data (`free`) cost nothing.
    charges = [charge for charge in resolve(question.pipeline, question.group_size) if not charge.entries[0].spec.free]
    if question.mechanism is None and len(charges) > 1:
        return epsilon_over.chart(
            "epsilon-steps", "epsilon in the course of the run", "steps", question, _course(question, charges)
        )
    entry, key = varied_key(question, "steps")
    stated = _stated_steps(entry, question.pipeline.privacy.dataset_size)
    low = max(1.0, REACH[0] * stated)
    high = min(max(REACH[1] * stated, SHORTEST_AXIS), MOST_STEPS)
    counts = {round(value) for value in np.geomspace(low, high, POINTS)} | {stated}
    steps = epsilon_over.of_key(question, entry, key, float(stated), [float(count) for count in sorted(counts)])
    return epsilon_over.chart("epsilon-steps", "epsilon by number of steps", "steps", question, steps)


def _course(question: Question, charges: list[BillLine]) -> epsilon_over.Varied:
    """Return the steps of all charges, one charge after the other, as the number that varies.

    Raises InputError for disjoint parts of the data, which have no order.
    """
    if any(charge.parts for charge in charges):
        raise InputError(
            "expected entries that run one after the other, found disjoint parts of the data: name one (--mechanism NAME)"
        )
    # The number of steps of the whole run after each charge. Entries on one sample have equally many steps.
    ends = [*accumulate(_stated_steps(charge.entries[0], question.pipeline.privacy.dataset_size) for charge in charges)]
    total = ends[-1]
    points = POINTS if len(charges) <= MANY_ENTRIES else FEW_POINTS
    counts = {max(1, round(value)) for value in np.linspace(0.0, float(total), points)} | {total}
    notes: tuple[str, ...] = (PLANNED,)
    if len(charges) <= FEW_ENTRIES:
        counts |= {*ends, *(end + 1 for end in ends[:-1])}  # the last step of each entry, and the first of the next one
        notes = (
            f"in this order: {', '.join(f'{charge.name} to step {end:,}' for charge, end in zip(charges, ends, strict=True))}",
            PLANNED,
        )

    def pipeline_at(value: float) -> Pipeline:
        """Return the pipeline that ends after `value` steps: the charges before, and the last one with fewer steps."""
        last = int(np.searchsorted(ends, value))
        shortened = _only_with(question.pipeline, [entry for charge in charges[: last + 1] for entry in charge.entries])
        steps_before = ends[last - 1] if last else 0
        if value == ends[last]:
            return shortened
        return substitute(shortened, ((charges[last].entries[0].name, "steps"),), value - steps_before)

    values = [float(count) for count in sorted(counts)]
    return epsilon_over.Varied(f"{len(charges):,} entries in order", "steps", float(total), values, pipeline_at, "linear", notes)


def _only_with(pipeline: Pipeline, entries: list[Entry]) -> Pipeline:
    """Return the pipeline with these entries, the entries that they run (which are charged with them), and no others."""
    by_name = {entry.name: entry for entry in pipeline.mechanisms}
    kept, wanted = set[str](), [entry.name for entry in entries]
    while wanted:
        name = wanted.pop()
        if name not in kept:
            kept.add(name)
            wanted += part_names(by_name[name].spec)
    return replace(pipeline, mechanisms=tuple(entry for entry in pipeline.mechanisms if entry.name in kept))


def _stated_steps(entry: Entry, dataset_size: int | None) -> int:
    """Return the number of steps in the file, computed from its epochs if it states epochs."""
    rate = entry.sampling.lower_rate(dataset_size) if isinstance(entry.sampling, Batched) else None
    return entry.runs(dataset_size).steps_at(rate)
