"""The output of charts, to the terminal and to files. A *chart* is a picture before a chart format such as svg draws it (dpcli/document).

Charts have formats of their own (CHART_FORMATS). An output names one as FORMAT=PATH, or by the ending of its path. A command that also
prints a document separates the two kinds of outputs by `split_pictures` in outputs.py.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.registry import CHART_FORMATS, FORMATS
from dpcli.cli import printing
from dpcli.cli.document_files import Output, wants_color, write
from dpcli.cli.options import each_once
from dpcli.cli.outputs import PICTURE_ENDINGS

if TYPE_CHECKING:
    from dpcli.document.chart import Chart

FIXED_WIDTH = 100  # width in characters if the output is not a terminal; arbitrary


def show(chart: Chart, format_: str | None, outputs: tuple[str, ...]) -> None:
    """Print a chart, or write it to files. All formats are rendered before the first file is written.

    Args:
        format_: Value of -f; None if it is not given.
        outputs: Values of -o. If there are none, the chart is printed.

    Raises:
        InputError: No chart format results for an output, two outputs are one file, a file cannot be written, or a chart in a binary format
            would be printed to a terminal.
    """
    places = [destination(output, format_) for output in outputs]
    each_once([path for _, path in places])
    texts = [_render(chart, name, width=FIXED_WIDTH, color=False, encoding="utf-8") for name, _ in places]
    if not outputs:
        _print(chart, format_ or "terminal")
    for (_, path), text in zip(places, texts, strict=True):
        write(path, text)


def destination(output: str, format_: str | None) -> Output:
    """Return an output, which is FORMAT=PATH or a path, in its parts. A path has the format of -f or, without -f, that of its ending.

    Raises InputError if the output names a format of documents, or if no format results.
    """
    name, _, path = output.partition("=")
    if path and name in CHART_FORMATS:
        return Output(name, path)
    if path and name in FORMATS:
        raise InputError(f"--output: expected FORMAT=PATH with a format among {', '.join(CHART_FORMATS)}, found {output!r}")
    return Output(format_ or _format_of_ending(output), output)


def _format_of_ending(path: str) -> str:
    """Return the format for the ending of a path. Raises InputError for an unknown ending."""
    for suffix, name in PICTURE_ENDINGS.items():
        if path.lower().endswith(suffix):
            return name
    raise InputError(
        f"{path}: expected a path that ends in {', '.join(PICTURE_ENDINGS)}, or FORMAT=PATH with a format among {', '.join(CHART_FORMATS)}"
    )


def _print(chart: Chart, name: str) -> None:
    """Print a chart. Raises InputError for a binary format if standard output is a terminal."""
    settings: printing.Settings = click.get_current_context().obj
    has_fixed_width = not sys.stdout.isatty() and not os.environ.get("COLUMNS")
    width = FIXED_WIDTH if has_fixed_width else shutil.get_terminal_size(fallback=(FIXED_WIDTH, 24)).columns
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    text = _render(chart, name, width, wants_color(settings.color), encoding)
    if isinstance(text, bytes) and sys.stdout.isatty():
        raise InputError(f"expected a path for {name} (-o PATH) or a pipe, found a terminal")
    printing.show(text)


def _render(chart: Chart, name: str, width: int, color: bool, encoding: str) -> str | bytes:
    """Return the chart in a format, as bytes if the format is binary. The other arguments describe the terminal."""
    render: Callable[..., str | bytes] = load(CHART_FORMATS[name])
    return render(chart, width=width, color=color, encoding=encoding)
