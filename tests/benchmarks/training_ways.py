"""Ways to take a step: without privacy, ours, and Opacus' two; and whole epochs with their own sampling."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from tests.benchmarks.training_cases import RECORDS, Batch, Case, example_losses, mean_loss

NOISE, NORM, RATE = 1.0, 1.0, 0.1
Step = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Place:
    """A device, and whether forward and backward are in bfloat16 by autocast."""

    device: str = "cpu"
    half: bool = False

    def model(self, case: Case) -> nn.Module:
        return case.build().to(self.device).train()

    def batch(self, case: Case, size: int | None = None) -> Batch:
        return {name: value.to(self.device) for name, value in case.draw(case.batch if size is None else size).items()}

    def precision(self) -> AbstractContextManager[object]:
        return torch.autocast(torch.device(self.device).type, torch.bfloat16) if self.half else nullcontext()


def trainable(model: nn.Module) -> list[nn.Parameter]:
    return [p for p in model.parameters() if p.requires_grad]


def sgd(case: Case, place: Place) -> Step:
    """The mean loss of the same batch, backwards, a step."""
    model, batch = place.model(case), place.batch(case)
    optimizer = torch.optim.SGD(trainable(model), RATE)

    def step() -> None:
        optimizer.zero_grad()
        with place.precision():
            loss = mean_loss(case.logits(model, batch), batch["targets"])
        loss.backward()
        optimizer.step()

    return step


def ours(case: Case, place: Place) -> Step:
    """Clipped sums, noise from the cryptographic generator, a step; as in all but a run's first steps, one example is taken alone now and
    then."""
    model, batch = place.model(case), place.batch(case)
    release = releaser(case, place, model, float(case.batch))
    return lambda: release(batch)


def releaser(case: Case, place: Place, model: nn.Module, expected: float) -> Callable[[Batch], None]:
    """One step of the loop on a batch."""
    from dpcli.random.streams import system_entropy
    from dpcli.train.engine.clip import Flat
    from dpcli.train.engine.per_example import ALWAYS_CHECKED, ClippedGradients
    from dpcli.train.noise import Independent
    from dpcli.train.step.loop import add_noise, set_gradients

    def losses(model: nn.Module, batch: Any) -> Tensor:
        return example_losses(case.logits(model, batch), batch["targets"])

    gradients, noise = ClippedGradients(model, losses, Flat(NORM)), Independent(NOISE * NORM, system_entropy().noise)
    gradients.step = ALWAYS_CHECKED - 2  # the two steps before what is timed are checked, as memory is measured in the second
    optimizer = torch.optim.SGD(trainable(model), RATE)

    def release(batch: Batch) -> None:
        optimizer.zero_grad()
        with place.precision():
            sums = gradients.checked_sums(batch, secrets.randbelow(max(1, len(batch["targets"]))))
        add_noise(sums.gradients, noise)
        set_gradients(model, sums.gradients, expected)
        optimizer.step()
        assert gradients.method.name == "book-keeping", gradients.describe()

    return release


def noise_alone(case: Case, place: Place) -> Step:
    """The noise of one of our steps, which is part of "dpcli" as well."""
    from dpcli.random.streams import system_entropy
    from dpcli.train.engine.per_example import keep_memory
    from dpcli.train.noise import Independent

    keep_memory()  # as in training: without it, receiving the memory again takes as long as the noise
    model = place.model(case)
    noise, count = Independent(NOISE * NORM, system_entropy().noise), sum(parameter.numel() for parameter in trainable(model))

    def step() -> None:
        deque(noise.parts(count), maxlen=0)

    return step


def opacus(mode: str) -> Callable[[Case, Place], Step]:
    """PrivacyEngine.make_private on a fixed batch, with its own criterion where the mode has one."""

    def build(case: Case, place: Place) -> Step:
        model, batch = place.model(case), place.batch(case)
        loader = DataLoader(TensorDataset(batch["targets"]), batch_size=case.batch)
        model, optimizer, criterion, _ = private(model, loader, mode, poisson_sampling=False)

        def step() -> None:
            optimizer.zero_grad()
            with place.precision():
                logits, targets = case.logits(model, batch), batch["targets"]
                shape = {"shape": targets.shape} if mode == "ghost" and targets.dim() > 1 else {}
                loss = criterion(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), **shape)
            loss.backward()
            optimizer.step()

        return step

    return build


def private(model: nn.Module, loader: Any, mode: str, poisson_sampling: bool) -> tuple[Any, Any, Any, Any]:
    """(model, optimizer, criterion, loader) of Opacus, with its own layers where it has no rule for torch's."""
    from opacus import PrivacyEngine
    from opacus.validators import ModuleValidator

    model = ModuleValidator.fix(model)
    criterion = nn.CrossEntropyLoss()
    made = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(trainable(model), RATE),
        criterion=criterion,
        data_loader=loader,
        noise_multiplier=NOISE,
        max_grad_norm=NORM,
        poisson_sampling=poisson_sampling,
        grad_sample_mode=mode,
    )
    return made if len(made) == 4 else (made[0], made[1], criterion, made[2])


def our_epoch(case: Case, place: Place) -> Step:
    """As many Poisson samples as an epoch has batches, each indexed at once."""
    from dpcli.mechanisms.sampling.schemes import Poisson
    from dpcli.random.streams import system_entropy
    from dpcli.train.sampling.batch_samplers import sampler

    model, data = place.model(case), place.batch(case, RECORDS)
    batches = sampler(Poisson("poisson", rate=case.batch / RECORDS), RECORDS, system_entropy().sampling)
    release = releaser(case, place, model, float(case.batch))

    def epoch() -> None:
        for _ in range(RECORDS // case.batch):
            rows = torch.from_numpy(next(batches)).to(place.device)
            release({name: value[rows] for name, value in data.items()})

    return epoch


def opacus_epoch(mode: str) -> Callable[[Case, Place], Step]:
    """Its data loader over a TensorDataset, as in its tutorials."""

    def build(case: Case, place: Place) -> Step:
        data = case.draw(RECORDS)
        loader = DataLoader(TensorDataset(*data.values()), batch_size=case.batch)
        model, optimizer, criterion, loader = private(place.model(case), loader, mode, poisson_sampling=True)

        def epoch() -> None:
            for values in loader:
                batch = {name: value.to(place.device) for name, value in zip(data, values, strict=True)}
                optimizer.zero_grad()
                with place.precision():
                    loss = criterion(case.logits(model, batch), batch["targets"])
                loss.backward()
                optimizer.step()

        return epoch

    return build


STEPS: dict[str, Callable[[Case, Place], Step]] = {
    "sgd": sgd,
    "dpcli": ours,
    "noise": noise_alone,
    "opacus hooks": opacus("hooks"),
    "opacus ghost": opacus("ghost"),
}
EPOCHS: dict[str, Callable[[Case, Place], Step]] = {
    "dpcli": our_epoch,
    "opacus hooks": opacus_epoch("hooks"),
    "opacus ghost": opacus_epoch("ghost"),
}
WAYS = {**{f"step: {name}": build for name, build in STEPS.items()}, **{f"epoch: {name}": build for name, build in EPOCHS.items()}}
