"""Options of the commands that price a pipeline: the accountants and the delta, the flags that describe a run without FILE, and --write.

`dpcli account`, `calibrate` and `calibrate-sigma` share most of them, and other commands take single ones. The flags that describe a run
become the text of a pipeline file (dpcli/file/pipeline/flags.py), which --write stores at a path that must not exist.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import click

from dpcli.base.errors import InputError
from dpcli.base.registry import ACCOUNTANTS
from dpcli.cli.completion import complete_accountant
from dpcli.cli.options import composed

ALL = "all"  # value of --accountant that selects every accountant


def _checked_new_path(_context: click.Context, _option: click.Parameter, path: str | None) -> str | None:
    """Return the path of --write. Raises InputError at once for "-", for a path that exists, and for one in no existing folder."""
    if path == "-":
        raise InputError("--write: expected a path, found -: standard output has the result (write ./- for a file of this name)")
    if path is not None and os.path.lexists(path):
        raise InputError(f"--write: expected a path that does not exist yet, found {path}")
    if path is not None and not os.path.isdir(os.path.dirname(path) or "."):
        raise InputError(f"--write: expected a path in a folder that exists, found {path}")
    return path


def write_option(what: str) -> Callable[..., Any]:
    """Return the option --write PATH. `what` completes its help."""
    return click.option(
        "--write", metavar="PATH", callback=_checked_new_path, help=f"Also write {what} to PATH, which must not exist."
    )


def require_one_unit(write: str | None, group_size: int) -> None:
    """Raise InputError if --write asks for a pipeline file of a group, which no pipeline file can state."""
    if write is not None and group_size != 1:
        raise InputError(
            f"--group-size: expected no such flag with --write, found {group_size}: a file describes the cost of one unit; "
            f"dpcli account {write} --group-size {group_size} computes that of a group"
        )


def adjacency_option(what: str) -> Callable[..., Any]:
    """Return the option --adjacency. `what` completes its help."""
    return click.option(
        "--adjacency", type=click.Choice(["add-remove", "replace-one", "zero-out"]), help=f"Neighbouring relation {what}."
    )


dataset_size_option = click.option("--dataset-size", type=int, help="Number of records, declared public.")


run_options = composed(
    click.option("--sampling-rate", type=float, help="Probability that a record is in the batch of a step  [default: 1]."),
    click.option("--batch-size", type=int, help="Expected number of records in a batch; needs --dataset-size."),
    dataset_size_option,
    click.option(
        "--steps",
        type=int,
        help="Number of steps (without FILE); 1 by default, required with --sampling-rate or --batch-size.",
    ),
    click.option("--epochs", type=float, help="Number of passes over the data, instead of --steps."),
    adjacency_option("(without FILE)  [default: add-remove]"),
)


accounting_options = composed(
    click.option(
        "-a",
        "--accountant",
        "accountants",
        multiple=True,
        metavar="NAME",
        shell_complete=complete_accountant,
        callback=lambda _, __, given: tuple(ACCOUNTANTS) if ALL in given else given,
        help=f"Use only this accountant; repeatable: {', '.join(ACCOUNTANTS)}; or {ALL}, including accountants that a certified interval "
        "makes needless.",
    ),
    click.option("--delta", type=float, help="Report epsilon at this delta instead of that of the file."),
    click.option("--group-size", type=int, default=1, show_default=True, help="Number of units of privacy that change together."),
)
