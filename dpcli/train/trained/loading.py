"""Loading and evaluation of the model in a run's folder."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError
from dpcli.base.extras import require
from dpcli.base.lazy import load
from dpcli.file.toml.limits import read_bytes
from dpcli.train.plan.settings import Train, read_train
from dpcli.train.plan.sources import HELD_OUT
from dpcli.train.run.description import RUN_FILES, Description, description_in, require_stamp
from dpcli.train.run.outcome import MODEL, PIPELINE
from dpcli.train.trained.trained_model import place_of

if TYPE_CHECKING:
    from dpcli.train.tasks.learning import Metrics
    from dpcli.train.trained.trained_model import TrainedModel


def load_model(run: str | os.PathLike[str]) -> TrainedModel:
    """Return the model that a private run left, ready to be used.

    Args:
        run: the folder that `dpcli train` left, such as "runs/digits". It may have been moved; the training file is not needed, as the
            folder has a copy. What the file mentions (a module of your own, a folder of pretrained weights) is looked for in the run's
            folder, if the file was, and in the current folder.

    Returns:
        `TrainedModel`: `.module` is a torch module in evaluation mode on the CPU; `.description.guarantee` says what it guarantees. A
        classifier has `.probabilities(inputs)`, a language model `.text(prompt)`.

    Raises:
        InputError: the folder holds no run that describes itself; a file of it has changed since the run; the module, or the frozen
            weights, that the run was trained with have changed or cannot be found. Unavailable: torch is not installed.

    >>> import dpcli
    >>> model = dpcli.load_model("runs/digits")                 # doctest: +SKIP
    >>> model.probabilities(images).argmax(1)                   # doctest: +SKIP
    """
    require("torch", "safetensors")
    import torch

    from dpcli.train.trained.weights import put_weights, read_weights

    description = description_in(os.fspath(run))
    description.require_unchanged(*RUN_FILES)
    require_stamp(description)
    train = read_train(read_bytes(description.path(PIPELINE)), description.path(PIPELINE))
    _require_code(train, description)
    use: Callable[[Train, Description], TrainedModel] = load(train.use)
    with torch.random.fork_rng(devices=[]):  # initial weights are drawn, and then replaced
        model = use(train, description)
    weights = read_weights(description.path(MODEL))
    put_weights(model.module, weights, description.model.get("frozen_sha256"), description.path(MODEL))
    model.module.eval()
    return model


def _require_code(train: Train, description: Description) -> None:
    """Import the user's module if it is unchanged. Raises InputError if it was changed, as it may use the weights in another way."""
    from dpcli.train.tasks.user_code import code_of, user

    place, trained = place_of(description, train.model), description.model.get("code_sha256")
    digest = code_of(train.model, place).get("code_sha256")
    if ":" in train.model and digest in (None, trained):  # if there is no file, the import raises an error
        with _from_source():
            user(train.model, place)
    if digest != trained:
        raise InputError(
            f"{description.folder}: {train.model}: expected the module as it was when the model was trained, found it changed: put the one "
            "of then into the run's folder, and start from there"
        )


@contextlib.contextmanager
def _from_source() -> Iterator[None]:
    """Compile imported modules from source within the block, because a file in __pycache__ may contain other code."""
    before = sys.pycache_prefix
    with tempfile.TemporaryDirectory() as empty:
        sys.pycache_prefix = empty
        try:
            yield
        finally:
            sys.pycache_prefix = before


@dataclass(frozen=True, slots=True)
class ModelEvaluation:
    """The metrics of a model on a source of data.

    Attributes:
        declared: Whether the training file declares these data public.
    """

    description: Description
    metrics: Metrics
    source: str
    declared: bool


def evaluate(run: str, source: str | None) -> ModelEvaluation:
    """Return the metrics of a run's model, the most important one first.

    Args:
        source: Labelled data, which are "digits", a file or module:function; None for the data that the training file declares public.

    Raises:
        InputError: There are no such data, or they cannot be read.
    """
    model = load_model(run)
    if source is not None:
        return ModelEvaluation(model.description, model.measured(source, ""), source, False)
    public = model.train.public
    if public is None:
        raise InputError(f"{run}: train.public: the file declares no data public: name some, dpcli evaluate RUN DATA")
    place = place_of(model.description, model.train.data if public == HELD_OUT else public)
    return ModelEvaluation(model.description, model.measured(public, place), public, True)
