"""The commands `dpcli budget init`, import, copy and upgrade: open a ledger, fill it with past runs, or move it."""

from __future__ import annotations

from typing import Any

import click

from dpcli.cli.options import emit, output_options
from dpcli.cli.printing import progress
from dpcli.ledger.commands.budget import answer_options, dataset_option, ledger_argument, opened, reason_option, subcommand
from dpcli.ledger.plugin import BLOCKS, FILTERS


@subcommand(
    "init",
    ledger_argument,
    click.option("--dataset", metavar="NAME", help="Name of the dataset. [required]"),
    click.option("--unit", help="What one individual is: user, example, ...; every run must state the same. [required]"),
    click.option("--adjacency", help="add-remove | replace-one | zero-out; every run must state the same. [required]"),
    click.option("--epsilon", type=float, help="The cap on epsilon of everything together. [required]"),
    click.option(
        "--ceiling", type=float, help="The largest cap that `amend` may set whatever outputs show; it is what is guaranteed."
    ),
    click.option("--delta", type=float, help="Delta of the cap. [required]"),
    click.option("--filter", "name", metavar="NAME", default="", help=f"What adds the runs up: {', '.join(FILTERS)}."),
    click.option("--order", type=float, help="Order of the rdp filter; the best for Gaussian-like runs where absent."),
    click.option("--slack", type=float, help="Share of delta that the advanced filter's conversion takes; half where absent."),
    click.option("--mode", type=click.Choice(["adaptive", "declared"]), default="adaptive", show_default=True, help="See above."),
    click.option(
        "--declare", "plans", multiple=True, metavar="FILE[:RUNS]", help="A run of declared mode, and how often; repeatable."
    ),
    click.option("--dataset-size", type=int, help="Number of records, declared public: delta must be below its inverse."),
    click.option(
        "--data", multiple=True, metavar="FILE", help="A file of the data, for its fingerprint; repeatable, in any order."
    ),
    click.option(
        "--fingerprint", metavar="HASH", help="Of the data, instead of --data: the same data under another name is refused."
    ),
    click.option("--blocks", type=click.Choice(list(BLOCKS)), help="Cut the dataset into blocks, each with a cap of its own."),
    click.option("--column", metavar="NAME", help="Blocks: what decides the block of a record."),
    click.option("--max-blocks", type=int, help="Blocks: in how many of them one unit's records may lie; 1 for a user-day."),
    click.option("--block", "names", multiple=True, metavar="NAME", help="A block, where they are by region; repeatable."),
    click.option("--block-count", "count", type=int, help="Number of blocks, where they are by a hash of the unit."),
    click.option(
        "--two-person", is_flag=True, help="Another person has to approve each amend, void, quota and copy; fixed for good."
    ),
    click.option("--team", metavar="ROLE", help="PostgreSQL: the role whose members may see and spend."),
    answer_options,
)
def init(ledger: str, dataset: str | None, format_: str, outputs: tuple[str, ...], **terms: object) -> int:
    """Open LEDGER for one dataset. Unit, adjacency, delta and filter are fixed for good; only the cap can be amended.

    In adaptive mode (the default) a run may be chosen after looking at earlier outputs, and a privacy filter alone decides: rdp (Renyi DP
    at one order; for DP-SGD), zcdp (Gaussian and pure mechanisms without sampling), gdp (Gaussian noise without sampling: tightest),
    approx-dp (epsilons and deltas add up), advanced (squares of epsilon add up; many small runs).

    A cap that is raised after an output was seen bounds nothing. Whoever may need more later says so now: up to --ceiling the cap may be
    raised at any time, and the ceiling is guaranteed from the first day.

    With --blocks there is one budget per day, week, region or part of a hash: a run is charged on all blocks of its --window or on none.
    Epsilon and delta hold for the whole unit, whose records may lie in --max-blocks of them (dpcli explain ledger).

    --data reads the files of the data and notes their SHA-256, the fingerprint: the same contents under a second name would have a second
    budget, and are refused. Without --data or --fingerprint nobody would notice.

    With --two-person whoever asks for another cap, a quota, or a reservation back only proposes it: another person approves. PostgreSQL
    holds people to it by their logins. In a file the names of accounts are compared, which prove nothing to whoever may write the file.

    In declared mode the runs are fixed now, with --declare, and composed by the tightest sound accountant.
    """
    from dpcli.ledger.documents.ledger_answers import opening_document
    from dpcli.ledger.opening import open_from_flags

    with open_from_flags(ledger, dataset, terms) as book:
        return emit(opening_document(book), format_, outputs)


@subcommand("import", ledger_argument, click.argument("history"), dataset_option, answer_options)
def history(ledger: str, history: str, dataset: str | None, **output: Any) -> int:
    """Charge the runs in HISTORY to LEDGER, all of them or none: a csv, or json lines where its name ends in .jsonl.

    Its columns are date and key; file (a pipeline, from the folder of HISTORY), or the guarantee that was stated for one unit: epsilon,
    with or without delta, or rho, and the unit and adjacency that it was stated for; who, note, and window (BLOCKS;BLOCKS) where the
    dataset has blocks. delta next to a file or a rho is where the run is described. Entries say when the run was made and by whom, and
    who imported it.

    HISTORY has at most 1,000 runs. One that is in the ledger already, under its key and in the same words, is not charged again. What was
    spent is spent: a history that does not fit is refused as a whole, and the message says which cap holds it. dpcli budget amend sets
    that, with an approver.

    Exit code 0: done, or nothing to do. 1: it does not fit, and nothing was written. 2: a line is wrong. 4: a key is another run's.
    """
    from dpcli.ledger.documents.ledger_answers import import_document
    from dpcli.ledger.history import charge_history
    from dpcli.ledger.history_file import read_history

    with opened(ledger, dataset) as book:
        runs = read_history(history, book.now())
        return emit(import_document(book, lambda: charge_history(book, runs)), **output)


@subcommand(
    "copy",
    click.argument("ledger", metavar="FROM"),
    click.argument("target", metavar="TO"),
    click.option(
        "--dataset", "names", multiple=True, metavar="NAME", help="A dataset to move; repeatable. All of FROM where absent."
    ),
    reason_option("Why, for those who read the log."),
    output_options("text", "records"),
)
def copy(ledger: str, target: str, names: tuple[str, ...], why: str, **output: Any) -> int:
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
    from dpcli.ledger.documents.ledger_entries import move_document
    from dpcli.ledger.stores.copying import dataset_names, move_dataset

    with progress("entries") as report:
        copies = [move_dataset(ledger, target, name, why, report) for name in names or dataset_names(ledger)]
    return emit(move_document(copies), **output)


@subcommand("upgrade", ledger_argument, output_options("text"))
def upgrade(ledger: str, **output: Any) -> int:
    """Make what guards the entries of LEDGER again as this version of dpcli has it, and note it in the chain of every dataset.

    Entries stay as they are. A database is upgraded by the owner of the schema, and refuses earlier versions from then on; datasets that
    are hidden from the owner are noted by an administrator of theirs, who runs it too.

    Exit code 0: done, or nothing to do. 4: the user may not, or the checks were changed by somebody else.
    """
    from dpcli.ledger.documents.ledger_entries import upgrade_document
    from dpcli.ledger.stores import places

    return emit(upgrade_document(places.upgrade(ledger)), **output)
