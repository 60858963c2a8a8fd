"""Functions that load and evaluate the model in a run's folder: `dpcli.load_model`, and the work of `dpcli evaluate`.

The folder is enough: it holds the weights, a copy of the training file, and a description with the facts about the model. The task builds
the model anew (the class variable `use` of its settings, plan/settings.py), and the weights of the run replace the initial ones. A folder
may come from elsewhere, so files that differ from their SHA-256 in the description are refused, and the weights are in safetensors, a
format that cannot contain code.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError
from dpcli.base.extras import require
from dpcli.base.lazy import load
from dpcli.file.toml.limits import read_bytes
from dpcli.train.plan.settings import Train, read_train
from dpcli.train.plan.sources import HELD_OUT
from dpcli.train.run.description import RUN_FILES, Description, description_in
from dpcli.train.run.outcome import MODEL, PIPELINE
from dpcli.train.trained.trained_model import place_of

if TYPE_CHECKING:
    from dpcli.train.tasks.learning import Metrics
    from dpcli.train.trained.trained_model import TrainedModel


def load_model(run: str | os.PathLike[str]) -> TrainedModel:
    """Return the trained model of a private run.

    Args:
        run: the folder that `dpcli train` wrote, such as "runs/digits". It may have been moved. The training file is not needed, because
            the folder has a copy. The file may name a module of your own or a folder of pretrained weights. These are searched for in the
            run's folder, in the folder of the training file, and in the current folder.

    Returns:
        `TrainedModel`. Its `.module` is a torch module in evaluation mode on the CPU. Its `.description.guarantee` is the guarantee of the
        run. A classifier has `.probabilities(inputs)`, and a language model has `.text(prompt)`.

    Raises:
        InputError: the folder has no run with a description, or a file was changed after the run. The module or the frozen weights of the
            training have changed, or cannot be found.
        Unavailable: torch or safetensors is not installed.

    >>> import dpcli
    >>> model = dpcli.load_model("runs/digits")                 # doctest: +SKIP
    >>> model.probabilities(images).argmax(1)                   # doctest: +SKIP
    """
    require("torch", "safetensors")
    import torch

    from dpcli.train.trained.weights import put_weights, read_weights

    description = description_in(os.fspath(run))
    description.require_unchanged(*RUN_FILES)  # the weights, the statement and the training file
    train = read_train(read_bytes(description.path(PIPELINE)), description.path(PIPELINE))
    _require_code(train, description)
    build: Callable[[Train, Description], TrainedModel] = load(train.use)
    with torch.random.fork_rng(devices=[]):  # the model draws initial weights, which are replaced below
        model = build(train, description)
    weights = read_weights(description.path(MODEL))
    put_weights(model.module, weights, description.model.get("frozen_sha256"), description.path(MODEL))
    model.module.eval()
    return model


def _require_code(train: Train, description: Description) -> None:
    """Import the user's module. Raises InputError if it was changed after training, because it may use the weights in another way."""
    from dpcli.train.tasks.user_code import code_of, own_function

    place, trained = place_of(description, train.model), description.model.get("code_sha256")
    digest = code_of(train.model, place).get("code_sha256")
    if ":" in train.model and digest in (None, trained):  # without a file there is no digest, and the import raises an error
        own_function(train.model, place)
    if digest != trained:
        raise InputError(
            f"{description.folder}: {train.model}: expected the module with which the model was trained, found it changed: put the old "
            "version into the run's folder, and start from there"
        )


@dataclass(frozen=True, slots=True)
class ModelEvaluation:
    """The metrics of a model on a source of data.

    Attributes:
        metrics: Metrics, the most important one first.
        declared: Whether the training file declares the data public.
    """

    description: Description
    metrics: Metrics
    source: str
    declared: bool


def evaluate(run: str, source: str | None) -> ModelEvaluation:
    """Return the metrics of a run's model, the most important one first.

    Args:
        source: Source of labelled data: "digits", a file or module:function. None for the data that the training file declares public.

    Raises:
        InputError: The data cannot be read, or `source` is None and the training file declares no data public.
    """
    model = load_model(run)
    if source is not None:
        measured = model.measured(source, path="")  # no path, because the training file does not name this source
        return ModelEvaluation(model.description, measured, source, declared=False)
    public = model.train.public
    if public is None:
        raise InputError(f"{run}: train.public: the file declares no data public: name data by dpcli evaluate RUN DATA")
    place = place_of(model.description, model.train.data if public == HELD_OUT else public)
    return ModelEvaluation(model.description, model.measured(public, place), public, declared=True)
