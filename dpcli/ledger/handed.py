"""What a program hands in where the command line has text: taken as what it plainly is, or refused in words before a ledger is opened."""

from __future__ import annotations

import os
from numbers import Real
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline


def text_of(name: str, given: object) -> str:
    """A text. Raises InputError for anything else."""
    if not isinstance(given, str):
        raise InputError(f"{name}: expected a text, found {repr(given)[:60]}")
    return given


def texts_of(name: str, given: object) -> tuple[str, ...]:
    """One text or several. Raises InputError for anything else."""
    if isinstance(given, str):
        return (given,)
    if not isinstance(given, (list, tuple)):
        raise InputError(f"{name}: expected a text or a list of texts, found {repr(given)[:60]}")
    return tuple(text_of(name, one) for one in given)


def path_or_url(name: str, given: object) -> str:
    """A text, or a path in its place. Raises InputError for anything else."""
    if not isinstance(given, (str, os.PathLike)):
        raise InputError(f"{name}: expected a path or a URL, found {repr(given)[:60]}")
    return os.fsdecode(given)


def number_of(name: str, given: object) -> float:
    """A number, of whatever library, as a double. Raises InputError for anything else, truth among it."""
    if not isinstance(given, Real) or isinstance(given, bool):
        raise InputError(f"{name}: expected a number, found {repr(given)[:60]}")
    try:
        return float(given)
    except OverflowError:
        raise InputError(f"{name}: expected a number that a double can hold, found {str(given)[:60]}") from None


def pipeline_of(name: str, given: object) -> Pipeline:
    """A pipeline, or what is in its file. Raises InputError for anything else."""
    from dpcli.file.pipeline.model import Pipeline
    from dpcli.file.pipeline.read import load

    if isinstance(given, Pipeline):
        return given
    if not isinstance(given, (str, os.PathLike)):
        raise InputError(f"{name}: expected a pipeline, or the path of its file, found {repr(given)[:60]}")
    return load(os.fsdecode(given))
