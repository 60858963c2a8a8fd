"""A DPKerasConfig of jax-privacy 2.0 as a pipeline file."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from dpcli.exchange.foreign import read_fields, with_asserted
from dpcli.exchange.stated import Asserted, file_of

NEEDED = ("epsilon", "delta", "batch_size", "gradient_accumulation_steps", "train_steps", "train_size", "noise_multiplier")
OPTIONAL = ("clipping_norm", "poisson_sampling_in_fit", "rescale_to_unit_norm", "microbatch_size", "seed")
COMMENTS = {"adjacency": "the one that jax-privacy's accountant counts with"}
PARTS = {
    "noise_multiplier": "of each batch that is accumulated: the config's over the root of their number",
    "steps": "train_steps times gradient_accumulation_steps",
}


def file_of_config(data: bytes, asserted: Asserted, sampling: str, ignored: Collection[str], place: str) -> str:
    """The text of the file, read again and found good.

    Noise is added to every batch of batch_size, at noise_multiplier over the root of gradient_accumulation_steps; so each of them is a
    step of the file. Its budget is the config's. Adjacency, where no other is stated, is add-remove, as its accountant has it.

    Args:
        data: the fields of the config as JSON: dataclasses.asdict(config).
        sampling: the scheme by which batches were drawn. poisson_sampling_in_fit, where it is true, says poisson.
        ignored: fields that say nothing about privacy; any other that the class does not have is refused, and so is a seed, since noise of
            a seed that somebody knows is known.
        place: what messages call it.

    Raises:
        InputError: it is no such JSON, a field is missing or unknown, the noise is still to be calibrated, or a seed is stated.
        InvalidFile: the reader refuses its values.
    """
    config = read_fields(data, place)
    config.only(NEEDED, OPTIONAL, ignored)
    if not config.has("noise_multiplier"):
        raise config.refused(
            "expected noise_multiplier, found null, which is calibrated at the first step: take the fields of "
            "config.update_with_calibrated_noise_multiplier()"
        )
    if config.has("seed") and "seed" not in ignored:
        raise config.refused("expected no seed, since whoever knows it knows the noise: --ignore seed where nobody does")
    if config.has("poisson_sampling_in_fit") and config.truth("poisson_sampling_in_fit") and sampling != "poisson":
        raise config.refused(f"expected --sampling poisson, which poisson_sampling_in_fit says, found {sampling}")
    parts = config.whole("gradient_accumulation_steps")
    noise = config.number("noise_multiplier")
    known = {
        "adjacency": asserted.adjacency or "add-remove",
        "dataset_size": config.whole("train_size"),
        "delta": config.number("delta"),
    }
    entry: dict[str, Any] = {
        "name": "dp-sgd",
        "type": "gaussian",
        "noise_multiplier": noise if parts == 1 else math.nextafter(noise / math.sqrt(parts), 0.0) * (1.0 - 2**-52),
        "steps": config.whole("train_steps") * parts,
        "sampling": {"scheme": sampling, "batch_size": config.whole("batch_size")},
    }
    tables = {
        "format": 1,
        "privacy": {**with_asserted(known, asserted, place), "releases": "all-checkpoints"},
        "budget": {"epsilon": config.number("epsilon"), "delta": config.number("delta")},
        "mechanism": [entry],
    }
    return file_of(tables, ("From a DPKerasConfig of jax-privacy.",), {**COMMENTS, **(PARTS if parts > 1 else {})}, place)
