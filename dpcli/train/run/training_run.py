"""The training run of `dpcli train` from beginning to end, and the estimate of its time and memory for a dry run.

`train` locks the folder of the run, prepares it (`charged_run` in run/charged_run.py), takes the steps of each stage of the plan
(`Prepared.take_steps` in step/prepare.py), and lets the `ChargedRun` write the files. Ctrl-C ends the run after the step in progress, with
a saved state. Any other error gives the reservation in the ledger back if no step has begun. A run of `dpcli.private`, whose loop is the
user's own, begins and ends in loop/private.py instead.
"""

from __future__ import annotations

import importlib.util
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError, Unavailable
from dpcli.base.extras import require, require_posix
from dpcli.sessions.folder import exclusive
from dpcli.train.plan.plan import TrainingPlan
from dpcli.train.run.outcome import Outcome

if TYPE_CHECKING:
    from dpcli.ledger.ledger import Ledger
    from dpcli.train.run.ranks import Ranks


# Function that receives the number of steps taken, and the metrics if they were measured after this step.
Report = Callable[[int, Mapping[str, float] | None], None]


def train(
    plan: TrainingPlan,
    ledger: Ledger | None = None,
    resume: bool = False,
    insecure_seed: int | None = None,
    report: Report = lambda step, metrics: None,
) -> Outcome:
    """Train according to the plan. The run uses this process, or all processes that torchrun started.

    Args:
        ledger: Ledger in which the whole run is reserved at the start, and charged before the first sum over private records. A resumed
            run is charged again for the steps that it may repeat.
        resume: Whether to continue the unfinished run in the folder.
        insecure_seed: Seed of reproducible noise, which protects nobody. The statement says NOT PRIVATE, and a ledger is refused.
        report: Function that is called after each step.

    Raises:
        InputError: The run that the file declares is impossible, or contradicts an argument.
        Denied: The budget in the file or the ledger refuses the run.
        LedgerError: The ledger cannot be read or written, or has voided the run.
        KeyboardInterrupt: A signal stopped the run between two steps. Its state is saved.
        Unavailable: torch or safetensors is not installed.
    """
    require("torch", "safetensors")
    from dpcli.train.run.ranks import ranks_of

    if ledger is not None and insecure_seed is not None:
        raise InputError("--insecure-seed: expected no --ledger with a seed, found one: reproducible noise protects nobody")
    ranks, folder = ranks_of(plan.train.device), plan.folder
    with exclusive(folder) if ranks.first else nullcontext():
        outcome = _run(plan, ledger, resume, insecure_seed, report, ranks, folder)
    ranks.finish()
    return outcome


def _run(
    plan: TrainingPlan, ledger: Ledger | None, resume: bool, insecure_seed: int | None, report: Report, ranks: Ranks, folder: str
) -> Outcome:
    """Take the steps of a run in its folder, which this process has locked. The arguments are those of `train`."""
    from dpcli.train.run.charged_run import charged_run
    from dpcli.train.run.processes import Stopped, stoppable
    from dpcli.train.step.prepare import prepare

    (rows,) = ranks.broadcast((plan.rows,) if ranks.first else None)  # only the first process has read the ledger
    plan = plan.on_rows(rows)
    run = charged_run(plan, ledger, resume, insecure_seed, ranks, folder, prepare)
    with stoppable() as stop:
        try:
            for stage in plan.stages:
                run.prepared.take_steps(stage, lambda step: report(step, run.after(step)), stop)
        except Stopped:
            run.pause()
            ranks.finish()
            raise KeyboardInterrupt from None
        except BaseException as error:
            run.give_back(error)
            raise
    return run.end()


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate of the time and the memory of a run.

    Attributes:
        seconds: Duration of the whole run without evaluation, in seconds.
        bytes: Peak memory of the process or of the GPU, in bytes.
        method: Method of the clipped sums, in words.
        parameters: Number of trained scalars.
        constants: Names of the constant tensors that the user's own program reads.
    """

    seconds: float
    bytes: int
    method: str
    parameters: int
    constants: tuple[str, ...] = ()


def estimate(plan: TrainingPlan) -> Estimate:
    """Return an estimate from a step on synthetic records. The step changes nothing outside this process, and nothing is downloaded.

    Raises:
        Unavailable: A library is not installed, a model is not downloaded, or the system is not POSIX.
        InputError: The run itself would be refused.
    """
    if importlib.util.find_spec("torch") is None:
        raise Unavailable("torch is not installed: pip install 'dpcli[train]'")
    from dpcli.train.tasks.lm_library import cached_only

    with cached_only():
        return _measure_trial(plan)


def _measure_trial(plan: TrainingPlan) -> Estimate:
    """Return an estimate. The errors are those of `estimate`."""
    require_posix("measuring a run")
    import torch

    from dpcli.random.streams import system_entropy
    from dpcli.train.noise import number_count
    from dpcli.train.run.processes import quickest
    from dpcli.train.run.ranks import Ranks
    from dpcli.train.step.prepare import prepare_trial

    prepared = prepare_trial(plan, system_entropy(), Ranks())  # fresh random numbers, and one process
    trainer = prepared.trainer
    prepared.rehearse()
    records = prepared.synthetic_batch()
    gradient_seconds = quickest(lambda: trainer.gradients(records))
    noise = prepared.noise(plan.stages[0])
    count = number_count(trainer.shapes)
    noise_seconds = quickest(lambda: deque(noise.parts(count), maxlen=0))
    seconds = 0.0
    for stage in plan.stages:
        seconds += stage.steps * (gradient_seconds * stage.expected_batch / prepared.rehearsed_size + noise_seconds)
    memory = torch.cuda.max_memory_allocated() if plan.train.device.startswith("cuda") else _peak_memory()
    prepared.measure()  # raises the error that the run would raise
    return Estimate(seconds, memory, trainer.gradients.describe(), count, tuple(prepared.constants))


def _peak_memory() -> int:
    """Return the peak memory of this process, in bytes. Linux reports it in kilobytes, macOS in bytes."""
    import resource

    bytes_per_unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * bytes_per_unit
