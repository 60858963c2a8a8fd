"""Which outputs are pictures: by a format that only pictures have, or by the ending of a path."""

from __future__ import annotations

from dpcli.base.registry import CHART_FORMATS, FORMATS

SUFFIXES = {".svg": "svg", ".png": "png", ".csv": "csv", ".vl.json": "vega-lite", ".json": "vega-lite", ".txt": "terminal"}
ALONE = (".svg", ".png", ".vl.json")  # the endings that mean no document


def pictured(output: str) -> str | None:
    """The output as FORMAT=PATH where it is a picture and nothing else, None where it is a document's or nobody's."""
    name, equals, path = output.partition("=")
    if path and name in CHART_FORMATS and name not in FORMATS:
        return output
    return None if equals else next((f"{SUFFIXES[end]}={output}" for end in ALONE if output.lower().endswith(end)), None)


def parted(outputs: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Pictures, and documents."""
    pictures = tuple(output for output in outputs if pictured(output))
    return pictures, tuple(output for output in outputs if output not in pictures)
