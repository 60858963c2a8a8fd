"""`dpcli.watch`, which compares a training loop that dpcli did not create with its pipeline file while the loop runs.

Three parts of each step decide its privacy: the sampling of the batch, the clipping of each record's gradient, and the noise added to the
sum. loader.py tests the batches, and noise_measurement.py the clipped sums and the noise. `Watch` calls both, counts the steps, and stops
the loop at the first contradiction. A correct loop is stopped in at most one of 10^9 runs for its batches, and likewise for its noise. A
part that nobody observed must never look observed: `Watch.complete` and the last words of `Watch.report` depend on it.
"""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from dpcli.base.displayed import Displayed
from dpcli.base.errors import InputError, Unavailable
from dpcli.base.extras import require
from dpcli.base.lazy import load
from dpcli.base.rounding import up
from dpcli.train.plan.plan import TrainingPlan, plan_of

if TYPE_CHECKING:
    from transformers import TrainerCallback

    from dpcli.random.subsets import Indices
    from dpcli.train.watch.loader import DrawnBatches
    from dpcli.train.watch.noise_measurement import MeasuredNoise

CALLBACKS = {
    "transformers": "dpcli.train.watch.transformers_callback:TrainerWatch",
    "lightning": "dpcli.train.watch.lightning_callback:LightningWatch",
}
CONSISTENT = "no contradiction found"
# Largest relative difference of two sampling rates that count as equal, because their last digits may be rounded. A choice.
EQUAL_RATES = 1e-9


@dataclass(frozen=True, slots=True)
class Observation:
    """An observation of one part of the steps.

    Attributes:
        words: The observation as `Watch.report` shows it.
        was_observed: Whether the part was looked at. If not, the words say so.
    """

    words: str
    was_observed: bool = True


UNOBSERVED = {
    "sampling": Observation("not observed: whether batches are drawn as the file declares", was_observed=False),
    "clipping": Observation("not observed: whether each record's gradient is clipped", was_observed=False),
    "noise": Observation("not observed: whether noise is added", was_observed=False),
}


@dataclass(slots=True)
class Watch(Displayed):
    """A comparison of a training loop with a pipeline file while the loop runs; `dpcli.watch` returns it.

    A contradiction between the loop and the file raises an InputError in the loop. `report` says which properties could not be observed. A
    watch states no epsilon: `dpcli account` prints the epsilon of the file, which holds for a loop that does everything the file declares.

    Attributes:
        plan: Plan of the training run that the file declares.
        observed: Observations of "sampling", "clipping" and "noise".
        steps: Number of steps that the optimizer took.
        unwatched: Number of these steps that the optimizer took before the watch began.
        batches: Batches that the loader drew, plus one for each unwatched step, so that the number can be compared with `steps`.
        wrong: First contradiction between the loop and the file, in words; "" if there is none.
        drawn: Test of the loader's batches against the sampling scheme; None if there is none.
        noise: Measurement of the noise; None without an Opacus optimizer.
        handles: Handles that remove the registered hooks.
    """

    plan: TrainingPlan
    observed: dict[str, Observation] = field(default_factory=lambda: dict(UNOBSERVED))
    steps: int = 0
    unwatched: int = 0
    batches: int = 0
    wrong: str = ""
    drawn: DrawnBatches | None = None
    noise: MeasuredNoise | None = None
    handles: list[Any] = field(default_factory=list)

    __repr__ = Displayed.__repr__

    def _line(self) -> str:  # the text that `repr` shows (base/displayed.py)
        ending = "; contradicts the file: no guarantee" if self.wrong else ""
        return f"{self.steps:,} of {self.planned:,} steps of {self.plan.path!r}{ending}"

    def follow(self, optimizer: Any, loader: Any, accumulated: int = 1, taken: int = 0) -> None:
        """Observe a loop from now on. The callbacks call this method when training starts.

        Args:
            optimizer: Optimizer of the loop, which a framework may have wrapped.
            loader: Loader of the loop, before it draws the first batch.
            accumulated: Number of batches for each step of the optimizer.
            taken: Number of steps that a continued loop has already taken. They count as steps of the file, and `report` calls them
                unobserved.

        Raises:
            InputError: The loader or the optimizer contradicts the file already.
        """
        self.release()
        self.follow_loader(loader, accumulated)
        self.follow_optimizer(optimizer, taken)

    def release(self) -> None:
        """Remove every hook."""
        while self.handles:
            self.handles.pop().remove()

    @property
    def planned(self) -> int:
        """Return the number of steps that the file declares. A further step raises InputError."""
        return self.plan.steps

    @property
    def finished(self) -> bool:
        """Return whether all declared steps were taken, so that the loop must stop."""
        return self.steps >= self.planned

    @property
    def complete(self) -> bool:
        """Return whether sampling, clipping and noise were observed in every step without a contradiction."""
        observed_all = all(part.was_observed for part in self.observed.values())
        return observed_all and not self.wrong and not self.unwatched

    @property
    def report(self) -> str:
        """Return the observations in words, including the properties and the steps that were not observed."""
        if self.wrong:
            return f"the loop contradicts {self.plan.path}: {self.wrong}; no guarantee"
        lines = [f"{self.steps:,} of {self.planned:,} steps", *(f"{name}: {part.words}" for name, part in self.observed.items())]
        faults = self._detectable_faults()
        if faults:
            lines.append(f"would have been noticed with 90 % probability: {' and '.join(faults)}")
        if self.unwatched:
            lines.append(f"not observed: the first {self.unwatched:,} steps")
        return "; ".join([*lines, "no proof of an epsilon" if self.complete else "no guarantee"])

    def _detectable_faults(self) -> list[str]:
        """Return in words the smallest faults of the noise and of Poisson samples that the watch would have found."""
        faults = []
        if self.noise is not None and self.noise.numbers:
            faults.append(f"noise too small by a factor of {up(self.noise.detectable_factor, 2)} in any tensor")
        power = self.drawn.power() if self.drawn is not None and self.observed["sampling"].was_observed else None
        return faults if power is None else [*faults, power]

    def trainer_callback(self) -> TrainerCallback:
        """Return a callback for transformers' Trainer(callbacks=[...]). Raises Unavailable if transformers is not installed."""
        require("transformers")
        callback: TrainerCallback = load(CALLBACKS["transformers"])(self)
        return callback

    def lightning_callback(self) -> Any:
        """Return a callback for Lightning's Trainer(callbacks=[...]). Raises Unavailable if lightning is not installed."""
        if importlib.util.find_spec("lightning") is None:
            raise Unavailable("lightning is not installed: pip install lightning")
        return load(CALLBACKS["lightning"])(self)

    def follow_loader(self, loader: Any, accumulated: int = 1) -> None:
        """Observe a loader. Use this with `follow_optimizer` if a framework creates the loader and the optimizer at different times.

        Raises:
            InputError: The loader contradicts the file.
        """
        from dpcli.train.watch.loader import PoissonBatches, batches_of, opacus_rate, report_batches, torch_sampler_name

        if len({stage.entry.name for stage in self.plan.stages}) > 1 or accumulated != 1:
            return  # the entry, or the step, to which a batch belongs is unknown
        if not report_batches(loader, self._test_batch):
            return
        count = len(loader.dataset)
        if count > self.plan.size:
            self.refuse("sampling", f"{count:,} records, where the file declares {self.plan.size:,}")
        scheme = self.plan.stages[0].entry.sampling
        # With correlated noise, Poisson samples are drawn from groups of the records that take turns. Such batches have no test.
        takes_turns = scheme is not None and self.plan.stages[0].spec.takes_turns
        self.drawn = None if takes_turns else batches_of(scheme, self.plan.size, count)
        allows_passes = not takes_turns and (self.drawn is None or self.drawn.allows_passes)  # passes over the data
        torch_sampler = torch_sampler_name(loader)
        if torch_sampler is not None and scheme is not None and not allows_passes:
            self.refuse("sampling", f"a loader with {torch_sampler}, which is not {scheme.scheme} sampling and costs more")
        rate = opacus_rate(loader)
        if rate is not None and isinstance(self.drawn, PoissonBatches) and abs(rate - self.drawn.rate) > EQUAL_RATES * rate:
            problem = f"a sampler of rate {rate:.8g}, where the file declares {self.drawn.rate:.8g}"
            self.refuse("sampling", f"{problem} (Opacus samples at rate 1 / len(loader), whatever the batch size)")

    def follow_optimizer(self, optimizer: Any, taken: int = 0) -> None:
        """Observe an optimizer. For the arguments, see `follow`. Raises InputError if the optimizer contradicts the file."""
        from dpcli.train.watch.noise_measurement import MeasuredNoise, contradiction, layers_of, opacus_in, steps_of

        layers = layers_of(optimizer)  # the wrappers; the last layer is the optimizer that changes the weights
        earlier_steps = max(0, max(taken, steps_of(layers[-1])) - self.steps)
        self.unwatched += earlier_steps
        self.batches += earlier_steps
        self.steps += earlier_steps
        self.handles.append(layers[-1].register_step_pre_hook(self._count_step))
        opacus_optimizer = opacus_in(layers)
        if opacus_optimizer is None:
            return
        multiplier, norm = self.plan.stages[0].noise_multiplier, self.plan.train.clipping.norm
        problem = contradiction(opacus_optimizer, multiplier, norm)
        if problem is not None:
            self.refuse("noise", f"an Opacus optimizer with {problem}")
        self.observed["clipping"] = Observation(f"by Opacus to norm {norm:g}; Opacus' code was not checked")
        self.noise = MeasuredNoise(opacus_optimizer, multiplier, norm)
        self.handles.append(self.noise.watch(self._report_measurement, self._batch_size))

    def _test_batch(self, batch: Indices) -> None:
        """Test a batch of the loader. Raises InputError if it contradicts the file."""
        self.batches += 1
        if self.drawn is None:
            return
        problem = self.drawn.add(batch)
        if problem is not None:
            self.refuse("sampling", problem)
        self.observed["sampling"] = Observation(CONSISTENT)

    def _batch_size(self) -> int | None:
        """Return the number of records of the step in progress; None if the loader is not tested, or drew no or several batches for it."""
        return self.drawn.size if self.drawn is not None and self.batches == self.steps else None

    def _report_measurement(self, part: str, problem: str | None) -> None:
        """Store the result of a measurement. Raises InputError if it contradicts the file.

        Args:
            part: "clipping" or "noise".
            problem: Description of how the part contradicts the file; None if it does not.
        """
        if problem is not None:
            self.refuse(part, problem)
        assert self.noise is not None
        if self.noise.clipped_steps:
            words = f"sums of clipped gradients in {self.noise.clipped_steps:,} steps, {CONSISTENT}"
            self.observed["clipping"] = Observation(words)
        if part == "noise":
            words = f"measured, {CONSISTENT}; whether somebody knows the seed of torch's generator was not checked"
            self.observed["noise"] = Observation(words)

    def _count_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Count a step of the optimizer. Raises InputError if all declared steps were taken, or if the loader drew no batch for it."""
        if self.steps >= self.planned:
            self.refuse("steps", f"another step after the {self.planned:,} declared steps")
        self.steps += 1
        if self.drawn is not None and not self.drawn.count:
            self.drawn = None  # the loader drew this step's batch unobserved, so its later batches prove nothing
        if self.drawn is not None and self.steps > self.batches:
            self.refuse("sampling", f"{self.steps:,} steps on {self.batches:,} batches")

    def refuse(self, part: str, words: str) -> NoReturn:
        """Record that the loop contradicts the file, and raise InputError. `report` shows the first contradiction.

        Args:
            part: Part of the run, such as "sampling".
            words: Description of what contradicts the file.
        """
        self.wrong = self.wrong or f"{part}: {words}"
        raise InputError(f"{self.plan.path}: {part}: expected what the file declares, found {words}")


def watch(pipeline: str | os.PathLike[str]) -> Watch:
    """Compare a training loop that another library made private with the pipeline file that prices it.

    Args:
        pipeline: the path of a file with [train]. The table needs only `task = "loop"` and a clipping norm.

    Returns:
        `Watch`. Pass its `trainer_callback()` or `lightning_callback()` to a framework's `callbacks`. With other libraries, such as
        Accelerate, call `follow(optimizer, loader)` once before the loop, and end the loop when `finished` is true.

    The watch tests the batches against the declared sampling scheme: their sizes, repeated records, and passes over the data. A correct
    sampler is refused in at most one of 10^9 runs. A shuffling loader is refused if the file declares Poisson sampling. The watch also
    checks the numbers of steps and records, and the settings of an Opacus optimizer. It measures the noise that an Opacus optimizer adds,
    and its clipping where it clips by one norm and has the gradients of the whole batch. `report` says which faults it would have found.
    Clipping and noise of other libraries are not observed. The watch finds mistakes. It proves no guarantee and states no epsilon. To make
    a loop private, use `dpcli.private`.

    Raises:
        InputError: the file cannot be read, or it declares a run that dpcli cannot train. Denied: the budget in the file does not allow
            the run. CannotCertify: the cost of the run cannot be bounded. Unavailable: torch is not installed.

    Source: Chua et al. 2024, arXiv:2403.17673, on shuffled batches that are accounted for as Poisson samples.

    >>> import dpcli
    >>> watch = dpcli.watch("run.toml")                                                             # doctest: +SKIP
    >>> trainer = Trainer(model, args, train_dataset=data, callbacks=[watch.trainer_callback()])    # doctest: +SKIP
    """
    require("torch")
    plan = plan_of(os.fspath(pipeline))
    if plan.final_only:
        raise InputError(
            f"{plan.path}: expected no entry of type last-iterate, found one: no loop but dpcli train's keeps its premises"
        )
    plan.require_budget()
    return Watch(plan)
