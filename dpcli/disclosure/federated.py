"""What a disclosure says of [federated], besides what [disclosure] states in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dpcli.disclosure.answers import MODELS, text_of, worded
from dpcli.disclosure.facts import Facts
from dpcli.file.pipeline.model import Pipeline

Answered = Callable[[Facts], str | None]

NOISE = {
    "server": "the server sees each client's update and adds the noise once a round; it is trusted",
    "secure-aggregation": "each client adds a share of the noise, and the server sees sums alone, with the noise of {min_clients} clients "
    "or more, of whom at most {dishonest} work with it; the rounding and the modulus of the aggregation are not accounted for",
    "local": "each client adds the noise itself, and the server sees every message and who sent it",
}


AGAINST = {
    "server": "The guarantee is against those who see the releases, and not against the server",
    "secure-aggregation": "The guarantee is against the server too, and so without amplification by sampling",
    "local": "The guarantee is against everybody, the server among them, and so without amplification by sampling",
}


def against(pipeline: Pipeline) -> tuple[str, ...]:
    """Against whom a guarantee about clients is, in a sentence; none of a file that has no clients."""
    table = _stated(pipeline)
    return (f"{AGAINST[table['noise']]}: {_noise(table)}.",) if table else ()


def _stated(pipeline: Pipeline) -> Mapping[str, Any]:
    found: Mapping[str, Any] = dict(pipeline.sections).get("federated", {})
    return found


def _table(facts: Facts) -> Mapping[str, Any]:
    return _stated(facts.pipeline)


def _noise(table: Mapping[str, Any]) -> str:
    """Who adds the noise, and who sees what."""
    return NOISE[table["noise"]].format_map({"min_clients": 0, "dishonest": 0, **table})


def _both(stated: str | None, found: str | None) -> str | None:
    return "; ".join(text for text in (stated, found) if text) or None


def privacy_model(facts: Facts) -> str | None:
    """Who is trusted with raw data, in the file's word and by who adds the noise."""
    table = _table(facts)
    return _both(worded("privacy_model", MODELS)(facts), _noise(table) if table else None)


def clipping(facts: Facts) -> str | None:
    """How contributions are bounded."""
    clip = _table(facts).get("clip")
    return _both(
        text_of("clipping")(facts), None if clip is None else f"each client's update of a round is clipped to L2 norm {clip!r}"
    )


def sampler(facts: Facts) -> str | None:
    """How the program draws, as the file says that it really does."""
    table, unit = _table(facts), facts.unit
    found = (
        f"{table['sampling']}, as the server really draws clients; no {unit}'s data may decide who takes part or drops out"
        if table
        else None
    )
    return _both(text_of("sampler")(facts), found)
