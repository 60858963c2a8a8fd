"""Why a run is charged, for those who read the log: by which command, of which file, and the name of its pipeline."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline


def reason(command: str, path: str, pipeline: Pipeline) -> str:
    """As "dpcli train week.toml (clicks-week)": keys are made up, and what is stored of a pipeline has no name."""
    name = f" ({pipeline.name})" if pipeline.name else ""
    return f"dpcli {command} {os.path.basename(path)}{name}"
