"""Why delta = 0 leaves no finite epsilon."""

from __future__ import annotations

from dpcli.file.pipeline.model import Pipeline
from dpcli.file.toml.shown import first_names


def needed_delta(pipeline: Pipeline, delta: float | None) -> str:
    """What to say where delta = 0 refuses noise of some kinds, however much there is of it; nothing where it does not."""
    names = [entry.name for entry in pipeline.mechanisms if entry.spec.needs_delta] if delta == 0.0 else []
    if not names:
        return ""
    return (
        f"delta = 0: no epsilon is finite there for {first_names(names)}, however much noise there is: "
        "state a delta > 0, such as 1e-6 (--delta, or privacy.delta)"
    )
