"""Disjoint shards of private data, by unit of privacy.

Which shard a unit is in depends on that unit alone: whoever comes, goes or changes, all others stay where they are, so that one change
retrains one model. Shards that are cut to equal sizes would all move when one record comes or goes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

KEY = b"dpcli shard 1"


def shard_of(unit: str | int, shards: int, salt: str = "") -> int:
    """The shard of a unit, 0 to shards - 1: a hash of its name, which spreads units evenly. salt: public; another one spreads anew."""
    kind = "number" if isinstance(unit, int) else "text"
    name = hashlib.blake2b(f"{len(salt)} {salt} {kind} {unit}".encode("utf-8", "surrogatepass"), key=KEY).digest()
    return int.from_bytes(name[:16], "big") % shards


def shards_of(units: Iterable[str | int], shards: int, salt: str = "") -> list[list[int]]:
    """For each shard, the places in `units` of the records in it, in order; a shard may be empty."""
    places: list[list[int]] = [[] for _ in range(shards)]
    for place, unit in enumerate(units):
        places[shard_of(unit, shards, salt)].append(place)
    return places
