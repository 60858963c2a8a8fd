"""The commands `dpcli budget init`, import, copy and upgrade, which open, fill, move or upgrade a ledger.

The docstring of a command is its help. The work is done in dpcli/ledger/opening.py (init), history.py (import), stores/copying.py (copy)
and stores/places.py (upgrade). A *history* is a file of runs that were made before the ledger was opened. The *definitions* are the tables,
triggers and SQL functions that guard the entries of a ledger in their file or database. The answer of a command is a *document*
(dpcli/ledger/documents), which is turned into the format of the flag -f. `ledger` is the text of the argument LEDGER, and `book` the open
`Ledger`.
"""

from __future__ import annotations

from typing import Any

import click

from dpcli.cli.options import emit, output_options
from dpcli.cli.printing import progress
from dpcli.ledger.commands.budget import answer_options, dataset_option, ledger_argument, opened_ledger, reason_option, subcommand
from dpcli.ledger.plugin import BLOCKS, FILTERS


@subcommand(
    "init",
    ledger_argument,
    click.option("--dataset", metavar="NAME", help="Name of the dataset. [required]"),
    click.option("--unit", help="Unit of privacy: user, example, ...; every run must state this unit. [required]"),
    click.option("--adjacency", help="add-remove | replace-one | zero-out; every run must state this adjacency. [required]"),
    click.option("--epsilon", type=float, help="Cap on the epsilon of all runs together. [required]"),
    click.option(
        "--ceiling", type=float, help="Largest cap that `amend` may set even because of outputs; this epsilon is guaranteed."
    ),
    click.option("--delta", type=float, help="Delta of the cap. [required]"),
    click.option("--filter", metavar="NAME", default="", help=f"Privacy filter that adds up the runs: {', '.join(FILTERS)}."),
    click.option("--order", type=float, help="Order of the rdp filter; default: the best order for Gaussian noise."),
    click.option(
        "--slack", type=float, help="Part of delta that the conversion of the advanced filter uses up; default: half of it."
    ),
    click.option("--mode", type=click.Choice(["adaptive", "declared"]), default="adaptive", show_default=True, help="See above."),
    click.option(
        "--declare",
        multiple=True,
        metavar="FILE[:RUNS]",
        help="A run of declared mode, and the number of runs; repeatable.",
    ),
    click.option("--dataset-size", type=int, help="Number of records, if it is public; delta must be below its inverse."),
    click.option(
        "--data", multiple=True, metavar="FILE", help="A file of the data, for its fingerprint; repeatable, in any order."
    ),
    click.option(
        "--fingerprint",
        metavar="HASH",
        help="Fingerprint of the data, instead of --data; data with a known fingerprint are refused.",
    ),
    click.option("--blocks", type=click.Choice(list(BLOCKS)), help="Cut the dataset into blocks, each with its own cap."),
    click.option("--column", metavar="NAME", help="Blocks: the column that determines the block of a record."),
    click.option("--max-blocks", type=int, help="Blocks: the largest number of blocks with records of one unit; 1 for a user-day."),
    click.option("--block", multiple=True, metavar="NAME", help="Name of a block, for blocks by region; repeatable."),
    click.option("--block-count", type=int, help="Number of blocks, for blocks by a hash of the unit."),
    click.option(
        "--two-person",
        is_flag=True,
        help="Another person has to approve each amend, void, quota, rate, copy and acknowledge; cannot be changed.",
    ),
    click.option("--team", metavar="ROLE", help="PostgreSQL: role whose members may see and charge the dataset."),
    answer_options,
)
def init(ledger: str, dataset: str | None, format_: str, outputs: tuple[str, ...], **terms: object) -> int:
    """Open LEDGER for one dataset. Unit, adjacency, delta and filter cannot be changed later; only the cap can be amended.

    In adaptive mode (the default) a run may be chosen after looking at earlier outputs, and a privacy filter decides whether it fits. The
    filters are rdp (Renyi DP at one order; for DP-SGD), zcdp (Gaussian and pure mechanisms without sampling), gdp (Gaussian noise without
    sampling; tightest), approx-dp (epsilons and deltas add up) and advanced (squares of epsilon add up; for many small runs).

    If the cap is raised because of an output, nothing is guaranteed. If you may need a larger cap later, state it now as --ceiling. The cap
    may be raised up to the ceiling at any time, and the ceiling is guaranteed from the beginning.

    With --blocks each day, week, region or part of a hash has its own budget. A run is charged on all blocks of its --window or on none.
    Epsilon and delta hold for the whole unit, whose records may lie in up to --max-blocks blocks (dpcli explain ledger).

    --data reads the files of the data and records their fingerprint, a SHA-256. Data with a known fingerprint are refused, because they
    would get a second budget under a second name. Without --data or --fingerprint this cannot be noticed.

    With --two-person a request for another cap, for a quota or to void a reservation is only a proposal, which another person has to
    approve. PostgreSQL distinguishes people by their logins. In a file the names of accounts are compared, which anybody who can write the
    file can forge.

    In declared mode the runs are fixed now, with --declare, and composed by the tightest sound accountant.
    """
    from dpcli.ledger.documents.ledger_answers import opening_document
    from dpcli.ledger.opening import open_from_flags

    with open_from_flags(ledger, dataset, terms) as book:
        return emit(opening_document(book), format_, outputs)


@subcommand("import", ledger_argument, click.argument("history"), dataset_option, answer_options)
def history(ledger: str, history: str, dataset: str | None, **output: Any) -> int:
    """Charge the runs in HISTORY to LEDGER, all of them or none. HISTORY is a csv file, or json lines if its name ends in .jsonl.

    Each line has a date and a key. It names the file of a pipeline, relative to the folder of HISTORY, or states the guarantee of the run:
    epsilon with or without delta, or rho, with the unit and adjacency of the guarantee. With a file or a rho, delta is the delta at which
    the run is described. Further columns are who, note and, if the dataset has blocks, window (BLOCKS;BLOCKS). The entries state when and
    by whom a run was made, and who imported it.

    HISTORY has at most 1,000 runs. A run that is in the ledger already, with this key and content, is not charged again. A history that
    does not fit is refused as a whole, and the message states a cap that would suffice. dpcli budget amend sets such a cap, with an
    approver.

    Exit code 0: done, or nothing to do. 1: the history does not fit; nothing was written. 2: a line is wrong. 4: a key belongs to another
    run.
    """
    from dpcli.ledger.documents.ledger_answers import import_document
    from dpcli.ledger.history import charge_history
    from dpcli.ledger.history_file import read_history

    with opened_ledger(ledger, dataset) as book:
        runs = read_history(history, book.now())
        return emit(import_document(book, lambda: charge_history(book, runs)), **output)


@subcommand(
    "copy",
    click.argument("ledger", metavar="FROM"),
    click.argument("target", metavar="TO"),
    click.option(
        "--dataset", "names", multiple=True, metavar="NAME", help="Dataset to move; repeatable. Default: all datasets of FROM."
    ),
    reason_option("Reason, for the log."),
    output_options("text", "records"),
)
def copy(ledger: str, target: str, names: tuple[str, ...], why: str, **output: Any) -> int:
    """Move datasets FROM one ledger TO another: from a file to PostgreSQL, back, or to another file. TO is created if it does not exist.

    Every entry is checked and copied without a change. The dataset is then closed in FROM by an entry that names the copy. The copy is
    opened in TO by an entry that states who copied it and from where. From then on the dataset is charged in TO, and FROM refuses charges.
    At the end the copy is verified, with its chain and every cost. If the command was interrupted, repeat it to complete the move.

    A dataset cannot return to a ledger from which it has moved. TO must not have a dataset of that name, unless it has the beginning of
    the same chain. In PostgreSQL only an administrator of the ledger can copy.

    In a ledger that was opened with --two-person the first call only proposes the move (exit code 4). After another person has approved the
    proposal with `dpcli budget approve`, the same command moves the dataset.

    Exit code 0: done now or before. 1: done, but a cost is larger than what was charged. 4: refused, or damaged.
    """
    from dpcli.ledger.documents.ledger_entries import move_document
    from dpcli.ledger.stores.copying import dataset_names, move_dataset

    with progress("entries") as report:
        copies = [move_dataset(ledger, target, name, why, report) for name in names or dataset_names(ledger)]
    return emit(move_document(copies), **output)


@subcommand("upgrade", ledger_argument, output_options("text"))
def upgrade(ledger: str, **output: Any) -> int:
    """Renew the definitions that guard the entries of LEDGER, as this version of dpcli has them, and record this for every dataset.

    Entries do not change. The owner of the schema upgrades a database, which afterwards refuses earlier versions of dpcli. If datasets are
    hidden from the owner, an administrator who can see them runs this command too, to record the upgrade.

    Exit code 0: done, or nothing to do. 4: the user may not upgrade, or somebody has changed the definitions.
    """
    from dpcli.ledger.documents.ledger_entries import upgrade_document
    from dpcli.ledger.stores import places

    return emit(upgrade_document(places.upgrade(ledger)), **output)
