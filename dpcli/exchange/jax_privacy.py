"""Import from jax-privacy 2.0: conversion of a DPKerasConfig, the settings of a DP-SGD run, to a pipeline file.

`dpcli import jax-privacy` calls `file_of_config`. The record is the JSON of the config's fields, which are checked one by one. Its epsilon
is a target, and becomes the budget of the file; its noise must have been calibrated already. With gradient accumulation, every accumulated
batch is a step of the file with its part of the noise, rounded down, so that the file does not claim more noise than there was.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from dpcli.exchange.foreign import EVERY_STEP, Asserted, ForeignTable, file_of, read_fields, with_asserted

REQUIRED_FIELDS = (
    "epsilon",
    "delta",
    "clipping_norm",
    "batch_size",
    "gradient_accumulation_steps",
    "train_steps",
    "train_size",
    "noise_multiplier",
)
OPTIONAL_FIELDS = ("poisson_sampling_in_fit", "rescale_to_unit_norm", "microbatch_size", "seed")
# Comments in the new file, by key.
COMMENTS = {"adjacency": "the adjacency of jax-privacy's accountant"}
COMMENTS_IF_ACCUMULATED = {
    "noise_multiplier": "noise of each accumulated batch: that of the config over the root of the number of batches",
    "steps": "train_steps times gradient_accumulation_steps",
}


def file_of_config(data: bytes, asserted: Asserted, sampling: str, ignored: Collection[str], place: str) -> str:
    """Return the text of the pipeline file for the JSON of dataclasses.asdict(config).

    `asserted` has the keys of [privacy] that the user states, `ignored` the fields that --ignore names, and `place` names the record in
    messages.

    jax-privacy adds noise to every batch of batch_size. Its noise multiplier is that of the config over the root of
    gradient_accumulation_steps. A config with a seed is refused, because everybody who knows the seed knows the noise. If
    poisson_sampling_in_fit is true, `sampling` must be poisson; if it is false, the batches are those that were passed to fit().
    """
    config = read_fields(data, place)
    config.require_fields(REQUIRED_FIELDS, OPTIONAL_FIELDS, ignored)
    if not config.has("noise_multiplier"):
        raise config.refused(
            "expected noise_multiplier, found null, as it is calibrated at the first step: use the fields of "
            "config.update_with_calibrated_noise_multiplier()"
        )
    if config.has("seed") and "seed" not in ignored:
        raise config.refused("expected no seed, since whoever knows it knows the noise: use --ignore seed if nobody knows it")
    _require_bounds(config)
    _require_sampling(config, sampling, ignored)
    comments = COMMENTS | COMMENTS_IF_ACCUMULATED if config.count("gradient_accumulation_steps") > 1 else COMMENTS
    return file_of(_tables(config, asserted, sampling), ("From a DPKerasConfig of jax-privacy.",), comments, place)


def _tables(config: ForeignTable, asserted: Asserted, sampling: str) -> dict[str, Any]:
    """Return the tables of the pipeline file. Raises InputError if a field has a wrong value or contradicts a flag."""
    batches = config.count("gradient_accumulation_steps")
    noise = config.number("noise_multiplier")
    # The root and the quotient each err by at most half a unit in the last place. One float down and a factor 1 - 2^-52 exceed both errors,
    # so that the stated noise is not larger than the real noise.
    noise_per_batch = noise if batches == 1 else math.nextafter(noise / math.sqrt(batches), 0.0) * (1.0 - 2**-52)
    known = {
        "adjacency": asserted.adjacency or "add-remove",
        "dataset_size": config.count("train_size"),
        "delta": config.number("delta"),
    }
    entry: dict[str, Any] = {
        "name": "dp-sgd",
        "type": "gaussian",
        "noise_multiplier": noise_per_batch,
        "steps": config.count("train_steps") * batches,
        "sampling": {"scheme": sampling, "batch_size": config.count("batch_size")},
    }
    return {
        "format": 1,
        "privacy": {**with_asserted(known, asserted, config.name), **EVERY_STEP},
        "budget": {"epsilon": config.number("epsilon"), "delta": config.number("delta")},
        "mechanism": [entry],
    }


def _require_bounds(config: ForeignTable) -> None:
    """Raise InputError if gradients are not clipped, or a field about clipping has a wrong value."""
    if config.number("clipping_norm") <= 0.0:
        raise config.refused(f"expected clipping_norm > 0, found {config.number('clipping_norm'):g}")
    if "rescale_to_unit_norm" in config.fields:
        config.boolean("rescale_to_unit_norm")
    if config.has("microbatch_size"):
        config.count("microbatch_size")


def _require_sampling(config: ForeignTable, sampling: str, ignored: Collection[str]) -> None:
    """Raise InputError if the user states another sampling than the config."""
    field = "poisson_sampling_in_fit"
    if field not in config.fields:
        return
    is_poisson = config.boolean(field)
    if is_poisson and sampling != "poisson":
        raise config.refused(f"expected --sampling poisson, as {field} is true, found {sampling}")
    if not is_poisson and sampling == "poisson" and field not in ignored:
        raise config.refused(
            f"expected --sampling shuffle, as {field} is false and fit() takes the batches in the given order, found {sampling}: "
            f"use --ignore {field} if the given batches were Poisson samples"
        )
