"""A watch over a training loop that dpcli did not create. The loop is compared with its file while it runs."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from dpcli.base.displayed import Displayed
from dpcli.base.errors import InputError, Unavailable
from dpcli.base.extras import require
from dpcli.base.lazy import load
from dpcli.train.plan.plan import TrainingPlan, plan_of

if TYPE_CHECKING:
    from transformers import TrainerCallback

    from dpcli.random.subsets import Indices
    from dpcli.train.watch.engine import MeasuredNoise
    from dpcli.train.watch.loader import DrawnBatches

CALLBACKS = {
    "transformers": "dpcli.train.watch.transformers_callback:TrainerWatch",
    "lightning": "dpcli.train.watch.lightning_callback:LightningWatch",
}
SEEN = "no contradiction seen"
EQUAL_RATES = 1e-9  # relative difference up to which two sampling rates are equal
NOT_SEEN = {
    "sampling": "not seen: whether batches are drawn as the file declares",
    "clipping": "not seen: whether each record's gradient is clipped",
    "noise": "not seen: whether noise is added",
}


@dataclass(slots=True)
class Watch(Displayed):
    """Compares a training loop with a file while it runs; `dpcli.watch` makes it.

    What contradicts the file raises an InputError in the loop. What cannot be seen is said in `report`. It states no epsilon: that is the
    file's, for a loop that does all of it, and `dpcli account` prints it.

    Attributes:
        observed: The sampling, the clipping and the noise, in words.
        steps: Number of steps that the optimizer took.
        unwatched: How many of them before.
    """

    plan: TrainingPlan
    observed: dict[str, str] = field(default_factory=lambda: dict(NOT_SEEN))
    steps: int = 0
    unwatched: int = 0
    batches: int = 0
    wrong: str = ""
    drawn: DrawnBatches | None = None
    noise: MeasuredNoise | None = None
    handles: list[Any] = field(default_factory=list)

    __repr__ = Displayed.__repr__

    def _line(self) -> str:
        wrong = "; contradicts the file: no guarantee" if self.wrong else ""
        return f"{self.steps:,} of {self.planned:,} steps of {self.plan.path!r}{wrong}"

    def follow(self, optimizer: Any, loader: Any, accumulated: int = 1, taken: int = 0) -> None:
        """Look at a loop from here on; the callbacks call it where training starts.

        Args:
            optimizer: Optimizer that the loop steps, wrapped by a framework or not.
            loader: Its loader, before the first batch is drawn.
            accumulated: Batches for each step of the optimizer.
            taken: Steps before, of a loop that goes on: they count, and what this watch did not see of them is said.

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
        """Return the steps that the file declares: the loop is to stop there, and one more raises."""
        return self.plan.steps

    @property
    def finished(self) -> bool:
        """Return whether the loop must stop: nothing more is declared."""
        return self.steps >= self.planned

    @property
    def complete(self) -> bool:
        """Return whether sampling, clipping and noise were all seen, and nothing contradicts the file."""
        return not self.wrong and not self.unwatched and not set(self.observed.values()) & set(NOT_SEEN.values())

    @property
    def report(self) -> str:
        """Return what was seen, and what was not, in sentences."""
        if self.wrong:
            return f"the loop contradicts {self.plan.path}: {self.wrong}; no guarantee"
        lines = [f"{self.steps:,} of {self.planned:,} steps", *(f"{name}: {words}" for name, words in self.observed.items())]
        if self.unwatched:
            lines.append(f"not seen: the first {self.unwatched:,} steps")
        return "; ".join([*lines, "no proof of an epsilon" if self.complete else "no guarantee"])

    def trainer_callback(self) -> TrainerCallback:
        """For the `callbacks` of a Trainer of transformers. Raises Unavailable if that is not installed."""
        require("transformers")
        callback: TrainerCallback = load(CALLBACKS["transformers"])(self)
        return callback

    def lightning_callback(self) -> Any:
        """For the `callbacks` of a Trainer of Lightning: a `lightning.pytorch.Callback`. Raises Unavailable if that is not installed."""
        if importlib.util.find_spec("lightning") is None:
            raise Unavailable("lightning is not installed: pip install lightning")
        return load(CALLBACKS["lightning"])(self)

    def follow_loader(self, loader: Any, accumulated: int = 1) -> None:
        """The half of `follow` about the loader, where a framework has the two at different times."""
        from dpcli.train.watch.loader import PassBatches, PoissonBatches, WholeBatches, batches_of, order_of, rate_of, record

        if len({stage.entry.name for stage in self.plan.stages}) > 1 or accumulated != 1:
            return  # it is unknown to which entry, or to which step, a batch belongs
        if not record(loader, self._batch):
            return
        count = len(loader.dataset)
        if count > self.plan.size:
            self.refuse("sampling", f"{count:,} records, where the file declares {self.plan.size:,}")
        stage = self.plan.stages[0]
        self.drawn = batches_of(stage.entry.sampling, self.plan.size, count)
        order, scheme = order_of(loader), stage.entry.sampling
        if order and scheme is not None and self.drawn is not None and not isinstance(self.drawn, PassBatches | WholeBatches):
            self.refuse("sampling", f"a loader with {order}, which is no {scheme.scheme} sampling and costs more")
        rate = rate_of(loader)
        if rate is not None and isinstance(self.drawn, PoissonBatches) and abs(rate - self.drawn.rate) > EQUAL_RATES * rate:
            words = f"a sampler of rate {rate:.8g}, where the file declares {self.drawn.rate:.8g}"
            self.refuse("sampling", f"{words} (Opacus draws with 1 / len(loader), whatever the batch size)")

    def follow_optimizer(self, optimizer: Any, taken: int = 0) -> None:
        """The half of `follow` about the optimizer."""
        from dpcli.train.watch.engine import MeasuredNoise, contradiction, layers_of, opacus_in, steps_of

        layers = layers_of(optimizer)
        taken = max(taken, steps_of(layers[-1]))
        self.unwatched += max(0, taken - self.steps)
        self.batches += max(0, taken - self.steps)
        self.steps = max(self.steps, taken)
        self.handles.append(layers[-1].register_step_pre_hook(self._step))
        engine = opacus_in(layers)
        if engine is None:
            return
        multiplier, norm = self.plan.stages[0].noise_multiplier, self.plan.train.clipping.norm
        words = contradiction(engine, multiplier, norm)
        if words:
            self.refuse("noise", f"an Opacus optimizer with {words}")
        self.observed["clipping"] = f"by Opacus, whose own code is believed, to norm {norm:g}"
        self.noise = MeasuredNoise(engine, multiplier, norm)
        self.handles.append(self.noise.watch(self._noise))

    def _batch(self, batch: Indices) -> None:
        """Test a batch of the loader. Raises InputError if it contradicts the file."""
        self.batches += 1
        if self.drawn is None:
            return
        words = self.drawn.add(batch)
        if words:
            self.refuse("sampling", words)
        self.observed["sampling"] = SEEN

    def _noise(self, words: str) -> None:
        """Take the result of a measurement of the noise: in words how it contradicts the file, or ""."""
        if words:
            self.refuse("noise", words)
        self.observed["noise"] = f"measured, {SEEN}; that nobody knows the seed of torch's generator was not"

    def _step(self, optimizer: Any, given: Any, named: Any) -> None:
        """Count a step of the optimizer. Raises InputError if the file does not declare it, or if the loader drew no batch for it."""
        if self.steps >= self.planned:
            self.refuse("steps", f"another step after the {self.planned:,} that it declares")
        self.steps += 1
        if self.drawn is not None and not self.drawn.count:
            self.drawn = None  # the loader drew earlier, or not at all, so later batches show nothing
        if self.drawn is not None and self.steps > self.batches:
            self.refuse("sampling", f"{self.steps:,} steps on {self.batches:,} batches")

    def refuse(self, what: str, words: str) -> NoReturn:
        """Mark the loop as contradicting the file, and raise InputError. The first contradiction remains in the report."""
        self.wrong = self.wrong or f"{what}: {words}"
        raise InputError(f"{self.plan.path}: {what}: expected what the file declares, found {words}")


def watch(pipeline: str | os.PathLike[str]) -> Watch:
    """Compare a training loop that you did not make private by dpcli with the pipeline file that prices it.

    Args:
        pipeline: the path of a file with [train]; `task = "loop"` and a clipping norm are enough.

    Returns:
        `Watch`: `trainer_callback()` and `lightning_callback()` go into a framework's `callbacks`. Elsewhere, such as with Accelerate,
        `follow(optimizer, loader)` is called once before the loop, which stops where `finished` says so.

    It tests how the loader draws records against the declared scheme (sizes, repetitions, passes; a right sampler is refused once in 10^9
    runs), the numbers of steps and records, and, of an Opacus optimizer, its settings and the noise that it really adds. A loader that
    shuffles is refused where the file declares Poisson sampling. Who clips and adds noise otherwise is not seen, and no epsilon is stated.
    What was seen proves nothing: it finds mistakes. To make a loop private, use `dpcli.private`.

    Raises:
        InputError: the file cannot be read or honoured. Denied: its own budget does not allow it. CannotCertify: nobody can say what it
            costs. Unavailable: torch is not installed.

    Source: Chua et al. 2024, arXiv:2403.17673, on shuffled batches that are accounted for as Poisson samples.

    >>> import dpcli
    >>> watch = dpcli.watch("run.toml")                                                             # doctest: +SKIP
    >>> trainer = Trainer(model, args, train_dataset=data, callbacks=[watch.trainer_callback()])    # doctest: +SKIP
    """
    require("torch")
    plan = plan_of(os.fspath(pipeline))
    plan.require_budget()
    return Watch(plan)
