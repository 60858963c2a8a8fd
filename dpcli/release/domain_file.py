"""A public list of values: one on each line of a text file."""

from __future__ import annotations

import os

from dpcli.base.errors import InputError
from dpcli.file.toml.limits import read_bytes


def values_in(path: str, key: str, folder: str, most: int) -> tuple[str, ...]:
    """The lines of a UTF-8 file, in its order, without their ends; a path that is not absolute starts at `folder`.

    Raises InputError where it cannot be read, is empty, says the same twice or has more than `most` lines. The file is public.
    """
    try:
        text = read_bytes(os.path.join(folder, path), "a file of values").decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{key}: expected UTF-8 text in {path}, found other bytes") from None
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []
    if not lines or len(lines) > most:
        raise InputError(f"{key}: expected 1 to {most:,} values in {path}, found {len(lines):,}")
    if len(set(lines)) < len(lines):
        raise InputError(f"{key}: expected different values in {path}, found {len(lines) - len(set(lines)):,} of them again")
    return tuple(lines)
