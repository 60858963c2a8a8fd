"""Pipeline files to start from, as they are written by `dpcli init`."""

from __future__ import annotations

import os
from importlib.resources import files

from dpcli.errors import InputError


def read_template(name: str) -> str:
    """The text of one template."""
    return files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8")


def taken(path: str) -> InputError:
    """The refusal of a path at which there is something."""
    what = "a directory" if os.path.isdir(path) else "a file"
    return InputError(f"{path}: expected a path that does not exist yet, found {what}")


def write_new(path: str, text: str) -> None:
    """Write a file that does not exist yet; an existing one is never overwritten."""
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise taken(path) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
