"""The document of `dpcli train --explain-step`: what one step computes, in order, with its numbers.

The steps of one entry of the file are alike, so the document describes one step of each entry that training performs: which records it
draws, how it clips, how much noise it adds, and by what it divides. Shapes and the method of the clipped sums come from a *rehearsal*, a
trial of the run on synthetic records (`Prepared.rehearse` in step/prepare.py). No private record passes through the model, and nothing is
charged. An *entry* is a mechanism of the file, and a *stage* a sequence of its steps. C is the clipping norm.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dpcli.document.document import Document
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.mechanisms.noise.correlated import CorrelatedSpec
from dpcli.mechanisms.noise.last_iterate import LastIterateSpec
from dpcli.mechanisms.sampling.schemes import Poisson
from dpcli.sessions.documents.dry_run import dry_run
from dpcli.train.plan.plan import TrainingPlan
from dpcli.train.plan.stages import Stage

if TYPE_CHECKING:
    from dpcli.train.step.loop import Trainer
    from dpcli.train.step.prepare import Prepared

MOST_SHAPES = 6  # number of tensors whose shapes are named, because a large model has hundreds; arbitrary
# The records of a step in words, by the sampling scheme. Correlated noise has its own samples, which the file states as "none".
DRAWS = {
    "poisson": "each of {size:,} records with probability {rate:.6g}, independently: about {batch:,g}, a number that stays secret",
    "fixed-size": "{batch:,g} of {size:,} records, without replacement",
    "balls-in-bins": "the records to which a secret draw gave this step: about {batch:,g} of {size:,}",
    "shuffle": "the next {batch:,g} records of a shuffled pass over {size:,}",
    "none": "all {size:,} records",
}
BATCHES_IN_TURN = (
    "the records of the next of {batches:,} batches, whose places were drawn when the run began: about {batch:,g} of {size:,}"
)
ASSIGNED = "the records that were assigned to this step when the run began: about {batch:,g} of {size:,}"
GROUPS_IN_TURN = (
    "each record of one of {batches} groups with probability {rate:.6g}, independently: about {batch:,g} of {size:,}; the groups were "
    "drawn when the run began, and take turns"
)
# Effect of a neighbouring dataset on the sum of a step.
MOVES = {
    Adjacency.ADD_REMOVE: "one {unit} more or less moves the sum by at most C",
    Adjacency.REPLACE_ONE: "another {unit} in the place of one moves the sum by at most 2 C",
    Adjacency.ZERO_OUT: "one {unit} that is blanked moves the sum by at most C",
}


def step_document(plan: TrainingPlan) -> Document:
    """Return the document. The shapes come from a rehearsal on synthetic records, which changes nothing outside this process.

    Raises:
        InputError: The run itself would be refused.
        Unavailable: A library is not installed or a model is not downloaded.
    """
    prepared = _rehearse_trial(plan)
    stages, details = [], []
    for stage in plan.first_stages:
        actions = _actions(plan, stage, prepared)
        stages.append({"mechanism": stage.entry.name, "step": actions})
        details.append(f"a step of {stage.entry.name} ({stage.entry.type}):")
        details += [f"  {number}. {action}" for number, action in enumerate(actions, 1)]
    shapes = {name: list(shape) for name, shape in prepared.trainer.shapes.items()}
    return dry_run(plan, "dpcli/train-step/v1", {"stages": stages, "shapes": shapes}, tuple(details))


def _rehearse_trial(plan: TrainingPlan) -> Prepared:
    """Return the plan with its data and trainer, after a rehearsal."""
    from dpcli.base.errors import Unavailable
    from dpcli.random.streams import system_entropy
    from dpcli.train.run.ranks import Ranks
    from dpcli.train.step.prepare import prepare_trial

    if importlib.util.find_spec("torch") is None:
        raise Unavailable("torch is not installed: pip install 'dpcli[train]'")
    prepared = prepare_trial(plan, system_entropy(), Ranks())  # fresh random numbers, and one process
    prepared.rehearse()
    return prepared


def _actions(plan: TrainingPlan, stage: Stage, prepared: Prepared) -> list[str]:
    """Return the actions of a step in words, in their order."""
    train, trainer = plan.train, prepared.trainer
    numbers = sum(shape.numel() for shape in trainer.shapes.values())
    unit = "record" if train.units is None else (plan.pipeline.privacy.unit or "unit")
    style = " ".join(str(type(train.clipping).__doc__).split()).rstrip(".")  # the docstring of the class describes the style
    sensitivity = MOVES[plan.pipeline.privacy.adjacency].format(unit=unit)
    return [
        f"draw: {_sample(plan, stage)}",
        f"gradients: of the loss of each {unit} by itself, {numbers:,} numbers in {_shapes(trainer)}, "
        f"by {trainer.gradients.describe()}; at most {train.physical_batch_size:,} at once are in memory",
        f"clip: {style[:1].lower()}{style[1:]}; C = {train.clipping.norm:g} ({train.clipping.style})",
        f"sum: the clipped gradients are added; {sensitivity}",
        *_noise(plan, stage, prepared, numbers),
        f"divide: by {stage.expected_batch:,g}, a public number, never by the number of records drawn",
        f"update: {train.optimizer} at learning rate {train.learning_rate:g}; this and all that follows reads the noisy sum alone",
        *(
            [f"project: weights longer than {trainer.radius:.6g} are scaled down to this length"]
            if trainer.radius is not None
            else []
        ),
        *(
            ["keep: no model but the last one is written, measured or shown, except the state for --resume"]
            if plan.final_only
            else []
        ),
    ]


def _sample(plan: TrainingPlan, stage: Stage) -> str:
    """Return in words which records a step takes."""
    spec, sampling = stage.spec, stage.entry.sampling
    words, batches, rate = DRAWS["none" if sampling is None else sampling.scheme], 1, stage.expected_batch / plan.size
    if isinstance(spec, LastIterateSpec):
        batches = spec.batches
        words = DRAWS[spec.drawn or "none"] if batches == 1 else BATCHES_IN_TURN
    elif isinstance(spec, CorrelatedSpec) and isinstance(sampling, Poisson):
        batches = spec.min_separation
        words, rate = GROUPS_IN_TURN, batches * stage.expected_batch / plan.size
    elif isinstance(spec, CorrelatedSpec) and rate < 1.0:
        words = ASSIGNED
    most = getattr(sampling, "max_batch_size", None)
    cut = "" if most is None else f"; of more than {most:,}, others are left out at random"
    return words.format(size=plan.size, rate=rate, batch=stage.expected_batch, batches=batches) + cut


def _shapes(trainer: Trainer) -> str:
    """Return the number of tensors, and the names and shapes of the first ones."""
    named = [f"{name} {'x'.join(map(str, shape)) or 'scalar'}" for name, shape in trainer.shapes.items()]
    more = f", and {len(named) - MOST_SHAPES:,} more" if len(named) > MOST_SHAPES else ""
    count = "one tensor" if len(named) == 1 else f"{len(named):,} tensors"
    return f"{count} ({', '.join(named[:MOST_SHAPES])}{more})"


def _noise(plan: TrainingPlan, stage: Stage, prepared: Prepared, numbers: int) -> Iterator[str]:
    """Yield the standard deviation of the noise, its length compared with the sum, and the noisy count of adaptive clipping.

    Args:
        numbers: Number of trained scalars.
    """
    from dpcli.train.step.loop import first_step_std

    clipping, rounding = plan.train.clipping, prepared.rounding
    std = prepared.trainer.gradients.clip.bound * (1.0 + rounding) * first_step_std(stage.spec, clipping.count_noise)
    is_correlated = isinstance(stage.spec, CorrelatedSpec)
    drawn = "correlated over the run; in the first step it has" if is_correlated else "drawn afresh in each step, with"
    yield (
        f"noise: Gaussian, {drawn} standard deviation {std:.6g} in each number ({std / clipping.norm:.6g} C, of which "
        f"{100.0 * rounding:.2g} % covers the rounding of the sum); added once, even to the sum of no records"
    )
    length = std * math.sqrt(numbers)
    yield (
        f"size: the noise is about {length:,.4g} long over all {numbers:,} numbers; the sum of {stage.expected_batch:,g} clipped gradients "
        f"is at most {stage.expected_batch * clipping.norm:,.4g} long"
    )
    if clipping.count_noise is not None:
        yield (
            f"count: how many gradients were not clipped, with Gaussian noise of standard deviation {clipping.count_noise:g}, moves C for "
            "the next step; the file's noise multiplier covers both releases"
        )
