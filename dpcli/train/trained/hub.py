"""Folders for the Hugging Face Hub. A folder has the weights, the statement, the attestation and a model card of a run.

A model of transformers is written by transformers, with its tokenizer, and read again for comparison. An adapter is copied in the format of
PEFT, and any other model in the format of `dpcli.load_model`. All of it was released by the run, so publishing the folder costs no epsilon.
An *adapter* holds the trained weights on top of a public model. The *description* of a run (model.json) holds its guarantee and the SHA-256
of its files (run/description.py).
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpcli.base.errors import InputError, InternalError
from dpcli.file.pipeline.datasets import UNCHECKED, blocks_words
from dpcli.ledger.blocks.rows import rows_from_content
from dpcli.train.plan.plan import plan_of
from dpcli.train.run.description import Description, description_in, digest_of
from dpcli.train.run.outcome import ADAPTER, DESCRIPTION, MODEL, PIPELINE, STATEMENT, epsilon_at_delta
from dpcli.train.trained.attestation import attestation, attestation_bytes

CARD = "README.md"
ATTESTATION = "dpcli-attestation.json"
SPECIAL = "\\`*_{}[]<>()#+-!|&"  # special characters of Markdown and HTML
# Python expression that loads the folder, by library, for the model card.
LOADING_CODE = {
    "transformers": "transformers.AutoModelForCausalLM.from_pretrained(FOLDER)",
    "peft": "peft.PeftModel.from_pretrained(base_model, FOLDER)",
    "dpcli": "dpcli.load_model(FOLDER)",
}


@dataclass(frozen=True, slots=True)
class HubFolder:
    """A description of a folder that was written.

    Attributes:
        library: Name of the library that reads the folder.
        title: Title of the model card, which is the name of the pipeline.
        files: Names of the files of the model.
        base: Model to which an adapter belongs; None without an adapter.
    """

    library: str
    title: str
    files: tuple[str, ...]
    base: str | None = None


def write_hub_folder(run: str, folder: str) -> HubFolder:
    """Write a run atomically to a new folder, and return a description of the folder.

    Raises:
        InputError: The folder exists or cannot be created. The run is NOT PRIVATE, was changed, or claims less than its file costs.
        CannotCertify: No accountant can bound the cost of the run's file.
        Unavailable: torch is not installed, or transformers is not installed and the model is one of transformers.
    """
    statement = attestation(run)  # this also computes epsilon again
    description = description_in(run)
    if os.path.lexists(folder):
        raise InputError(f"{folder}: expected a path that does not exist yet, found an existing one")
    above = os.path.dirname(os.path.abspath(folder))
    if not os.path.isdir(above):
        raise InputError(f"{above}: no such folder")
    with tempfile.TemporaryDirectory(prefix=".publishing-", dir=above) as scratch:
        draft = os.path.join(scratch, "made")  # renamed at the end, so that the new folder appears at once or not at all
        os.mkdir(draft)
        written = _write_weights(description, draft)
        _copy(description, STATEMENT, draft)
        with open(os.path.join(draft, ATTESTATION), "xb") as file:
            file.write(attestation_bytes(statement))
        with open(os.path.join(draft, CARD), "x", encoding="utf-8") as text:
            text.write(model_card(description, written))
        os.rename(draft, folder)
    return written


def _write_weights(description: Description, folder: str) -> HubFolder:
    """Write the weights in the format of the library that reads them. Return a description of the folder."""
    plan = plan_of(description.path(PIPELINE))
    base, title = str(getattr(plan.train, "model", "")), plan.pipeline.name or "model"
    adapter_files = sorted(name for name in description.files if name.startswith(f"{ADAPTER}/"))
    if adapter_files and ":" not in base:  # a base of the user's own (module:function) cannot be loaded by its name
        for name in adapter_files:
            _copy(description, name, folder)
        return HubFolder("peft", title, tuple(map(os.path.basename, adapter_files)), base)
    from dpcli.train.trained.loading import load_model

    model = load_model(description.folder)
    if hasattr(model.module, "save_pretrained") and base and ":" not in base:  # a model of transformers, not of the user
        return HubFolder("transformers", title, _write_by_transformers(model, folder))
    for name in (MODEL, PIPELINE):
        _copy(description, name, folder)
    shutil.copyfile(description.path(DESCRIPTION), os.path.join(folder, DESCRIPTION))
    return HubFolder("dpcli", title, (MODEL, DESCRIPTION, PIPELINE))


def _copy(description: Description, name: str, folder: str) -> None:
    """Copy a file of the run. Raises InputError if the file was changed after training."""
    path = os.path.join(folder, os.path.basename(name))
    shutil.copyfile(description.path(name), path)
    if digest_of(path) != description.files[name]:
        raise InputError(f"{description.path(name)}: changed after training (SHA-256 differs)")


def _write_by_transformers(model: Any, folder: str) -> tuple[str, ...]:
    """Write a model by transformers, and return the names of its files.

    Raises:
        InternalError: transformers reads other weights from the folder than it was given.
    """
    import torch

    from dpcli.train.tasks.lm_library import library, offline, quiet

    tokenizer = getattr(getattr(model, "tokens", None), "tokenizer", None)
    with quiet(), offline():
        model.module.save_pretrained(folder, safe_serialization=True)
        if tokenizer is not None:
            tokenizer.save_pretrained(folder)
        load = library("transformers").AutoModelForCausalLM.from_pretrained
        reread_model = load(folder, dtype=torch.float32, local_files_only=True)
    written, reread = model.module.state_dict(), reread_model.state_dict()
    if written.keys() != reread.keys() or not all(torch.equal(reread[name], value) for name, value in written.items()):
        raise InternalError("transformers reads other weights than it was given: no folder is written")
    return tuple(sorted(os.listdir(folder)))


def model_card(description: Description, written: HubFolder) -> str:
    """Return the content of README.md. It has front matter, the guarantee in words, a way to load the model, and the run's statement.

    The front matter is YAML whose values are JSON, so that no text of a file can be read as another key.
    """
    stated = description.guarantee
    with open(description.path(STATEMENT), encoding="utf-8") as file:
        statement = file.read()
    front_matter: dict[str, object] = {"library_name": written.library, "tags": ["differential-privacy", "dpcli"]}
    if written.base is not None:
        front_matter["base_model"] = written.base
    front_matter["differential_privacy"] = {
        **{name: stated[name] for name in ("epsilon", "delta", "unit", "adjacency", "accountant")},
        "statement": STATEMENT,
        "statement_sha256": digest_of(description.path(STATEMENT)),
        "dpcli": description.version,
    }
    return (
        f"---\n{_yaml(front_matter)}---\n\n# {_one_line(written.title)}\n\n{_guarantee_words(stated)}\n\n"
        f"To load it: `{LOADING_CODE[written.library]}`.\n\n"
        "Predictions of the model cost no more privacy. A metric that is computed from the training data does.\n\n"
        f"{_one_level_deeper(statement)}"
    )


def _guarantee_words(stated: Mapping[str, Any]) -> str:
    """Return the guarantee in sentences."""
    return (
        f"Trained with differential privacy: {epsilon_at_delta(stated['epsilon'], stated['delta'])}, per {stated['unit']}, "
        f"{stated['adjacency']} neighbours ({stated['accountant']} accountant){_window_words(stated)}. "
        f"The pipeline and its assumptions are in {STATEMENT}; dpcli-attestation.json has digests of the run's files, and is not signed."
    )


def _window_words(stated: Mapping[str, Any]) -> str:
    """Return the blocks on which the model was trained, in words; "" if there are none."""
    blocks = stated.get("window")
    if not isinstance(blocks, list):
        return ""
    rows = rows_from_content(stated.get("rows"), blocks)
    words = UNCHECKED if rows is None else _one_line(rows.words)  # None: dpcli did not select the rows itself
    return f", on the blocks {_one_line(blocks_words([str(block) for block in blocks]))}: {words}"


def _yaml(values: Mapping[str, object], indent: str = "") -> str:
    """Return values as YAML. Tables are in block style, and other values are JSON, which is part of YAML 1.2."""
    lines = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            lines.append(f"{indent}{name}:\n{_yaml(value, indent + '  ')}")
        elif isinstance(value, float):
            lines.append(f"{indent}{name}: {_yaml_number(value)}\n")
        else:
            lines.append(f"{indent}{name}: {json.dumps(value)}\n")
    return "".join(lines)


def _yaml_number(value: float) -> str:
    """Return a number with a decimal point, such as 1.0e-05. YAML 1.1 would read 1e-05 as text."""
    text = repr(value)
    return text if "." in text else text.replace("e", ".0e")


def _one_line(text: str) -> str:
    """Return the text in one line, with the special characters of Markdown and HTML escaped."""
    printable = (character for character in text if character.isprintable())
    return "".join(f"\\{character}" if character in SPECIAL else character for character in printable)


def _one_level_deeper(statement: str) -> str:
    """Return the statement with its headings one level deeper, so that they are below the heading of the card."""
    return "".join(f"#{line}" if line.startswith("#") else line for line in statement.splitlines(keepends=True))
