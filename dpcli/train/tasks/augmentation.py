"""Augmentation of images by random views: each view is the image, moved by some pixels or mirrored ([train.augment], class `View`).

The loss of a record is the mean over several views, so the mean gradient of the views is clipped. A record still adds one clipped gradient,
so the sensitivity remains C. Torch's generator draws the views, and they need not be secret. Given all draws, each record has a fixed loss,
and the guarantee holds for any losses. classification.py and custom.py apply `with_augmentation` to their learning problems.

Source: De et al. 2022, arXiv:2204.13650, Section 3.3.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from dpcli.base.errors import InputError
from dpcli.train.engine.batches import Batch
from dpcli.train.engine.method import Loss, per_example_losses
from dpcli.train.plan.settings_classification import Images, View
from dpcli.train.tasks.learning import Learning
from dpcli.train.torch_internals import tree_leaves, tree_map

IMAGE = 4  # number of dimensions of images, (B, channels, height, width); other tensors are repeated unchanged for each view


def with_augmentation(problem: Learning, train: Images, path: str) -> Learning:
    """Return the problem with the mean loss over views if [train] declares augmentations, and unchanged otherwise.

    Raises:
        InputError: [train] declares augmentations, and the records have no images.
    """
    if train.augmentations is None or train.augment is None:
        return problem
    if all(leaf.dim() != IMAGE for leaf in tree_leaves(problem.records)):
        raise InputError(f"{path}: train.augment: no record has an image (channels, height, width)")
    return replace(problem, loss=mean_over_views(problem.loss, train.augmentations, train.augment))


def mean_over_views(loss: Loss, count: int, view: View) -> Loss:
    """Return a loss of shape (B,). The loss of each record is the mean of the given loss over `count` views of the record."""

    def loss_over_views(model: nn.Module, batch: Batch) -> Tensor:
        records = tree_leaves(batch)[0].shape[0]
        moves = draw_moves(records, count, view.crop or 0)
        mirrored = torch.rand(records, count) < (0.5 if view.flip else 0.0)

        def views_of(leaf: Tensor) -> Tensor:
            if leaf.dim() == IMAGE:
                return views(leaf, moves.to(leaf.device), mirrored.to(leaf.device)).flatten(0, 1)
            return leaf[:, None].expand(records, count, *leaf.shape[1:]).flatten(0, 1)

        losses = per_example_losses(model, loss, tree_map(views_of, batch), records * count)
        return losses.view(records, count).mean(1)

    return loss_over_views


def draw_moves(records: int, count: int, most: int) -> Tensor:
    """Return the displacements of the views, of shape (B, K, 2): pixels down and to the right, uniform from -most to most."""
    return torch.randint(-most, most + 1, (records, count, 2))


def views(images: Tensor, moves: Tensor, mirrored: Tensor) -> Tensor:
    """Return views (B, K, channels, height, width) of images (B, channels, height, width). A view has pixels of its own image only.

    Args:
        moves: Displacement of each view in pixels, down and to the right, of shape (B, K, 2). Pixels beyond an edge repeat the edge.
        mirrored: Whether the columns of each view are reversed, of shape (B, K).
    """
    records, channels, height, width = images.shape
    rows = (torch.arange(height, device=images.device) + moves[..., :1]).clamp(0, height - 1)  # (B, K, height)
    columns = (torch.arange(width, device=images.device) + moves[..., 1:]).clamp(0, width - 1)  # (B, K, width)
    columns = torch.where(mirrored[..., None], columns.flip(-1), columns)
    pixels = (rows[..., :, None] * width + columns[..., None, :]).flatten(-2)[:, :, None]  # (B, K, 1, height * width)
    shape = (records, moves.shape[1], channels, height * width)
    repeated = images.flatten(-2)[:, None].expand(shape)
    return repeated.gather(3, pixels.expand(shape)).view(*shape[:3], height, width)
