"""What the commands share that do private work and charge a ledger for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from dpcli.cli.options import composed
from dpcli.ledger.commands.options import window_option


def charged_ledger(what: str) -> Callable[..., Any]:
    """--ledger, --dataset and --window. what: is said of the first."""
    return composed(
        click.option("--ledger", metavar="LEDGER", help=what),
        click.option("--dataset", metavar="NAME", help="The dataset of --ledger, where that holds several."),
        window_option,
    )
