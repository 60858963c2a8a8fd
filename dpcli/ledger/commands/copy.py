"""dpcli budget copy."""

from __future__ import annotations

import click

from dpcli.cli.options import emit, output_options
from dpcli.cli.picture import progress
from dpcli.ledger.commands.options import why_option


@click.command(short_help="Move datasets to another ledger, their chains as they are.")
@click.argument("ledger", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--dataset", "names", multiple=True, metavar="NAME", help="A dataset to move; repeatable. All of FROM where absent.")
@why_option
@click.option("--new", is_flag=True, help="Although the name of a dataset looks like that of another one in TO.")
@output_options("text", "records")
def command(ledger: str, target: str, names: tuple[str, ...], why: str, new: bool, format_: str, outputs: tuple[str, ...]) -> int:
    """Move datasets FROM one ledger TO another: from a file to PostgreSQL, back, or to another file. TO is made where there is none.

    Every entry is copied as it is, to the last byte, and checked while it is read. The dataset is then closed in FROM, which names the
    copy, and that one is opened in TO by an entry that says who copied it and from where. From then on it is charged in TO, and FROM
    refuses. The copy is verified at the end: its chain, and every cost. Where the command was stopped, the same command goes on.

    A dataset never returns to a ledger from which it has moved. TO must not have a dataset of that name, unless it holds a beginning of
    the same chain. In PostgreSQL an administrator of the ledger copies, into a dataset that is new there.

    In a ledger that was opened with --two-person the first call only proposes the move (exit code 4): once another person has approved it
    with `dpcli budget approve`, the same command makes it.

    Exit code 0: done, or done before. 1: done, and a cost is larger than what was charged. 4: refused, or damaged.
    """
    from dpcli.ledger.copying import all_of, copied
    from dpcli.ledger.documents.ledger_moves import moved

    with progress("entries") as said:
        found = [copied(ledger, target, name, why, new, said) for name in names or all_of(ledger)]
    return emit(moved(found), format_, outputs)
