"""A model card: what the Hugging Face Hub shows of a model, with the guarantee in its front matter and in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from dpcli.base.rounding import up
from dpcli.file.pipeline.datasets import UNCHECKED, blocks_words
from dpcli.ledger.blocks.rows import kept_rows
from dpcli.train.run.description import Description, digest_of
from dpcli.train.run.outcome import STATEMENT

CARD = "README.md"
USE = {
    "transformers": "transformers.AutoModelForCausalLM.from_pretrained(FOLDER)",
    "peft": "peft.PeftModel.from_pretrained(base_model, FOLDER)",
    "dpcli": "dpcli.load_model(FOLDER)",
}


@dataclass(frozen=True, slots=True)
class HubFolder:
    """library: that reads it. title: of the pipeline. files: of the model. base: what an adapter stands on, "" where there is none."""

    library: str
    title: str
    files: tuple[str, ...]
    base: str = ""


def model_card(found: Description, what: HubFolder) -> str:
    """README.md: front matter in YAML (values in its JSON subset, so that nothing in a file can be read as another key), the guarantee
    in words, how the model is loaded, and the run's statement."""
    stated = found.guarantee
    with open(found.path(STATEMENT), encoding="utf-8") as file:
        said = file.read()
    front: dict[str, object] = {"library_name": what.library, "tags": ["differential-privacy", "dpcli"]}
    if what.base:
        front["base_model"] = what.base
    front["differential_privacy"] = {
        **{name: stated[name] for name in ("epsilon", "delta", "unit", "adjacency", "accountant")},
        "statement": STATEMENT,
        "statement_sha256": digest_of(found.path(STATEMENT)),
        "dpcli": found.version,
    }
    return (
        f"---\n{_yaml(front)}---\n\n# {_line(what.title)}\n\n{_guarantee(stated)}\n\nTo load it: `{USE[what.library]}`.\n\n"
        f"What the model computes costs no more privacy. A metric computed from the training data does.\n\n{_deeper(said)}"
    )


def _guarantee(stated: Mapping[str, object]) -> str:
    epsilon = stated["epsilon"]
    assert isinstance(epsilon, float)
    return (
        f"Trained with differential privacy: epsilon <= {up(epsilon)} at delta = {stated['delta']!r}, per {stated['unit']}, "
        f"{stated['adjacency']} neighbours ({stated['accountant']} accountant){_window(stated)}. "
        f"The pipeline and its assumptions are in {STATEMENT}; dpcli-attestation.json has the digests of the run's files, unsigned."
    )


def _window(stated: Mapping[str, object]) -> str:
    blocks = stated.get("window")
    if not isinstance(blocks, list):
        return ""
    rows = kept_rows(stated.get("rows"), blocks)
    said = UNCHECKED if rows is None else _line(rows.words)
    return f", on the blocks {_line(blocks_words([str(block) for block in blocks]))}: {said}"


def _yaml(values: Mapping[str, object], indent: str = "") -> str:
    """Block style for tables, JSON for everything else, which YAML 1.2 reads alike."""
    lines = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            lines.append(f"{indent}{name}:\n{_yaml(value, indent + '  ')}")
        elif isinstance(value, float):
            lines.append(f"{indent}{name}: {_number(value)}\n")
        else:
            lines.append(f"{indent}{name}: {json.dumps(value)}\n")
    return "".join(lines)


def _number(value: float) -> str:
    """With a point: YAML 1.1 reads 1e-05 as text."""
    text = repr(value)
    return text if "." in text else text.replace("e", ".0e")


def _line(text: str) -> str:
    """In one line, without what Markdown or HTML would read as its own."""
    return "".join(f"\\{one}" if one in "\\`*_{}[]<>()#+-!|&" else one for one in text if one.isprintable())


def _deeper(said: str) -> str:
    """The statement below the card's heading."""
    return "".join(f"#{line}" if line.startswith("#") else line for line in said.splitlines(keepends=True))
