"""Flags that the commands of this folder share: the targets of a calibration, and a pipeline of one mechanism in place of FILE.

`dpcli account --noise-multiplier 1.1 ...` has no file, so `tables_and_text` makes one of the flags, by file/pipeline/flags.py. Lint
findings about this file must name flags, because the user never sees it (`without_lines`). Flags together with a real FILE are refused
(`refuse_with_file`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from dpcli.base.errors import InputError
from dpcli.cli.options import composed

if TYPE_CHECKING:
    from dpcli.file.toml.findings import Diagnostic


# Options of the targets other than an epsilon.
goal_options = composed(
    click.option("--target-rho", type=float, help="Largest permitted rho (zCDP), instead of an epsilon."),
    click.option(
        "--target-advantage", type=float, help="Largest permitted difference of true and false positive rate (delta at epsilon 0)."
    ),
    click.option("--target-tpr", type=float, help="Largest permitted true positive rate of any attack at --at-fpr."),
    click.option("--at-fpr", type=float, help="Rate of false positives at which --target-tpr holds."),
    click.option(
        "--target-mu",
        type=float,
        help="Largest permitted mu (Gaussian DP), for Gaussian noise on all records and for pure mechanisms.",
    ),
)


def without_lines(diagnostics: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
    """Return findings about a file that flags describe. They name flags instead of keys, and no lines, since no user sees the file."""
    return tuple(replace(d, key=_flag(d.key), line=0, column=0, source="") for d in diagnostics)


def _flag(key: str) -> str:
    """Return the flag that states a key of [privacy]; the key itself if none does."""
    table, _, name = key.partition(".")
    return f"--{name.replace('_', '-')}" if table == "privacy" and name in ("dataset_size", "delta", "adjacency") else key


def solving_flags(flags: Mapping[str, Any]) -> list[str] | None:
    """Return the flags that describe the same pipeline to dpcli calibrate-sigma, as words; None if its noise is not Gaussian."""
    from dpcli.file.pipeline.flags import Stated, words_of_flags

    given = Stated(**flags).given
    noise = given.pop("noise_multiplier", None)  # calibrate-sigma solves for it
    return None if noise is None or "laplace" in given else words_of_flags(given)


def refuse_with_file(file: str, given: Mapping[str, Any]) -> None:
    """Raise InputError for a flag that is given together with FILE, which describes the pipeline."""
    from dpcli.file.pipeline.flags import KEY_OF_FLAG

    for name, value in given.items():
        if value is not None and value is not False:
            key = KEY_OF_FLAG.get(name, name)
            change = f"; change {key} in {file}" if key else ""
            raise InputError(f"--{name.replace('_', '-')} cannot be combined with a FILE{change}")


def tables_and_text(flags: Mapping[str, Any], delta: float | None, epsilon: float | None) -> tuple[dict[str, Any], str]:
    """Return the tables that the flags describe, and the text of the equivalent file.

    Raises InputError if the flags describe no mechanism, or state neither delta nor epsilon of a mechanism that is not pure.
    """
    from dpcli.file.pipeline.flags import Stated, text_of_flags

    stated = Stated(**flags)
    is_pure = stated.pure is not None or stated.laplace
    states_neither = delta is None and epsilon is None
    # A pure mechanism has an epsilon at delta 0. A missing mechanism is reported before a missing delta.
    tables = stated.tables(0.0 if states_neither and is_pure else delta)
    if states_neither and not is_pure:
        raise InputError("--delta is missing: state a delta well below 1 / number of records")
    delta_flag = {"delta": delta} if delta is not None else {}
    return tables, text_of_flags(tables, "account", {**stated.given, **delta_flag})
