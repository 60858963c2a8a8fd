"""dpcli budget init."""

from __future__ import annotations

import click

from dpcli.cli.options import emit, output_options
from dpcli.ledger.commands.options import ledger_argument
from dpcli.ledger.plugin import BLOCKS, FILTERS


@click.command(short_help="Open the ledger of a dataset; its terms are fixed for good.")
@ledger_argument
@click.option("--dataset", metavar="NAME", help="Name of the dataset. [required]")
@click.option("--unit", help="What one individual is: user, example, ...; every run must state the same. [required]")
@click.option("--adjacency", help="add-remove | replace-one | zero-out; every run must state the same. [required]")
@click.option("--epsilon", type=float, help="The cap on epsilon of everything together. [required]")
@click.option("--ceiling", type=float, help="The largest cap that `amend` may set whatever outputs show; it is what is guaranteed.")
@click.option("--delta", type=float, help="Delta of the cap. [required]")
@click.option("--filter", "name", metavar="NAME", default="", help=f"What adds the runs up: {', '.join(FILTERS)}.")
@click.option("--order", type=float, help="Order of the rdp filter; the best for Gaussian-like runs where absent.")
@click.option("--slack", type=float, help="Share of delta that the advanced filter's conversion takes; half where absent.")
@click.option("--mode", type=click.Choice(["adaptive", "declared"]), default="adaptive", show_default=True, help="See above.")
@click.option("--declare", "plans", multiple=True, metavar="FILE[:RUNS]", help="A run of declared mode, and how often; repeatable.")
@click.option("--dataset-size", type=int, help="Number of records, declared public: delta must be below its inverse.")
@click.option("--data", multiple=True, metavar="FILE", help="A file of the data, for its fingerprint; repeatable, in any order.")
@click.option("--fingerprint", metavar="HASH", help="Of the data, instead of --data: the same data under another name is refused.")
@click.option("--new", is_flag=True, help="A dataset of its own, although its name looks like that of another one.")
@click.option("--blocks", type=click.Choice(list(BLOCKS)), help="Cut the dataset into blocks, each with a cap of its own.")
@click.option("--column", metavar="NAME", help="Blocks: what decides the block of a record.")
@click.option("--max-blocks", type=int, help="Blocks: in how many of them one unit's records may lie; 1 for a user-day.")
@click.option("--block", "names", multiple=True, metavar="NAME", help="A block, where they are by region; repeatable.")
@click.option("--block-count", "count", type=int, help="Number of blocks, where they are by a hash of the unit.")
@click.option("--two-person", is_flag=True, help="Another person has to approve each amend, void, quota and copy; fixed for good.")
@click.option("--team", metavar="ROLE", help="PostgreSQL: the role whose members may see and spend.")
@output_options("text", "total", "records")
def command(ledger: str, dataset: str | None, format_: str, outputs: tuple[str, ...], **terms: object) -> int:
    """Open LEDGER for one dataset. Unit, adjacency, delta and filter are fixed for good; only the cap can be amended.

    In adaptive mode (the default) a run may be chosen after looking at earlier outputs, and a privacy filter alone decides: rdp (Renyi DP
    at one order; for DP-SGD), zcdp (Gaussian and pure mechanisms without sampling), gdp (Gaussian noise without sampling: tightest),
    approx-dp (epsilons and deltas add up), advanced (squares of epsilon add up; many small runs).

    A cap that is raised after an output was seen bounds nothing. Who may need more later says so now: up to --ceiling the cap may be
    raised at any time, and the ceiling is guaranteed from the first day.

    With --blocks there is one budget per day, week, region or part of a hash: a run is charged on all blocks of its --window or on none.
    Epsilon and delta hold for the whole unit, whose records may lie in --max-blocks of them (dpcli explain ledger).

    --data reads the files of the data and notes their SHA-256, the fingerprint: the same contents under a second name would have a second
    budget, and are refused. Without --data or --fingerprint nobody would notice.

    With --two-person whoever asks for another cap, a quota, or a reservation back only proposes it: another person approves. PostgreSQL
    holds people to it by their logins. In a file the names of accounts are compared, which prove nothing to whoever may write the file.

    In declared mode the runs are fixed now, with --declare, and composed by the tightest sound accountant.
    """
    from dpcli.ledger.documents.ledger_answers import opening
    from dpcli.ledger.opening import open_with

    with open_with(ledger, dataset, terms) as found:
        return emit(opening(found), format_, outputs)
