"""A single differentially private language model at the same epsilon, with which `dpcli pmixed evaluate` compares an ensemble.

The *ensemble* is the models that dpcli pmixed fits on shards of private texts. ensemble_evaluation.py calls this file for the alternative,
one model of all texts. Nothing of it is released or charged; the figures are for the operator. An n-gram model has noisy counts of all
pairs of tokens of a public vocabulary. The counts of each unit of privacy are a vector that is clipped in L2 norm, and the sum of the
vectors gets Gaussian noise. Counts that may consist of noise only are dropped, which is post-processing. A transformer has one adapter
(low-rank matrices on top of its weights), trained by DP-SGD: dpcli train runs a file that is written here, in a folder that is removed
afterwards.
"""

from __future__ import annotations

import itertools
import os
import re
import tempfile
from collections.abc import Mapping, Sequence

from dpcli.analysis.calibrate import calibrate
from dpcli.base.errors import InputError
from dpcli.file.pipeline.model import Entry, Pipeline, Privacy
from dpcli.file.toml.write import toml_text
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.numerics.arrays import Array, np
from dpcli.predict.models.ngram import Ids, NGramCounts
from dpcli.predict.pmixed.pmixed_plan import IN_COLUMNS, PLAIN_TEXT, Pmixed, PmixedPlan
from dpcli.random.streams import Stream, grid_of, normals, round_to_grid

MOST_PAIRS = 2**24  # largest number of pairs of tokens, each of which has a count in memory: 128 MiB
# The settings below were chosen beforehand, and not tuned on any data. They affect the accuracy and time of the model, not its epsilon.
RECORDS_FOR_NORM = 200  # largest number of public records from which a clipping norm is computed
LEAST_DEVIATIONS = 2.0  # A noisy count of at most this many standard deviations of the noise is dropped.
TRAINING_STEPS, BATCHES_PER_PASS = 120, 40  # number of steps, and number of batches in one pass over the data
LEARNING_RATE, GRADIENT_NORM = 2e-3, 0.5  # learning rate of Adam, and clipping norm of gradients
ADAPTER = os.path.join("adapter", "adapter_model.safetensors")
LOW_RANK_WEIGHT = re.compile(r"(\.lora_[AB])\.weight")


def noise_multiplier(epsilon: float, delta: float, adjacency: Adjacency) -> float:
    """Return the noise multiplier that meets epsilon; twice as large under replace-one, where the sum moves by twice the norm."""
    entry = Entry("counts", "gaussian", GaussianSpec(noise_multiplier=1.0))  # the 1.0 is replaced by the solution
    noise = calibrate(Pipeline(Privacy(Adjacency.ADD_REMOVE), (entry,)), epsilon, delta, "noise").value
    return 2.0 * noise if adjacency is Adjacency.REPLACE_ONE else noise


def private_bigrams(
    units: Sequence[Sequence[Sequence[int]]], vocabulary: int, norm: float, multiplier: float, stream: Stream
) -> NGramCounts:
    """Return noisy counts of pairs of tokens. They are rounded to a grid, so that the last bits of a sum reveal nothing.

    Args:
        norm: Public clipping norm of one unit's counts.
        multiplier: Standard deviation of the noise over that norm.

    Raises InputError if the vocabulary has too many pairs.
    """
    if vocabulary**2 > MOST_PAIRS:
        most = int(MOST_PAIRS**0.5)
        raise InputError(f"expected at most {most} tokens for counts under differential privacy, found {vocabulary}")
    total = np.zeros(vocabulary**2)
    for records in units:
        pairs, counts = unit_counts(records, vocabulary)
        if len(pairs):
            total[pairs] += counts * min(1.0, norm / float(np.linalg.norm(counts)))
    scale = multiplier * norm
    total = round_to_grid(total + normals(len(total), stream, scale), grid_of(scale))
    return _bigram_table(np.where(total > LEAST_DEVIATIONS * scale, total, 0.0), vocabulary)


def unit_counts(records: Sequence[Sequence[int]], vocabulary: int) -> tuple[Ids, Array]:
    """Return the distinct pairs in one unit's records, numbered first * vocabulary + second, and the count of each."""
    pairs: list[int] = []
    for record in records:
        pairs += [first * vocabulary + second for first, second in itertools.pairwise(record)]
    numbers, counts = np.unique(np.array(pairs, np.int64), return_counts=True)
    return numbers, counts.astype(np.float64)


def typical_norm(records: Sequence[Sequence[int]], vocabulary: int, per_unit: float) -> float:
    """Return a clipping norm from public records: the root mean square norm of their counts, for `per_unit` records."""
    squares = []
    for record in records[:RECORDS_FOR_NORM]:
        _, counts = unit_counts([record], vocabulary)
        squares.append(float((counts**2).sum()))
    return max(1.0, float(np.sqrt(per_unit * np.mean(squares)))) if squares else 1.0


def _bigram_table(total: Array, vocabulary: int) -> NGramCounts:
    """Return the positive counts of pairs, numbered as in `unit_counts`, as a table of the tokens after each context of one token."""
    pairs = np.flatnonzero(total)
    contexts, first = np.unique(pairs // vocabulary, return_index=True)
    return NGramCounts(1, vocabulary, contexts, np.append(first, len(pairs)), pairs % vocabulary, total[pairs])


def train_privately(plan: PmixedPlan, count: int, per_unit: int, epsilon: float, delta: float) -> bytes:
    """Train a transformer's adapter under differential privacy. Return its weights as `Transformer.tuned` takes them.

    Args:
        count: Number of texts.
        per_unit: Largest number of texts of one unit that are used.

    Raises InputError if dpcli train refuses the file.
    """
    from safetensors.torch import load_file, save

    from dpcli.train.plan.plan import plan_of
    from dpcli.train.run.training_run import train

    with tempfile.TemporaryDirectory() as folder:
        file = _training_file(plan, count, per_unit, epsilon, delta, folder)
        train(plan_of(plan.path, file.encode()).on_rows(plan.rows))
        weights = load_file(os.path.join(folder, ADAPTER))
    # A saved adapter has no name. peft calls the adapter of a model "default".
    return save({LOW_RANK_WEIGHT.sub(r"\1.default.weight", name): value for name, value in weights.items()})


def _training_file(plan: PmixedPlan, count: int, per_unit: int, epsilon: float, delta: float, folder: str) -> str:
    """Return the text of a file for dpcli train, with the plan's texts and adapter."""
    privacy, size = plan.pipeline.privacy, max(1, count // per_unit)
    steps = {
        "name": "steps",
        "type": "gaussian",
        "noise_multiplier": "calibrate",
        "steps": TRAINING_STEPS,
        "sampling": {"scheme": "poisson", "batch_size": max(1, size // BATCHES_PER_PASS)},
    }
    return toml_text(
        {
            "format": 1,
            "privacy": {"adjacency": privacy.adjacency.value, "unit": "example", "dataset_size": size, "delta": delta},
            "budget": {"epsilon": epsilon},
            "mechanism": [steps],
            "train": _train_table(plan.pmixed, per_unit, folder),
        }
    )


def _train_table(settings: Pmixed, per_unit: int, folder: str) -> dict[str, object]:
    """Return the [train] table of that file."""
    lora = settings.lora
    assert lora is not None
    adapter = {"rank": lora.rank, "alpha": lora.alpha, "targets": None if lora.targets is None else list(lora.targets)}
    keys = {
        "task": "causal-lm",
        "data": settings.data,
        "model": settings.model,
        "context": settings.context,
        "optimizer": "adam",
        "learning_rate": LEARNING_RATE,
        "schedule": "linear",
        "device": settings.device,
        "output": folder,
        "tokenizer": settings.tokenizer,
        "units": settings.units,
        "records_per_unit": per_unit if settings.units is not None else None,
        "text": settings.text if IN_COLUMNS.met_by(settings) else None,  # IN_COLUMNS: `data` is a file with named columns
        "record": settings.record if PLAIN_TEXT.met_by(settings) else None,  # PLAIN_TEXT: `data` is a .txt file
        "lora": _without_none(adapter),
        "clipping": {"norm": GRADIENT_NORM},
    }
    return _without_none(keys)


def _without_none(keys: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in keys.items() if value is not None}
