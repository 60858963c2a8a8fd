"""What the subcommands of `dpcli budget` share."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from dpcli.base.errors import InputError
from dpcli.cli.options import composed, output_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpcli.document.chart import Chart
    from dpcli.document.document import Document
    from dpcli.file.pipeline.model import Pipeline
    from dpcli.ledger.ledger import Ledger

ledger_argument = click.argument("ledger")
dataset_option = click.option("--dataset", metavar="NAME", help="The dataset, where LEDGER holds several.")
key_option = click.option("--key", required=True, metavar="NAME", help="The run's name: a retry under it is not charged again.")
delta_option = click.option("--delta", type=float, help="Delta at which the run is described, instead of the file's.")
why_option = click.option("--reason", "why", default="", metavar="TEXT", help="Why, for those who read the log.")
window_option = click.option(
    "--window",
    "window",
    multiple=True,
    metavar="BLOCKS",
    help='The blocks that it reads, as 2026-01-01..2026-01-28, "last 28 days" (up to yesterday in UTC) or one name; repeatable. Needed '
    "where the dataset is cut into blocks.",
)
others_option = click.option(
    "--reason", "why", default="", metavar="TEXT", help="Why: needed where somebody else made the reservation."
)


ending_option = click.option(
    "--reason",
    "why",
    default="",
    metavar="TEXT",
    help="Why: needed where somebody else made the reservation, or nobody started it.",
)
proposing_option = click.option(
    "--expires",
    metavar="TIME",
    help="In a ledger of two persons: ISO time (UTC) or days (14d) until which it can be approved; 7d where absent.",
)


def raising_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what is stated of outputs where a cap changes."""
    options: Callable[[Callable[..., Any]], Callable[..., Any]] = composed(
        click.option("--no-output-seen", "unseen", is_flag=True, help="Raise the cap: whoever decides it has seen no output."),
        click.option(
            "--acknowledge", is_flag=True, help="Raise it without a guarantee, or lower it, which guarantees nothing less."
        ),
    )
    return options(command)


def answering(reason: str) -> Callable[..., Any]:
    """LEDGER ENTRY --reason and the output options."""
    return composed(
        ledger_argument,
        click.argument("entry", type=int),
        dataset_option,
        click.option("--reason", "why", required=True, metavar="TEXT", help=reason),
        output_options("text", "total", "records"),
    )


def charging(*extra: Callable[..., Any]) -> Callable[..., Any]:
    """LEDGER FILE --key ... and the output options."""
    return composed(
        ledger_argument,
        click.argument("file"),
        key_option,
        dataset_option,
        delta_option,
        why_option,
        window_option,
        click.option("--anchor", metavar="PATH", help="Read all entries, and refuse where they no longer lead to this anchor."),
        *extra,
        output_options("text", "total", "records"),
    )


def with_delta_told(document: Document, ledger: Ledger, pipeline: Pipeline, path: str, delta: float | None) -> Document:
    """The answer about a run, with what DP105 says of --delta, at which it is described, and of the ledger's; the charge is right
    whatever these are."""
    from dpcli.lint.delta import judged_deltas
    from dpcli.lint.documents.diagnostics import note

    terms, size = ledger.state().open_terms(), pipeline.privacy.dataset_size
    size = terms.dataset_size if size is None else size
    cap = None if size is None else terms.delta  # whoever opened it without a size was told
    told = judged_deltas({"--delta": delta, "the ledger's delta": cap}, size, path)
    return replace(document, alerts=(*document.alerts, *map(note, told))) if told else document


def moving(*extra: Callable[..., Any]) -> Callable[..., Any]:
    """LEDGER KEY and the output options."""
    return composed(ledger_argument, click.argument("key"), dataset_option, *extra, output_options("text", "total", "records"))


def reading(default: str, *holds: str, kept: bool = False) -> Callable[..., Any]:
    """LEDGER and the output options."""
    return composed(ledger_argument, dataset_option, output_options(default, *holds, kept=kept))


@contextmanager
def opened(ledger: str, dataset: str | None, anchor: str | None = None) -> Iterator[Ledger]:
    """The ledger of a dataset, closed at the end; refused where its entries no longer lead to the anchor in a file."""
    from dpcli.ledger.stores.places import open_ledger

    with open_ledger(ledger, dataset) as found:
        if anchor is not None:
            from dpcli.ledger.verify import read_anchor, replayed

            replayed(found, read_anchor(anchor))
        try:
            yield found
        except InputError as error:
            raise _of_this_command(error) from None


def _of_this_command(error: InputError) -> InputError:
    """The same of a command with --window; of another one, which says what it has for the blocks, in its words."""
    from dpcli.file.pipeline.datasets import without_flag

    context = click.get_current_context()
    flags = {flag for one in context.command.params for flag in one.opts}
    if type(error) is not InputError or "--window" in flags:
        return error
    name = "--within" if "--within" in flags else "BLOCKS" if "blocks" in flags else "window"
    instead = {"import": ", or in the column window", "plan": ", or of the [[run]]"}.get(context.info_name or "", "")
    return InputError(without_flag(str(error), name, instead))


def emit_pictured(document: Document, picture: Callable[[], Chart], format_: str, outputs: tuple[str, ...]) -> int:
    """`emit`, and the picture to whatever of the outputs is one."""
    from dpcli.cli.options import emit
    from dpcli.cli.outputs import parted

    pictures, documents = parted(outputs)
    if pictures:
        from dpcli.cli.picture import show

        show(picture(), None, pictures)
    return emit(document, format_, documents)


def wants(name: str, format_: str, outputs: tuple[str, ...]) -> bool:
    """Whether a format is asked for."""
    return name == format_ or any(output.startswith(f"{name}=") for output in outputs)
