"""A DPKerasConfig of jax-privacy 2.0 as a pipeline file."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from dpcli.exchange.foreign import Asserted, ForeignTable, file_of, read_fields, with_asserted

NEEDED = (
    "epsilon",
    "delta",
    "clipping_norm",
    "batch_size",
    "gradient_accumulation_steps",
    "train_steps",
    "train_size",
    "noise_multiplier",
)
OPTIONAL = ("poisson_sampling_in_fit", "rescale_to_unit_norm", "microbatch_size", "seed")
COMMENTS = {"adjacency": "the one that jax-privacy's accountant counts with"}
PARTS = {
    "noise_multiplier": "of each batch that is accumulated: the config's over the root of their number",
    "steps": "train_steps times gradient_accumulation_steps",
}


def file_of_config(data: bytes, asserted: Asserted, sampling: str, ignored: Collection[str], place: str) -> str:
    """Return the text of the pipeline file of a DPKerasConfig: the JSON of dataclasses.asdict(config).

    Noise is added to every batch of batch_size, at noise_multiplier over the root of gradient_accumulation_steps; so each of them is a step
    of the file. Its budget is the config's. sampling: how batches were drawn; poisson_sampling_in_fit says poisson if it is true, and
    if it is false, the batches are those that fit() is given. ignored: fields that say nothing about privacy. A seed is refused:
    whoever knows it knows the noise. Raises InputError for what a file cannot say, InvalidFile if its reader refuses the values.
    """
    config = read_fields(data, place)
    config.require_fields(NEEDED, OPTIONAL, ignored)
    if not config.has("noise_multiplier"):
        raise config.refused(
            "expected noise_multiplier, found null, which is calibrated at the first step: take the fields of "
            "config.update_with_calibrated_noise_multiplier()"
        )
    if config.has("seed") and "seed" not in ignored:
        raise config.refused("expected no seed, since whoever knows it knows the noise: --ignore seed where nobody does")
    _require_bounds(config)
    _require_drawn(config, sampling, ignored)
    parts = config.count("gradient_accumulation_steps")
    noise = config.number("noise_multiplier")
    known = {
        "adjacency": asserted.adjacency or "add-remove",
        "dataset_size": config.count("train_size"),
        "delta": config.number("delta"),
    }
    entry: dict[str, Any] = {
        "name": "dp-sgd",
        "type": "gaussian",
        "noise_multiplier": noise if parts == 1 else math.nextafter(noise / math.sqrt(parts), 0.0) * (1.0 - 2**-52),
        "steps": config.count("train_steps") * parts,
        "sampling": {"scheme": sampling, "batch_size": config.count("batch_size")},
    }
    tables = {
        "format": 1,
        "privacy": {**with_asserted(known, asserted, place), "releases": "all-checkpoints"},
        "budget": {"epsilon": config.number("epsilon"), "delta": config.number("delta")},
        "mechanism": [entry],
    }
    return file_of(tables, ("From a DPKerasConfig of jax-privacy.",), {**COMMENTS, **(PARTS if parts > 1 else {})}, place)


def _require_bounds(config: ForeignTable) -> None:
    """Raises InputError if no bound on a gradient is stated, or a field has a wrong value."""
    if config.number("clipping_norm") <= 0.0:
        raise config.refused(f"expected clipping_norm > 0, found {config.number('clipping_norm'):g}")
    if "rescale_to_unit_norm" in config.fields:
        config.boolean("rescale_to_unit_norm")
    if config.has("microbatch_size"):
        config.count("microbatch_size")


def _require_drawn(config: ForeignTable, sampling: str, ignored: Collection[str]) -> None:
    """Raises InputError if the config contradicts --sampling."""
    field = "poisson_sampling_in_fit"
    if field not in config.fields:
        return
    inside = config.boolean(field)
    if inside and sampling != "poisson":
        raise config.refused(f"expected --sampling poisson, which {field} says, found {sampling}")
    if not inside and sampling == "poisson" and field not in ignored:
        raise config.refused(
            f"expected --sampling shuffle where {field} is false, as fit() takes batches in the order in which it is given them, found "
            f"{sampling}: --ignore {field} where those were Poisson samples"
        )
