"""Template files that `dpcli init` writes: pipeline files, and configurations of CI systems that run the gate."""

from __future__ import annotations

from importlib.resources import files


def read_template(name: str) -> str:
    """Return the text of a template. `name` is the name of its file without the ending."""
    (file,) = (file for file in files(__name__).iterdir() if file.name.rpartition(".")[0] == name)
    return file.read_text(encoding="utf-8")
