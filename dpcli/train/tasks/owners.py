"""Whose each record is: what is missing or ambiguous would make one person several units of privacy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcli.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

UNITS = ({int}, {str}, {bytes}, {float})  # types whose values are equal where they are the same


def whose(units: Any, path: str) -> NDArray[np.generic]:
    """The units, (n,): whole numbers, texts or finite numbers, all of one type.

    None, NaN (which is unlike itself) and an empty text are refused, and so are mixed types, of which 1 and "1" would be two owners.

    Raises:
        InputError: anything else. The message shows no value.
    """
    values = _listed(units, path)
    types = {type(value) for value in values}
    if type(None) in types or any(value != value or value in ("", b"") for value in values if type(value) in (float, str, bytes)):
        raise _refusal(path, "some that are missing")
    if types and types not in UNITS:
        raise _refusal(path, "values of type " + " and ".join(sorted(one.__name__ for one in types)))
    if types == {float} and not all(math.isfinite(value) for value in values):
        raise _refusal(path, "some that are not finite")
    found = np.asarray(values)
    # Whole numbers beyond 64 bits: numpy would round them.
    return found if types != {int} or found.dtype.kind in "iu" else np.asarray([str(value) for value in values])


def _listed(units: Any, path: str) -> list[Any]:
    """As values of Python's own types."""
    try:
        values = list(units.tolist() if hasattr(units, "tolist") else units)
        return [value.item() if hasattr(value, "item") else value for value in values]
    except Exception:  # whatever an array of somebody else's raises
        raise _refusal(path, f"a value of type {type(units).__name__}") from None


def _refusal(path: str, found: str) -> InputError:
    return InputError(f"{path}: train.units: expected whose each record is, found {found}")
