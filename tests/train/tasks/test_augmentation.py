"""Augmentation: a record's gradient is the mean over its own views, clipped as one, and does not depend on views of other records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dpcli.base.errors import InputError
from dpcli.exam.subjects import SEED
from dpcli.random.streams import system_entropy
from dpcli.train.engine.clip import Adaptive, Automatic, Clip, Flat, PerLayer
from dpcli.train.engine.draws import same_draws
from dpcli.train.engine.per_example import ClippedGradients
from dpcli.train.plan.plan import plan_of
from dpcli.train.plan.settings_classification import View
from dpcli.train.run.ranks import Ranks
from dpcli.train.step.prepare import prepare
from dpcli.train.tasks import augmentation
from dpcli.train.tasks.augmentation import draw_moves, mean_over_views, views
from dpcli.train.tasks.classification import cross_entropy
from tests.cases import require_each
from tests.train.engine.oracle import distance
from tests.train.samples import FILE

CLIPS: list[Clip] = [Flat(1e-2), Automatic(1e-2, 1e-3), PerLayer(1e-2), Adaptive(1e-2)]
VIEW = View(flip=True, crop=2)
AUGMENTED = "augmentations = 3\naugment = { flip = true, crop = 1 }\nphysical_batch_size = 40\n"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(int.from_bytes(f"views {SEED}".encode()) % 2**60)
    monkeypatch.chdir(tmp_path)


def convolution() -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.Tanh(), nn.Flatten(), nn.Linear(4 * 30, 3))


def images(count: int) -> tuple[Tensor, Tensor]:
    return torch.randn(count, 2, 5, 6), torch.randint(3, (count,))


def seen(image: np.ndarray, down: int, right: int, mirrored: bool) -> np.ndarray:
    """A window of the image within a border that repeats its edge."""
    border = abs(down), abs(right)
    around = np.pad(image, ((0, 0), (border[0],) * 2, (border[1],) * 2), mode="edge")
    window = around[:, border[0] + down :, border[1] + right :][:, : image.shape[1], : image.shape[2]]
    return window[..., ::-1] if mirrored else window


def test_a_view_is_a_window_of_its_own_image() -> None:
    pictures, moves = images(4)[0], torch.randint(-7, 8, (4, 20, 2))
    mirrored = torch.rand(4, 20) < 0.5
    found = views(pictures, moves, mirrored)
    for record in range(4):
        for view in range(20):
            down, right = moves[record, view].tolist()
            expected = seen(pictures[record].numpy(), down, right, bool(mirrored[record, view]))
            assert np.array_equal(found[record, view].numpy(), expected)


@pytest.mark.parametrize("most", [0, 1, 4])
def test_places_are_drawn_uniformly(most: int) -> None:
    """Every move as often as every other, within 6 standard errors; those of two records, or of two views, have nothing in common."""
    count = 20_000
    moves = draw_moves(count, 2, most)
    length = 2 * most + 1
    pairs = torch.stack([(moves[:, 0] + most) @ torch.tensor([length, 1]), (moves[:, 1] + most) @ torch.tensor([length, 1])])
    joint = torch.bincount(pairs[0] * length**2 + pairs[1], minlength=length**4).double()
    chance = 1.0 / length**4
    if most < 4:
        assert (joint - count * chance).abs().max() <= 6.0 * (count * chance) ** 0.5 * (1.0 - chance) ** 0.5
    assert pairs.min() == 0 and pairs.max() == length**2 - 1


@pytest.mark.long
def test_the_mean_of_a_records_gradients_is_clipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against plain autograd over the views one by one, in every style: it is not the mean of clipped gradients."""
    model, (pictures, labels), count = convolution(), images(3), 4
    moves = draw_moves(1, count, 2).expand(3, count, 2)  # the same for all records, so that no order of draws matters
    monkeypatch.setattr(augmentation, "draw_moves", lambda records, number, most: moves[:1].expand(records, number, 2))
    engine = ClippedGradients(model, mean_over_views(cross_entropy, count, View(crop=2)), CLIPS[0])
    every = views(pictures, moves, torch.zeros(3, count, dtype=torch.bool))
    means = [mean_gradient(model, every[record], labels[record]) for record in range(3)]
    for clip in CLIPS:
        engine.clip = clip
        total = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
        for own in means:
            groups = clip.groups(list(own))
            norms = torch.stack([torch.cat([own[name].flatten() for name in group]).norm() for group in groups])[None]
            for factor, group in zip(clip.factors(norms)[0], groups, strict=True):
                for name in group:
                    total[name] += factor * own[name]
        assert distance(engine((pictures, labels)).gradients, total) <= 1e-5 * clip.bound


def mean_gradient(model: nn.Module, every: Tensor, label: Tensor) -> dict[str, Tensor]:
    losses = [nn.functional.cross_entropy(model(view[None]), label[None]) for view in every]
    found = [torch.autograd.grad(loss, list(model.parameters())) for loss in losses]
    return {name: torch.stack(of).mean(0) for (name, _), of in zip(model.named_parameters(), zip(*found, strict=True), strict=True)}


@pytest.mark.long
def test_one_record_moves_the_sum_by_its_bound_at_most() -> None:
    """With the same draws with it and with a broken one, which adds zero, in its place; huge and broken images too."""
    engine = ClippedGradients(convolution(), mean_over_views(cross_entropy, 3, VIEW), CLIPS[0])
    pictures, labels = images(5)
    pictures = pictures * torch.tensor([1.0, 1e6, 1e-9, 1.0, 1.0]).view(-1, 1, 1, 1)
    pictures[3] = float("nan")  # everywhere: a view may leave a corner out
    engine((pictures, labels))

    def drawn(without: list[int]) -> dict[str, Tensor]:
        left = pictures.clone()
        left[without] = float("nan")
        with same_draws(5, 5):
            return engine((left, labels)).gradients

    for engine.clip in CLIPS:
        whole = drawn([])
        moved = [distance(whole, drawn([row])) / engine.clip.bound for row in range(5)]
        assert max(moved) <= 1.0 + 1e-6
        assert moved[3] < 1e-5 < 0.5 < max(moved)


def test_views_of_others_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = augmentation.views
    monkeypatch.setattr(
        augmentation, "views", lambda leaf, moves, mirrored: (seen := plain(leaf, moves, mirrored)) + seen.roll(1, 0)
    )
    with pytest.raises(InputError, match="roll"):
        ClippedGradients(convolution(), mean_over_views(cross_entropy, 3, VIEW), Flat(1.0))(images(4))


def test_what_does_not_fit_is_said() -> None:
    def check(case: tuple[str, str]) -> None:
        extra, expected = case
        Path("run.toml").write_text(FILE + extra)
        with pytest.raises(InputError) as raised:
            plan_of("run.toml")
        assert expected in str(raised.value)

    require_each(
        [
            (
                "augmentations = 3\n",
                "train.augment: expected flip or crop, because augmentations needs views that differ, found neither",
            ),
            ("augmentations = 3\naugment = {}\n", "train.augment: expected flip or crop"),
            ("augment = { flip = true }\n", "train.augment: expected this key only with augmentations"),
            ("augmentations = 0\n", "train.augmentations: expected a whole number"),
            (AUGMENTED + 'engine = "opacus"\n', 'train.engine: expected "dpcli" with augmentations'),
            (AUGMENTED.replace("crop = 1", "crop = 0"), "train.augment.crop: expected a whole number from 1 to 1,000, found 0"),
        ],
        check,
    )


OWN = """
import torch
def records(): return {"image": torch.randn(40, 1, 4, 4), "size": torch.rand(40, 2), "label": torch.randint(2, (40,))}
def rows(): return {"image": torch.randn(40, 4, 4), "label": torch.randint(2, (40,))}
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = torch.nn.Linear(16, 2), torch.nn.Linear(2, 2)
    def forward(self, image, size): return self.one(image.flatten(1)) + self.two(size)
def model(): return Model()
def loss(model, batch):
    return torch.nn.functional.cross_entropy(model(batch["image"], batch["size"]), batch["label"], reduction="none")
"""


def own(data: str) -> str:
    head, _, _ = FILE.replace("1_437", "40").replace("size = 64", "size = 8").partition("[train]")
    return (
        f'{head}[train]\ntask = "custom"\ndata = "own_images:{data}"\nmodel = "own_images:model"\nloss = "own_images:loss"\n'
        f"learning_rate = 1.0\nclipping = {{ norm = 1.0 }}\n{AUGMENTED}"
    )


def test_tensors_that_are_no_images_go_with_each_view(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("own_images.py").write_text(OWN)
    Path("run.toml").write_text(own("records"))
    problem = prepare(plan_of("run.toml"), system_entropy(), Ranks(), None, ".").problem
    still = torch.zeros(40, 3, 2, dtype=torch.int64)
    monkeypatch.setattr(augmentation, "draw_moves", lambda records, count, most: still[:records])
    monkeypatch.setattr(torch, "rand", lambda *shape, **more: torch.ones(*shape))
    batch: Any = problem.records
    plain = nn.functional.cross_entropy(problem.model(batch["image"], batch["size"]), batch["label"], reduction="none")
    assert torch.allclose(problem.loss(problem.model, batch), plain, atol=1e-6)


def test_records_without_an_image_are_refused() -> None:
    Path("own_images.py").write_text(OWN)
    Path("run.toml").write_text(own("rows"))
    with pytest.raises(InputError, match=r"augment: no record has an image \(channels, height, width\)"):
        prepare(plan_of("run.toml"), system_entropy(), Ranks(), None, ".")
