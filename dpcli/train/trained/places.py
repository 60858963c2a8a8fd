"""Where what a [train] table mentions is found, once its file has become a copy in the run's folder. Nothing here needs torch."""

from __future__ import annotations

import os

from dpcli.train.run.description import Description
from dpcli.train.run.outcome import PIPELINE


def place_of(description: Description, source: str) -> str:
    """A path beside which `source` is: in the run's folder, where the training file was, or in the current one."""
    folders = (description.folder, description.path(description.origin), os.getcwd())
    return os.path.join(next((folder for folder in folders if _holds(folder, source)), description.folder), PIPELINE)


def _holds(folder: str, source: str) -> bool:
    module, colon, _ = source.partition(":")
    name = os.path.join(folder, module.split(".")[0])
    return os.path.isfile(f"{name}.py") or os.path.isdir(name) if colon else os.path.exists(os.path.join(folder, source))
