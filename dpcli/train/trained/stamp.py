"""What a model's file says of its own privacy, in the header of the safetensors. Nothing here needs torch."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping

from dpcli.base.errors import InputError
from dpcli.train.run.description import Description, distinct
from dpcli.train.run.outcome import MODEL

LARGEST = 100_000_000  # bytes of a header, as safetensors itself reads


def stamp(path: str) -> Mapping[str, str]:
    """The metadata of a file of safetensors: eight bytes of length, then JSON. Raises InputError where it is none."""
    try:
        with open(path, "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            found = json.loads(file.read(min(length, LARGEST)), object_pairs_hook=distinct)["__metadata__"]
        sound = isinstance(found, dict) and all(isinstance(value, str) for value in found.values())
    except (OSError, ValueError, KeyError, TypeError, struct.error, RecursionError):
        sound = False
    if not sound:
        raise InputError(f"{path}: expected a model that dpcli train left, found a file without its stamp")
    return dict(found)


def require_stamp(description: Description) -> None:
    """Raise InputError where the model's file and the description do not tell the same of its privacy."""
    path, stated = description.path(MODEL), description.guarantee
    found = stamp(path)
    private = found.get("private") == "yes"
    if private is not stated.get("private") or (private and found.get("epsilon") != repr(stated.get("epsilon"))):
        raise InputError(
            f"{path}: expected the same epsilon as in {description.folder}'s description, found another, or NOT PRIVATE"
        )
