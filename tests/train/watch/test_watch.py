"""`dpcli.watch` in loops that dpcli does not run: contradictions to the file stop them, and unobserved parts are reported as such."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

import dpcli
from dpcli.base.errors import Denied, InputError
from tests.train.loop.conftest import loss_of, model_of, records
from tests.train.watch.conftest import BATCH, POISSON, STEPS, N, PoissonSampler, dataset

SHUFFLE = POISSON.replace('"poisson"', '"shuffle"').replace(f"steps = {STEPS}", "epochs = 2")


def loop(watch: dpcli.Watch, loader: DataLoader[Any], steps: int = STEPS) -> int:
    """Plain SGD under a watch; returns the steps that it took."""
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watch.follow(optimizer, loader)
    while True:
        for batch in loader:
            optimizer.zero_grad()
            loss_of(model, batch).mean().backward()
            optimizer.step()
            if watch.steps >= steps:
                return watch.steps


def test_a_shuffling_loader_under_a_poisson_claim_is_refused() -> None:
    watch = dpcli.watch("own.toml")
    with pytest.raises(InputError, match="sampling: expected what the file declares, found a loader with RandomSampler"):
        loop(watch, DataLoader(dataset(), batch_size=BATCH, shuffle=True))
    assert watch.report.endswith("no guarantee") and not watch.complete


class Disguised:
    """A sampler that shuffles and says nothing of it."""

    def __iter__(self) -> Any:
        order = torch.randperm(N, generator=torch.Generator().manual_seed(1)).tolist()
        return (order[start : start + BATCH] for start in range(0, N, BATCH))

    def __len__(self) -> int:
        return N // BATCH


def test_a_disguised_one_is_found_within_an_epoch() -> None:
    watch = dpcli.watch("own.toml")
    with pytest.raises(
        InputError, match=r"sampling: expected what the file declares, found every record 0 or 1 times in \d+ batches"
    ):
        loop(watch, DataLoader(dataset(), batch_sampler=Disguised()))
    assert 0 < watch.steps < N // BATCH
    assert "contradicts own.toml" in watch.report


def test_a_shuffling_loader_under_a_shuffle_claim_is_watched(folder: Path) -> None:
    (folder / "own.toml").write_text(SHUFFLE)
    watch = dpcli.watch("own.toml")
    assert loop(watch, DataLoader(dataset(), batch_size=BATCH, shuffle=True)) == STEPS
    assert watch.observed["sampling"].words == "no contradiction found"


def test_what_is_not_seen_is_not_stated() -> None:
    """SGD without clipping and noise behind a right sampler: nothing contradicts the file, and nothing is claimed."""
    watch = dpcli.watch("own.toml")
    assert loop(watch, DataLoader(dataset(), batch_sampler=PoissonSampler())) == STEPS == watch.planned
    assert watch.finished and not watch.complete
    assert "sampling: no contradiction found" in watch.report
    assert "not observed: whether noise is added" in watch.report and watch.report.endswith("no guarantee")


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(zip(*records(), strict=True))


def test_a_stream_is_not_seen() -> None:
    watch = dpcli.watch("own.toml")
    loop(watch, DataLoader(Stream(), batch_size=BATCH), 3)
    assert watch.observed["sampling"].words.startswith("not observed")


def test_a_step_beyond_the_plan_raises() -> None:
    watch = dpcli.watch("own.toml")
    with pytest.raises(InputError, match="steps: expected what the file declares, found another step after the 30"):
        loop(watch, DataLoader(dataset(), batch_sampler=PoissonSampler()), STEPS + 1)


def test_more_records_than_declared_are_refused() -> None:
    with pytest.raises(InputError, match="found 401 records"):
        loop(dpcli.watch("own.toml"), DataLoader(dataset(N + 1), batch_sampler=PoissonSampler(N + 1)))


@pytest.mark.parametrize("batch", [20, 30])
def test_the_rate_that_opacus_draws_with_is_read_before_the_first_batch(batch: int) -> None:
    """1 / len(loader): of 400 records in batches of 30, 1/14 and not 3/40."""
    pytest.importorskip("opacus", reason="the extra opacus is not installed")
    from opacus.data_loader import DPDataLoader

    Path("own.toml").write_text(POISSON.replace(f"batch_size = {BATCH}", f"batch_size = {batch}"))
    watch, loader = dpcli.watch("own.toml"), DPDataLoader.from_data_loader(DataLoader(dataset(), batch_size=batch, shuffle=True))
    if batch == BATCH:
        watch.follow_loader(loader)
        return
    with pytest.raises(
        InputError, match=r"found a sampler of rate 0\.071428571, where the file declares 0\.075 \(Opacus samples at"
    ):
        watch.follow_loader(loader)


def test_steps_without_batches_are_found() -> None:
    watch, model = dpcli.watch("own.toml"), model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(dataset(), batch_sampler=PoissonSampler())
    watch.follow(optimizer, loader)
    loss_of(model, next(iter(loader))).mean().backward()
    optimizer.step()
    with pytest.raises(InputError, match="2 steps on 1 batches"):
        optimizer.step()


def test_a_loader_that_began_before_it_was_looked_at_is_not_seen() -> None:
    watch, model = dpcli.watch("own.toml"), model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(dataset(), batch_sampler=PoissonSampler())
    begun = iter(loader)
    watch.follow(optimizer, loader)
    for _ in range(2):
        loss_of(model, next(begun)).mean().backward()
        optimizer.step()
    next(iter(loader))
    assert watch.steps == 2 and watch.observed["sampling"].words.startswith("not observed")


def test_a_file_over_its_own_budget_is_denied(folder: Path) -> None:
    (folder / "own.toml").write_text(POISSON.replace("[[mechanism]]", "[budget]\nepsilon = 0.1\n[[mechanism]]"))
    with pytest.raises(Denied):
        dpcli.watch("own.toml")


def test_every_record_in_every_step_may_come_in_any_order(folder: Path) -> None:
    (folder / "own.toml").write_text(POISSON.replace(f"batch_size = {BATCH}", "rate = 1.0"))
    watch = dpcli.watch("own.toml")
    assert (
        loop(watch, DataLoader(dataset(), batch_size=N)) == STEPS and watch.observed["sampling"].words == "no contradiction found"
    )


class Unequal:
    """Ten records come ten times as often as the others: on average there are as many in a batch as declared."""

    def __init__(self) -> None:
        self.chances = torch.full((N,), (BATCH - 5.0) / (N - 10))
        self.chances[:10] = 0.5

    def __iter__(self) -> Any:
        return (torch.nonzero(torch.rand(N) < self.chances).flatten().tolist() for _ in range(STEPS))


def test_a_record_that_comes_too_often_is_found() -> None:
    with pytest.raises(InputError, match=r"found one record \d+ times in \d+ batches of rate 0\.05"):
        loop(dpcli.watch("own.toml"), DataLoader(dataset(), batch_sampler=Unequal()))


def test_steps_before_the_watch_count_and_are_said() -> None:
    """A loop that goes on: by what its framework says, or by what its optimizer counts."""
    for taken, steps in ((20, 0), (0, 20)):
        watch, model = dpcli.watch("own.toml"), model_of()
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(steps):
            loss_of(model, records()).mean().backward()
            optimizer.step()
        loader = DataLoader(dataset(), batch_sampler=PoissonSampler())
        watch.follow(optimizer, loader, taken=taken)
        for batch in loader:
            loss_of(model, batch).mean().backward()
            if watch.finished:
                break
            optimizer.step()
        assert (watch.steps, watch.unwatched, watch.complete) == (STEPS, 20, False)
        assert "not observed: the first 20 steps" in watch.report and watch.observed["sampling"].words == "no contradiction found"


Tamper = Callable[[Any, int], None]


def opacus_loop(
    tamper: Tamper = lambda optimizer, step: None, noise_multiplier: float = 2.0, norm: float = 0.5, whole: bool = False
) -> dpcli.Watch:
    """tamper: called with the optimizer after it has added its noise, and with the number of the step. whole: Opacus itself, uncut."""
    pytest.importorskip("opacus", reason="the extra opacus is not installed")
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    class Tampered(DPOptimizer):  # type: ignore[misc]
        def add_noise(self) -> None:
            super().add_noise()
            tamper(self, watch.steps + 1)

    watch, model = dpcli.watch("own.toml"), GradSampleModule(nn.Sequential(nn.Linear(5, 40), nn.Tanh(), nn.Linear(40, 3)))
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = (DPOptimizer if whole else Tampered)(
        inner, noise_multiplier=noise_multiplier, max_grad_norm=norm, expected_batch_size=BATCH
    )
    loader = DataLoader(dataset(), batch_sampler=PoissonSampler())
    manager = BatchMemoryManager(data_loader=loader, max_physical_batch_size=8, optimizer=optimizer)
    with nullcontext(loader) if whole else manager as cut:
        watch.follow(optimizer, cut)
        for _ in range(2):
            for batch in cut:
                if watch.finished:
                    return watch
                optimizer.zero_grad()
                loss_of(model, batch).mean().backward()
                optimizer.step()
    return watch


def noises(optimizer: Any) -> list[Any]:
    return [p.grad - p.summed_grad.view_as(p) for p in optimizer.params]


def put(optimizer: Any, noise: list[Any]) -> None:
    for parameter, values in zip(optimizer.params, noise, strict=True):
        parameter.grad = parameter.summed_grad.view_as(parameter) + values


def repeated(every: int) -> Tamper:
    kept: dict[int, Any] = {}
    return lambda optimizer, step: put(optimizer, kept.setdefault(step % every, noises(optimizer)))


def without_the_last(optimizer: Any, step: int) -> None:
    put(optimizer, [*noises(optimizer)[:-1], torch.zeros_like(optimizer.params[-1])])


def another_norm(optimizer: Any, step: int) -> None:
    optimizer.max_grad_norm = 0.5 if step < 3 else 778.8


TAMPERED: dict[str, tuple[Tamper, str]] = {
    "less": (lambda optimizer, step: put(optimizer, [0.8 * one for one in noises(optimizer)]), r"noise of 0\.[78]\d* times"),
    "none": (lambda optimizer, step: put(optimizer, [0.0 * one for one in noises(optimizer)]), "the same noise in every number"),
    "none for one tensor": (without_the_last, r"noise of \S+ times the declared size"),
    "again": (repeated(1), "the noise of an earlier step again"),
    "again later": (repeated(4), "the noise of an earlier step again"),
    "one number": (
        lambda optimizer, step: put(optimizer, [one.flatten()[0].expand_as(one) for one in noises(optimizer)]),
        "the same noise in every number of a tensor",
    ),
    "another norm": (another_norm, r"clipping norm 778\.8, where the file declares 0\.5"),
}


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
def test_opacus_behind_a_right_sampler_is_seen_and_states_no_epsilon() -> None:
    """Also where a batch is cut for memory."""
    watch = opacus_loop()
    assert watch.steps == STEPS and watch.complete and not hasattr(watch, "epsilon")
    assert "seed of torch's generator was not checked" in watch.report and watch.report.endswith("no proof of an epsilon")


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
def test_clipping_is_measured_where_opacus_has_the_gradients_of_the_whole_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    report = opacus_loop(whole=True).report
    assert f"clipping: sums of clipped gradients in {STEPS} steps, no contradiction found" in report
    assert re.search(
        r"with 90 % probability: noise too small by a factor of \d+\.\d+ in any tensor and records drawn \d\.\d+ times as often;",
        report,
    )
    from opacus.optimizers import DPOptimizer

    def sum_without_clipping(self: Any) -> None:
        for parameter in self.params:
            parameter.summed_grad = parameter.grad_sample.sum(0)

    monkeypatch.setattr(DPOptimizer, "clip_and_accumulate", sum_without_clipping)
    with pytest.raises(InputError, match=r"clipping: .* found a sum that is not the sum of gradients clipped to 0\.5"):
        opacus_loop(whole=True)


@pytest.mark.parametrize("numbers", [1, 40, 3_000])
def test_noise_that_a_watch_is_said_to_find_is_found_as_often(numbers: int) -> None:
    """Simulated: the sums of squares of 20 steps with less noise, against the bound of the last step."""
    from dpcli.train.watch.noise_measurement import MeasuredNoise, _log_chance, _log_level

    seed = random.randrange(2**32)
    measured = MeasuredNoise(None, 2.0, 0.5, numbers={0: 20 * numbers}, steps={0: 20})  # type: ignore[arg-type]
    ratios = np.random.default_rng(seed).chisquare(20 * numbers, 4_000) / (20 * numbers) / measured.detectable_factor**2
    found = np.mean([_log_chance(20 * numbers, ratio) < _log_level(20, 0) for ratio in ratios])
    assert found == pytest.approx(0.9, abs=0.03), seed


def test_records_that_a_watch_is_said_to_find_are_found() -> None:
    """In at least 90 % of simulated totals that are larger by the stated factor, and not in a fifth of those half way to it."""
    from dpcli.train.watch.loader import PoissonBatches

    seed = random.randrange(2**32)
    rng, drawn = np.random.default_rng(seed), PoissonBatches(N, 0.05)
    drawn.count = 100
    times = float(drawn.power().split()[2])

    def found(rate: float) -> float:
        results = []
        for drawn.total in rng.binomial(100 * N, rate, 2_000).tolist():
            results.append(drawn._log_chance_of_total(N * 0.05) < drawn.log_level)
        return float(np.mean(results))

    assert found(0.05 * times) > 0.88, seed
    assert found(0.05 * 0.5 * (1.0 + times)) < 0.2, seed


def test_a_layer_without_a_gradient_in_some_steps_accuses_nobody() -> None:
    """Each tensor's noise is compared with as many numbers as it had."""
    from dpcli.train.watch.noise_measurement import MeasuredNoise

    class Optimizer:
        loss_reduction = "sum"
        noise_multiplier, max_grad_norm = 2.0, 0.5

    layers = [torch.nn.Parameter(torch.zeros(size)) for size in (40, 7, 300)]
    stepped: Any = SimpleNamespace(param_groups=[{"params": layers}])
    measured = MeasuredNoise(Optimizer(), 2.0, 0.5)
    for step in range(40):
        for number, layer in enumerate(layers):
            layer.grad = None if step % 10 == 0 or (step + number) % 3 == 0 else torch.randn_like(layer)
            layer.summed_grad = torch.zeros_like(layer)
        assert measured.measure(stepped) is None, step
    for layer in layers:
        layer.grad = 0.3 * torch.randn_like(layer)
    assert "times the declared size" in [measured.measure(stepped) for _ in range(30)][-1]


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize("way", TAMPERED)
def test_noise_that_is_not_as_declared_is_found(way: str) -> None:
    tamper, said = TAMPERED[way]
    with pytest.raises(InputError, match=said):
        opacus_loop(tamper)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
def test_other_settings_than_declared_are_found() -> None:
    with pytest.raises(InputError, match=r"an Opacus optimizer with noise multiplier 1.9, where the file declares 2"):
        opacus_loop(noise_multiplier=1.9)
    with pytest.raises(InputError, match=r"an Opacus optimizer with clipping norm 1.0, where the file declares 0.5"):
        opacus_loop(norm=1.0)
