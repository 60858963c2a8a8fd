"""Files to start from, as `dpcli init` writes them: pipelines, and recipes for systems that run the gate."""

from __future__ import annotations

from importlib.resources import files


def read_template(name: str) -> str:
    """The text of one template."""
    (file,) = (file for file in files(__name__).iterdir() if file.name.rpartition(".")[0] == name)
    return file.read_text(encoding="utf-8")
