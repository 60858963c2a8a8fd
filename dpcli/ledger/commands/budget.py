"""The command group `dpcli budget`, with the options and helpers that its subcommands share."""

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
    from dpcli.ledger.ledger import Ledger, Receipt


@click.group(cls=LazyGroup, table=SUBCOMMANDS, short_help="The ledger: what a dataset has spent, and what still fits.")
def command() -> None:
    """Keep the budget of a dataset over many runs: LEDGER is a path, sqlite:///PATH or postgresql://HOST/DATABASE.

    A ledger holds the mechanisms of every run in a hash chain. A privacy filter, fixed by `init`, adds up what was chosen adaptively.

    Exit code 0: done (or done before, under the same key). 1: the budget says no, and nothing was written. 2: input error. 3: the run has
    no cost that could be charged. 4: the ledger is missing, locked, damaged, or holds something else under the same key.
    """


def reason_option(text: str, required: bool = False) -> Callable[..., Any]:
    """Return the option --reason with a help text."""
    default: dict[str, Any] = {} if required else {"default": ""}
    return click.option("--reason", "why", required=required, metavar="TEXT", help=text, **default)


ledger_argument = click.argument("ledger")
dataset_option = click.option("--dataset", metavar="NAME", help="The dataset, where LEDGER holds several.")
delta_option = click.option("--delta", type=float, help="Delta at which the run is described, instead of the file's.")
window_option = click.option(
    "--window",
    "window",
    multiple=True,
    metavar="BLOCKS",
    help='The blocks that the run reads, as 2026-01-01..2026-01-28, "last 28 days" (up to yesterday in UTC) or one name; repeatable. '
    "Needed where the dataset is cut into blocks.",
)
proposing_option = click.option(
    "--expires",
    metavar="TIME",
    help="Two-person ledger: until when it can be approved, as an ISO time (UTC) or days (14d); 7d where absent.",
)
raising_options = composed(
    click.option("--no-output-seen", "unseen", is_flag=True, help="Raise the cap: whoever decides it has seen no output."),
    click.option("--acknowledge", is_flag=True, help="Raise it without a guarantee, or lower it, which guarantees nothing less."),
)
answer_options = output_options("text", "total", "records")


def subcommand(name: str, *parameters: Callable[..., Any]) -> Callable[..., Any]:
    """Return a decorator that makes a subcommand of its parameters, with its line of `dpcli budget --help`."""
    return composed(click.command(name, short_help=SUBCOMMANDS[name][1]), *parameters)


@contextmanager
def opened(ledger: str, dataset: str | None, anchor: str | None = None) -> Iterator[Ledger]:
    """Yield the ledger of a dataset, and close it at the end.

    Args:
        ledger: Path or address of the ledger.
        dataset: Name of the dataset, if the ledger contains several.
        anchor: File with an earlier head of the chain, which the entries must still lead to; None to check nothing.

    Raises:
        InputError: There is no such ledger or dataset.
        LedgerError: The entries of the ledger no longer lead to the anchor.
    """
    from dpcli.ledger.stores.places import open_ledger

    with open_ledger(ledger, dataset) as book:
        if anchor is not None:
            from dpcli.ledger.verify import read_anchor, replay_all

            replay_all(book, read_anchor(anchor))
        try:
            yield book
        except InputError as error:
            raise _without_window_flag(error) from None


def answer(ledger: str, dataset: str | None, ask: Callable[[Ledger], Receipt], **output: Any) -> int:
    """Send a request to a ledger, print the receipt, and return the exit code."""
    from dpcli.cli.options import emit
    from dpcli.ledger.documents.ledger_answers import receipt

    with opened(ledger, dataset) as book:
        return emit(receipt(book, lambda: ask(book)), **output)


def _without_window_flag(error: InputError) -> InputError:
    """Return the error with --window replaced by the parameter that names blocks in this command, if it has no --window."""
    from dpcli.file.pipeline.datasets import without_flag

    context = click.get_current_context()
    flags = {flag for option in context.command.params for flag in option.opts}
    if type(error) is not InputError or "--window" in flags:
        return error
    parameter = "--within" if "--within" in flags else "BLOCKS" if "blocks" in flags else "window"
    alternative = {"import": ", or in the column window", "plan": ", or of the [[run]]"}.get(context.info_name or "", "")
    return InputError(without_flag(str(error), parameter, alternative))


def with_delta_judged(document: Document, ledger: Ledger, pipeline: Pipeline, path: str, delta: float | None) -> Document:
    """Return the document with the findings of lint rule DP105 on --delta and the ledger's delta. The charge does not depend on them."""
    from dpcli.lint.delta import judged_deltas
    from dpcli.lint.documents.diagnostics import note

    terms, size = ledger.state().open_terms(), pipeline.privacy.dataset_size
    size = terms.dataset_size if size is None else size
    cap = None if size is None else terms.delta  # a ledger opened without a size has been warned about
    problems = judged_deltas({"--delta": delta, "the ledger's delta": cap}, size, path)
    return replace(document, alerts=(*document.alerts, *map(note, problems))) if problems else document


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
    """Check whether a format is requested, on the terminal or as an output file."""
    return name == format_ or any(output.startswith(f"{name}=") for output in outputs)
