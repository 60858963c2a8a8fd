"""A valid pipeline file from which tests start, and the diagnostics of the reader about an invalid one."""

from __future__ import annotations

from pathlib import Path

from dpcli.file.pipeline.read import parse
from dpcli.file.toml.findings import Diagnostic, InvalidFile

BAD = sorted((Path(__file__).parent.parent / "vectors" / "bad").glob("*.toml"))  # each says what is wrong with it
GOOD = """\
format = 1
name = "ads-ctr"

[privacy]
unit = "user"
adjacency = "add-remove"
max_contributions = 5
dataset_size = 60_000
delta = 1e-6
releases = "all-checkpoints"

[budget]
epsilon = 3.0

[[mechanism]]
name = "vocabulary"
type = "laplace"
scale = 20.0
sensitivity = 5.0
description = \"\"\"two
lines\"\"\"

[[mechanism]]
name = "train"
type = "gaussian"
noise_multiplier = 1.12
steps = 14_063
sampling = { scheme = "poisson", batch_size = 256 }

[[mechanism]]
name = "north"
type = "gaussian"
sigma = 12
sensitivity = 2.236
partition = { of = "region", part = "north" }

[[mechanism]]
name = "curve"
type = "rdp"
orders = [2, 4.0]
values = [0.1, 0.2]

[[mechanism]]
name = "both"
type = "composed"
mechanisms = ["curve", "vocabulary"]

[train]
task = "classification"
data = "digits"
clipping = { norm = 1.0, style = "automatic" }
learning_rate = 0.5
"""


def changed(old: str, new: str, text: str = GOOD) -> str:
    """Return `text` with its first `old` replaced by `new`. It must contain `old`."""
    assert old in text
    return text.replace(old, new, 1)


def refused(text: str | bytes) -> tuple[Diagnostic, ...]:
    """Return the diagnostics of a file that the reader must refuse."""
    try:
        parse(text if isinstance(text, bytes) else text.encode(), "train.toml")
    except InvalidFile as error:
        return error.diagnostics
    raise AssertionError("the file was accepted")


def said(text: str | bytes) -> list[str]:
    """Return the diagnostics of an invalid file as `rule line:column key: message`."""
    return [in_words(diagnostic) for diagnostic in refused(text)]


def in_words(diagnostic: Diagnostic) -> str:
    """Return a diagnostic as `rule line:column key: message`."""
    key = f"{diagnostic.key}: " if diagnostic.key else ""
    return f"{diagnostic.rule} {diagnostic.line}:{diagnostic.column} {key}{diagnostic.message}"
