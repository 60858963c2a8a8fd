"""The command group `dpcli budget`, with the options and helpers that its subcommands share.

A *ledger* is the account book of a dataset's privacy budget. The subcommands are in the other files of this folder: opening.py,
spending.py, governing.py and reading.py. Most of them open a ledger (`opened_ledger`), call a method of `Ledger` (dpcli/ledger/ledger.py)
and print the answer as a *document* (dpcli/ledger/documents), which is turned into the format of the flag -f. A *receipt* is the answer to
a granted request. A *window* is the list of *blocks* that a run reads, parts of the dataset with caps of their own. An *anchor* is the
number and hash of an entry that someone keeps elsewhere, to notice a restored backup. In the code of these commands `ledger` is the text
of the argument LEDGER, and `book` the open `Ledger`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from dpcli.base.errors import InputError
from dpcli.cli.groups import LazyGroup
from dpcli.cli.options import composed, output_options
from dpcli.ledger.plugin import SUBCOMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpcli.document.chart import Chart
    from dpcli.document.document import Document
    from dpcli.file.pipeline.model import Pipeline
    from dpcli.ledger.entry_log import Receipt
    from dpcli.ledger.ledger import Ledger


@click.group(cls=LazyGroup, table=SUBCOMMANDS, short_help="Keep a ledger of what a dataset has spent and has left.")
def command() -> None:
    """Keep the ledger of a dataset's privacy budget. LEDGER is a path, sqlite:///PATH or postgresql://HOST/DATABASE.

    A ledger records the mechanisms of every run in a hash chain. A privacy filter, fixed by `init`, adds up their costs, even if a run was
    chosen because of earlier outputs.

    Exit code 0: done now, or done before under this key. 1: the run does not fit in the budget; nothing was written. 2: input error. 3: the
    run has no cost that could be charged. 4: the ledger is missing, locked or damaged, or the key belongs to another run.
    """


def reason_option(text: str, required: bool = False) -> Callable[..., Any]:
    """Return the option --reason with a help text."""
    default: dict[str, Any] = {} if required else {"default": ""}
    return click.option("--reason", "why", required=required, metavar="TEXT", help=text, **default)


ledger_argument = click.argument("ledger")
dataset_option = click.option("--dataset", metavar="NAME", help="Name of the dataset, if LEDGER has several.")
delta_option = click.option("--delta", type=float, help="Delta at which the run is described, instead of the file's.")
window_option = click.option(
    "--window",
    "window",
    multiple=True,
    metavar="BLOCKS",
    help='The blocks that the run reads, as 2026-01-01..2026-01-28, "last 28 days" (up to yesterday in UTC) or one name; repeatable. '
    "Required if the dataset is cut into blocks.",
)
proposing_option = click.option(
    "--expires",
    metavar="TIME",
    help="Two-person ledger: the time until which it can be approved, an ISO time (UTC) or days (14d); default 7d.",
)
raising_options = composed(
    click.option("--no-output-seen", "unseen", is_flag=True, help="State that nobody who decides on the cap has seen an output."),
    click.option(
        "--acknowledge",
        is_flag=True,
        help="Accept that a raised cap guarantees nothing, or that a lower cap changes no guarantee.",
    ),
)
# The documents have a `total` and `records`, so the formats that show these parts alone are offered too.
answer_options = output_options("text", "total", "records")


def subcommand(name: str, *parameters: Callable[..., Any]) -> Callable[..., Any]:
    """Return the decorator of a subcommand, with its parameters and its line in `dpcli budget --help`."""
    return composed(click.command(name, short_help=SUBCOMMANDS[name][1]), *parameters)


@contextmanager
def opened_ledger(ledger: str, dataset: str | None, anchor: str | None = None) -> Iterator[Ledger]:
    """Yield the ledger of a dataset, as the arguments LEDGER and --dataset name it, and close it at the end.

    If `anchor` is the path of an anchor file, an earlier head of the chain, LedgerError is raised if the entries do not contain this head.
    """
    from dpcli.ledger.stores.places import open_ledger

    with open_ledger(ledger, dataset) as book:
        if anchor is not None:
            from dpcli.ledger.verify import read_anchor, refuse_lost

            refuse_lost(book, book.state().head, read_anchor(anchor))
        try:
            yield book
        except InputError as error:
            raise _without_window_flag(error) from None


def answer(ledger: str, dataset: str | None, ask: Callable[[Ledger], Receipt], **output: Any) -> int:
    """Make a request by calling `ask` with the open ledger, print its receipt or denial, and return the exit code."""
    from dpcli.cli.options import emit
    from dpcli.ledger.documents.ledger_answers import receipt

    with opened_ledger(ledger, dataset) as book:
        return emit(receipt(book, lambda: ask(book)), **output)


def _without_window_flag(error: InputError) -> InputError:
    """Return an error that names the parameter for blocks of the command that runs, in place of --window.

    Functions of the ledger say "--window: ..." in their messages, because the commands that charge a run have this option. `retire`,
    `import` and `plan` take blocks in another way.
    """
    from dpcli.file.pipeline.datasets import without_flag

    context = click.get_current_context()
    flags = {flag for option in context.command.params for flag in option.opts}
    if type(error) is not InputError or "--window" in flags:  # errors of a subclass, such as of a file, are not about flags
        return error
    if "--within" in flags:
        parameter = "--within"
    elif "blocks" in flags:  # the argument of `retire`
        parameter = "BLOCKS"
    else:
        parameter = "window"  # a column of `import`, or a key of `plan`
    alternative = {"import": ", or in the column window", "plan": ", or of the [[run]]"}.get(context.info_name or "", "")
    return InputError(without_flag(str(error), parameter, alternative))


def with_delta_findings(document: Document, ledger: Ledger, pipeline: Pipeline, path: str, delta: float | None) -> Document:
    """Return the document with the findings of lint rule DP105 (delta is too large for the number of records) on both deltas.

    These are --delta and the delta of the ledger. The findings are warnings: the charge does not depend on them.
    """
    from dpcli.lint.delta import judged_deltas
    from dpcli.lint.documents.diagnostics import note

    terms, size = ledger.state().open_terms(), pipeline.privacy.dataset_size
    if size is None:
        size = terms.dataset_size
    delta_of_ledger = None if size is None else terms.delta  # the user was warned when a ledger without a size was opened
    findings = judged_deltas({"--delta": delta, "the ledger's delta": delta_of_ledger}, size, path)
    return replace(document, alerts=(*document.alerts, *map(note, findings)))  # `note` returns a finding as a line


def emit_pictured(document: Document, picture: Callable[[], Chart], format_: str, outputs: tuple[str, ...]) -> int:
    """Print a document, draw its picture to each output with an image format, and return the exit code."""
    from dpcli.cli.options import emit
    from dpcli.cli.outputs import split_pictures

    pictures, documents = split_pictures(outputs)
    if pictures:
        from dpcli.cli.picture import show

        show(picture(), None, pictures)
    return emit(document, format_, documents)


def wants(name: str, format_: str, outputs: tuple[str, ...]) -> bool:
    """Return whether a format is requested, for the terminal or for an output file."""
    return name == format_ or any(output.startswith(f"{name}=") for output in outputs)
