"""A run's folder in the form that the Hugging Face Hub and its libraries read: weights, tokenizer, statement, and a model card.

A model that transformers made is written by transformers and read back before anything is left; an adapter as PEFT reads it; any other
model as `dpcli.load_model` reads it. What is published is a function of what the run released: it costs nothing more.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import Any

from dpcli.base.errors import InputError, InternalError
from dpcli.train.plan.plan import plan_of
from dpcli.train.run.description import Description, description_in, digest_of
from dpcli.train.run.outcome import ADAPTER, DESCRIPTION, MODEL, PIPELINE, STATEMENT
from dpcli.train.trained.attestation import attestation, text_of
from dpcli.train.trained.model_card import CARD, HubFolder, model_card

PROVEN = "dpcli-attestation.json"


def published(run: str, folder: str) -> HubFolder:
    """Write the run to `folder`, which must not exist, all at once; what `attest` would refuse is refused.

    Raises:
        InputError: the folder exists or cannot be made; the run is NOT PRIVATE, has changed, or claims less than its file costs.
        CannotCertify: nobody can say what its file costs. Unavailable: torch, or transformers for its models, is not installed.
    """
    stated = attestation(run)  # with the guarantee priced anew
    found = description_in(run)
    if os.path.lexists(folder):
        raise InputError(f"{folder}: expected a path that does not exist yet, found one")
    above = os.path.dirname(os.path.abspath(folder))
    if not os.path.isdir(above):
        raise InputError(f"{above}: expected a folder, found none")
    with tempfile.TemporaryDirectory(prefix=".publishing-", dir=above) as scratch:
        made = os.path.join(scratch, "made")
        os.mkdir(made)
        what = _written(found, made)
        _copied(found, STATEMENT, made)
        with open(os.path.join(made, PROVEN), "xb") as file:
            file.write(text_of(stated))
        with open(os.path.join(made, CARD), "x", encoding="utf-8") as text:
            text.write(model_card(found, what))
        os.rename(made, folder)
    return what


def _written(found: Description, folder: str) -> HubFolder:
    """The weights, in the form of the library that made the model."""
    plan = plan_of(found.path(PIPELINE))
    base, title = str(getattr(plan.train, "model", "")), plan.pipeline.name or "model"
    names = sorted(name for name in found.files if name.startswith(f"{ADAPTER}/"))
    if names and ":" not in base:
        for name in names:
            _copied(found, name, folder)
        return HubFolder("peft", title, tuple(map(os.path.basename, names)), base)
    from dpcli.train.trained.loading import load_model

    model = load_model(found.folder)
    if hasattr(model.module, "save_pretrained") and base and ":" not in base:
        return HubFolder("transformers", title, _by_transformers(model, folder))
    for name in (MODEL, PIPELINE):
        _copied(found, name, folder)
    shutil.copyfile(found.path(DESCRIPTION), os.path.join(folder, DESCRIPTION))
    return HubFolder("dpcli", title, (MODEL, DESCRIPTION, PIPELINE))


def _copied(found: Description, name: str, folder: str) -> None:
    """A file of the run. Raises InputError where it has changed meanwhile."""
    path = os.path.join(folder, os.path.basename(name))
    shutil.copyfile(found.path(name), path)
    if digest_of(path) != found.files[name]:
        raise InputError(f"{found.path(name)}: expected the file that the run left, found another")


def _by_transformers(model: Any, folder: str) -> tuple[str, ...]:
    """Written by transformers, and read back to the same tensors."""
    import torch

    from dpcli.train.tasks.lm_library import library, offline, quiet

    tokenizer = getattr(getattr(model, "tokens", None), "tokenizer", None)
    with quiet(), offline():
        model.module.save_pretrained(folder, safe_serialization=True)
        if tokenizer is not None:
            tokenizer.save_pretrained(folder)
        again = library("transformers").AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    expected, read = model.module.state_dict(), again.state_dict()
    if expected.keys() != read.keys() or not all(torch.equal(read[name], value) for name, value in expected.items()):
        raise InternalError("transformers reads other weights than it was given: nothing is published")
    return tuple(sorted(os.listdir(folder)))
