"""How long a run will take and how much memory it needs, measured on steps that are thrown away."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass, replace

from dpcli.base.errors import Unavailable
from dpcli.base.extras import require_posix
from dpcli.train.plan.plan import TrainingPlan


@dataclass(frozen=True, slots=True)
class Estimate:
    """seconds: of the whole run, without evaluation. bytes: peak memory of the process, or of the GPU. method: of the clipped sums.

    constants: what the user's own program reads beside its parameters, its buffers and the records, by name.
    """

    seconds: float
    bytes: int
    method: str
    parameters: int
    constants: tuple[str, ...] = ()


def estimate(plan: TrainingPlan) -> Estimate | str:
    """From a few steps on the first records, of which nothing is kept; or what is not installed or downloaded here.

    Raises InputError where the run itself would be refused.
    """
    if importlib.util.find_spec("torch") is None:
        return "torch is not installed: pip install 'dpcli[train]'"
    from dpcli.train.tasks.lm_library import cached_only

    try:
        with cached_only():
            return _measured(plan)
    except Unavailable as problem:
        return str(problem)


def _measured(plan: TrainingPlan) -> Estimate:
    require_posix("measuring a run")
    import torch

    from dpcli.random.streams import system_entropy
    from dpcli.train.run.ranks import Alone
    from dpcli.train.run.threads import quickest
    from dpcli.train.step.prepare import prepare

    prepared = prepare(replace(plan, canaries=0), system_entropy(), Alone(), None, "")
    trainer, physical = prepared.trainer, plan.train.physical_batch_size
    records = prepared.few()
    prepared.rehearse()
    part = quickest(lambda: trainer.gradients(records))
    noise = prepared.noise(plan.stages[0])
    drawn = quickest(lambda: noise.next(trainer.shapes))
    seconds = sum(stage.steps * (part * max(1.0, stage.expected_batch / physical) + drawn) for stage in plan.stages)
    memory = torch.cuda.max_memory_allocated() if plan.train.device.startswith("cuda") else _peak()
    prepared.measure()  # refused here as by the run
    parameters = sum(shape.numel() for shape in trainer.shapes.values())
    return Estimate(seconds, memory, trainer.gradients.describe(), parameters, tuple(prepared.constants))


def _peak() -> int:
    """Of this process, in bytes; the system counts in kilobytes, but for macOS."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
