"""Pipeline files to start from, as they are written by `dpcli init`."""

from __future__ import annotations

from importlib.resources import files


def read_template(name: str) -> str:
    """The text of one template."""
    return files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
