"""What an epsilon is a statement about: two numbers can be compared only where this is the same."""

from __future__ import annotations

from typing import Any

from dpcli.file.pipeline.model import Pipeline


def statement_of(pipeline: Pipeline) -> dict[str, Any]:
    """Unit, adjacency, contributions, size, delta and adaptivity: change one of these and it is another number."""
    privacy = pipeline.privacy
    return {
        "unit": privacy.unit,
        "adjacency": privacy.adjacency.value,
        "max_contributions": privacy.max_contributions,
        "dataset_size": privacy.dataset_size,
        "delta": pipeline.budget.delta if pipeline.budget and pipeline.budget.delta is not None else privacy.delta,
        "adaptive": privacy.adaptive,
    }
