"""The weights of a trained model. A run saves the trained weights, and a digest of the frozen weights.

When a run ends, it saves `released_weights` and `frozen_digest`. `load_model` reads the saved weights (`read_weights`) and puts them into a
model that it has built anew (`put_weights`). The digest detects a model whose frozen part, such as a pretrained model that was downloaded
again, is no longer the one of the run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress

import torch
from torch import Tensor, nn

from dpcli.base.errors import InputError
from dpcli.train.engine.method import trained_parameters


def released_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the trained parameters if others are frozen, or the whole model otherwise. A tensor with several names occurs once."""
    if all(parameter.requires_grad for parameter in model.parameters()):
        return {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return dict(trained_parameters(model))


def require_savable(model: nn.Module) -> None:
    """Raise InputError for a tensor that no file of weights can hold, or that no digest can read, such as a sparse buffer."""
    from safetensors.torch import save

    released = released_weights(model)
    for name, value in {**model.state_dict(keep_vars=True), **released}.items():
        if not torch.is_tensor(value):  # a module may keep any object as its extra state
            continue
        is_savable = False
        with suppress(Exception):  # torch and safetensors raise several errors
            empty = torch.empty(0, dtype=value.dtype)
            empty.view(torch.uint8)  # what `frozen_digest` reads
            if name in released:
                save({name: empty})
            is_savable = value.layout is torch.strided
        if not is_savable:
            raise InputError(
                f"model: {name}: expected a tensor that a file of weights can hold, found {value.layout} of {value.dtype}; "
                "keep a constant as an attribute of the model, dense or as torch.sparse_coo"
            )


def frozen_digest(model: nn.Module) -> str | None:
    """Return the SHA-256 of the frozen part of the model, over names, types, shapes and bytes. Return None if nothing is frozen."""
    saved = {id(value) for value in released_weights(model).values()}
    frozen = {name: value for name, value in model.state_dict(keep_vars=True).items() if id(value) not in saved}
    digest = hashlib.sha256()
    for name in sorted(frozen):
        value = frozen[name].detach().cpu().contiguous()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)} ".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest() if frozen else None


def put_weights(model: nn.Module, weights: Mapping[str, Tensor], frozen: str | None, place: str) -> None:
    """Copy the weights of a run into a model that was built from the run's [train] table.

    Args:
        weights: Trained weights, by name.
        frozen: Digest of the frozen weights; None if nothing was frozen.
        place: File of the weights, with which messages begin.

    Raises:
        InputError: The model differs in names, shapes, types or frozen weights.
    """
    targets = released_weights(model)
    if targets.keys() != weights.keys():
        unmatched = sorted(targets.keys() ^ weights.keys())[0]
        raise InputError(f"{place}: not the weights of the model that [train] names (they differ in {unmatched})")
    for name, value in targets.items():
        expected, actual = _form(value), _form(weights[name])
        if expected != actual:
            raise InputError(f"{place}: {name}: expected {expected}, found {actual}: the model that [train] names has changed")
    if frozen_digest(model) != frozen:
        raise InputError(f"{place}: not the frozen weights that the run was trained on: the model that [train] names has changed")
    with torch.no_grad():
        for name, value in targets.items():
            value.copy_(weights[name])


def read_weights(path: str) -> dict[str, Tensor]:
    """Return the tensors in a safetensors file, a format that cannot contain code. Raises InputError for another kind of file."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        with open(path, "rb") as file:
            return load(file.read())
    except (OSError, SafetensorError, ValueError, KeyError):
        raise InputError(f"{path}: expected a safetensors file, found one that cannot be read as such") from None


def _form(value: Tensor) -> str:
    """Return the shape and the type of a tensor in words."""
    return f"{tuple(value.shape)} of {value.dtype}"
