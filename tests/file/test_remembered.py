"""The tables of the last text that was read are remembered, for several readers: all leave them as they are."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dpcli.base.errors import InputError
from dpcli.file.pipeline import read
from dpcli.file.toml.syntax import tables_of

EXAMPLES = sorted(Path(__file__).parents[2].glob("examples/*.toml"))
LISTS = b"""format = 1
[privacy]
unit = "user"
adjacency = "add-remove"
[defaults]
sensitivity = 2
steps = 3
[[mechanism]]
name = "count"
type = "laplace"
scale = [10, 20]
[[mechanism]]
name = "sum"
type = "gaussian"
sigma = "calibrate"
"""
TEXTS = {path.stem: path.read_bytes() for path in EXAMPLES} | {"lists": LISTS}
READERS: dict[str, Callable[[bytes], object]] = {
    "parse": lambda text: read.parse(text, "a.toml", 1.0),
    "examine": lambda text: read.examine(text, "a.toml"),
    "section": lambda text: read.section(text, "a.toml", "train"),
    "targets": lambda text: read.targets(text, "a.toml"),
    "document": lambda text: read.toml_document(text, "a.toml"),
    "located": lambda text: read.located(text.decode(), [("format",)]),
}


def test_every_reader_leaves_them() -> None:
    for name, text in TEXTS.items():
        for word, reader in READERS.items():
            with suppress(InputError):
                reader(text)
            assert read._stated(text.decode()) == tables_of(text.decode()), (name, word)
    assert read._stated.cache_info().maxsize == 1
