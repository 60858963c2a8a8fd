"""Whose each record is: what is missing or ambiguous would make one person several units of privacy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcli.base.errors import InputError

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


def in_blocks(units: Any, blocks: Sequence[str] | None, path: str) -> NDArray[np.generic]:
    """What one unit has in one block of a ledger as a unit of its own, (n,): whole numbers, one for each pair that occurs.

    Which of its records a unit keeps would otherwise depend on those of its other blocks: where the records of one block are gone, others
    take their place, which is a second change. blocks: of each record; None where a unit is bounded in the whole window, and the units are
    as `whose` has them. Raises InputError as `whose` does, and where there is another number of blocks.
    """
    found = whose(units, path)
    if blocks is None:
        return found
    if found.shape != (len(blocks),):
        raise _refusal(path, "another number of them")
    owners, parts = (np.unique(values, return_inverse=True)[1].astype(np.int64) for values in (found, np.asarray(blocks)))
    return owners * (int(parts.max(initial=0)) + 1) + parts


def _listed(units: Any, path: str) -> list[Any]:
    """As values of Python's own types."""
    try:
        values = list(units.tolist() if hasattr(units, "tolist") else units)
        return [value.item() if hasattr(value, "item") else value for value in values]
    except Exception:  # whatever an array of somebody else's raises
        raise _refusal(path, f"a value of type {type(units).__name__}") from None


def _refusal(path: str, found: str) -> InputError:
    return InputError(f"{path}: train.units: expected whose each record is, found {found}")
