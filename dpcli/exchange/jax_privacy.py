"""Import from jax-privacy 2.0: a DPKerasConfig as a pipeline file."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from dpcli.exchange.foreign import Asserted, ForeignTable, file_of, read_fields, with_asserted

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
COMMENTS = {"adjacency": "the one that jax-privacy's accountant counts with"}
COMMENTS_IF_ACCUMULATED = {
    "noise_multiplier": "of each batch that is accumulated: the config's over the root of their number",
    "steps": "train_steps times gradient_accumulation_steps",
}


def file_of_config(data: bytes, asserted: Asserted, sampling: str, ignored: Collection[str], place: str) -> str:
    """Return the text of the pipeline file for a DPKerasConfig, given as the JSON of dataclasses.asdict(config).

    jax-privacy adds noise to every batch of batch_size, at noise_multiplier over the root of gradient_accumulation_steps, so every batch
    is a step of the file. The budget is the config's. A config with a seed is refused, since whoever knows the seed knows the noise.

    Args:
        data: the JSON.
        asserted: keys of [privacy] that the user states.
        sampling: the scheme by which batches were drawn; it must be poisson if poisson_sampling_in_fit is true, and if that is false,
            batches are those passed to fit().
        ignored: fields that do not concern privacy.
        place: the name of the input in messages.

    Raises:
        InputError: the config has something that no pipeline file can state.
        InvalidFile: the reader of pipeline files refuses the values.
    """
    config = read_fields(data, place)
    config.require_fields(REQUIRED_FIELDS, OPTIONAL_FIELDS, ignored)
    if not config.has("noise_multiplier"):
        raise config.refused(
            "expected noise_multiplier, found null, which is calibrated at the first step: take the fields of "
            "config.update_with_calibrated_noise_multiplier()"
        )
    if config.has("seed") and "seed" not in ignored:
        raise config.refused("expected no seed, since whoever knows it knows the noise: --ignore seed where nobody does")
    _require_bounds(config)
    _require_sampling(config, sampling, ignored)
    batches = config.count("gradient_accumulation_steps")
    noise = config.number("noise_multiplier")
    # The root and the quotient are each off by at most half a unit: one step down and 2^-52 make the noise no larger than it is.
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
    tables = {
        "format": 1,
        "privacy": {**with_asserted(known, asserted, place), "releases": "all-checkpoints"},
        "budget": {"epsilon": config.number("epsilon"), "delta": config.number("delta")},
        "mechanism": [entry],
    }
    comments = {**COMMENTS, **(COMMENTS_IF_ACCUMULATED if batches > 1 else {})}
    return file_of(tables, ("From a DPKerasConfig of jax-privacy.",), comments, place)


def _require_bounds(config: ForeignTable) -> None:
    """Raises InputError if gradients are not clipped, or a field about clipping has a wrong value."""
    if config.number("clipping_norm") <= 0.0:
        raise config.refused(f"expected clipping_norm > 0, found {config.number('clipping_norm'):g}")
    if "rescale_to_unit_norm" in config.fields:
        config.boolean("rescale_to_unit_norm")
    if config.has("microbatch_size"):
        config.count("microbatch_size")


def _require_sampling(config: ForeignTable, sampling: str, ignored: Collection[str]) -> None:
    """Raises InputError if the config contradicts --sampling."""
    field = "poisson_sampling_in_fit"
    if field not in config.fields:
        return
    is_poisson = config.boolean(field)
    if is_poisson and sampling != "poisson":
        raise config.refused(f"expected --sampling poisson, which {field} says, found {sampling}")
    if not is_poisson and sampling == "poisson" and field not in ignored:
        raise config.refused(
            f"expected --sampling shuffle where {field} is false, as fit() takes batches in the order in which it is given them, found "
            f"{sampling}: --ignore {field} where those were Poisson samples"
        )
