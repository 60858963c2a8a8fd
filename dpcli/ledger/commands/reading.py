"""The `dpcli budget` commands that write nothing: show, log, export, anchor, verify, overview, windows and plan.

The docstring of a command is its help. Each command reads a ledger and prints what it finds as a *document* (dpcli/ledger/documents), which
is turned into the format of the flag -f. A *block* is a part of a dataset with a cap of its own, and a *window* is the list of blocks that
a run reads. `ledger` is the text of the argument LEDGER, and `book` the open `Ledger`.

If a command fails, its error replaces the files of an earlier run that -o names. With `outlives_errors` they stay, because an export or an
anchor may be the only copy.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from dpcli.base.errors import InputError
from dpcli.cli.options import PICTURES, emit, output_options, working
from dpcli.cli.printing import progress
from dpcli.ledger.commands.budget import (
    answer_options,
    dataset_option,
    delta_option,
    emit_pictured,
    ledger_argument,
    opened_ledger,
    subcommand,
    wants,
    with_delta_findings,
)
from dpcli.ledger.plugin import POLICIES

pictured_options = output_options("text", "total", "records", PICTURES)


@subcommand(
    "show",
    ledger_argument,
    dataset_option,
    click.option(
        "--odometer",
        is_flag=True,
        help="Also show an epsilon of what was spent so far that holds at every moment, even one chosen from outputs.",
    ),
    pictured_options,
)
def show(ledger: str, dataset: str | None, odometer: bool, format_: str, outputs: tuple[str, ...]) -> int:
    """Show what the dataset of LEDGER has spent: a bar, the share of each run, and how many more runs like the last one fit.

    -o x.svg draws a picture (also .png and .vl.json). It shows the used share of each block's cap, days as a calendar. Without blocks, it
    shows what remained of the cap by date. -o x.html is a page with both, and a table behind each picture.

    --odometer is at the ledger's delta. dpcli-ledger(7) says what it means, and why it may exceed the cap.
    """
    from dpcli.ledger.documents.ledger_balance import balance_document, picture

    with opened_ledger(ledger, dataset) as book:
        document = balance_document(book, pictured=wants("html", format_, outputs), with_odometer=odometer)
        return emit_pictured(document, lambda: picture(book), format_, outputs)


@subcommand("log", ledger_argument, dataset_option, output_options("table", "records", outlives_errors=True))
def log(ledger: str, dataset: str | None, **output: Any) -> int:
    """List every entry of LEDGER with its kind, run, cost, author, time (by the writer's clock) and reason."""
    from dpcli.ledger.documents import ledger_entries

    with opened_ledger(ledger, dataset) as book:
        return emit(ledger_entries.log(book), **output)


@subcommand("export", ledger_argument, dataset_option, output_options("json", "records", outlives_errors=True))
def export(ledger: str, dataset: str | None, **output: Any) -> int:
    """Print every entry of LEDGER in full.

    json and jsonl contain the canonical text of each entry and its hash. Anybody can check the chain without dpcli: each hash is the
    SHA-256 of the text, and each text contains the hash of the entry before.
    """
    from dpcli.ledger.documents import ledger_entries

    with opened_ledger(ledger, dataset) as book:
        return emit(ledger_entries.export(book), **output)


@subcommand("anchor", ledger_argument, dataset_option, output_options("json", outlives_errors=True))
def anchor(ledger: str, dataset: str | None, **output: Any) -> int:
    """Print the number and hash of the last entry of LEDGER.

    Store this anchor outside the ledger, for example in the repository of the pipeline. A chain that was restored from a backup looks
    valid, but `verify --anchor` finds that the anchored entry is missing.
    """
    from dpcli.ledger.documents import ledger_entries

    with opened_ledger(ledger, dataset) as book:
        return emit(ledger_entries.anchor(book), **output)


@subcommand(
    "verify",
    ledger_argument,
    dataset_option,
    click.option("--anchor", metavar="PATH", help="File that dpcli budget anchor wrote; the chain must contain its entry."),
    output_options("text", "records"),
)
def verify(ledger: str, dataset: str | None, anchor: str | None, **output: Any) -> int:
    """Check all of LEDGER: the database, the definitions that guard the entries, the hash chain, each entry, the checkpoint, and all costs.

    Each entry must be allowed in the state before it. Each cost is computed again by this version, under the unit, adjacency and
    dataset_size of the ledger. The command reads every entry, but keeps none in memory.

    A fault that `dpcli budget acknowledge` answered is printed, and does not count.

    Exit code 0: no fault. 1: a cost is larger than what was charged, or a run states other terms than the ledger's. 4: damaged, changed, or
    restored from a backup.
    """
    from dpcli.ledger import verify as checking
    from dpcli.ledger.documents.ledger_entries import verification_document

    with opened_ledger(ledger, dataset) as book, progress() as report:
        result = checking.verify(book, checking.read_anchor(anchor) if anchor else None, report)
        return emit(verification_document(book, result), **output)


@subcommand("overview", click.argument("ledgers", nargs=-1, required=True, metavar="LEDGER..."), answer_options)
def overview(ledgers: tuple[str, ...], format_: str, outputs: tuple[str, ...]) -> int:
    """List every dataset of each LEDGER, the fullest first.

    The columns are unit, adjacency, filter, cap, the used share (with blocks, of the fullest block), the reserved share, the last entry,
    and warnings. Each dataset is read from its last checkpoint on, so that a long history takes no more time. A dataset or ledger that
    cannot be read has a row before all others, and the exit code is then 4.

    -o x.html is a page to print or to keep, which needs no server. It also has what is left of each dataset, its quotas and last runs, and
    pictures of its blocks and of the remaining budget, each with its table. For them it reads every entry.
    """
    from dpcli.ledger.dataset_overview import overview
    from dpcli.ledger.documents.ledger_overview import overview_document

    balance_of = None
    if wants("html", format_, outputs):
        from dpcli.ledger.documents.ledger_balance import balance_document

        balance_of = partial(balance_document, pictured=True)
    unreadable, summaries = overview(ledgers, balance_of)
    return emit(overview_document(unreadable, summaries), format_, outputs)


@subcommand(
    "windows",
    ledger_argument,
    click.argument("file"),
    dataset_option,
    delta_option,
    click.option(
        "--within",
        "--window",
        "within",
        multiple=True,
        metavar="BLOCKS",
        help='The blocks to check, as 2026-01-01..2026-01-28 or "last 28 days"; repeatable. Default: all from the first to the last '
        "charged block.",
    ),
    answer_options,
)
def windows(ledger: str, file: str, dataset: str | None, delta: float | None, within: tuple[str, ...], **output: Any) -> int:
    """Show the blocks of LEDGER in which one run of the pipeline FILE still fits: all, the widest window, the latest. Nothing is written.

    Exit code 1 if the run fits in none of the checked blocks. Blocks that were never charged have their full budget.
    """
    from dpcli.file.pipeline.read import load
    from dpcli.ledger.blocks.room import block_room
    from dpcli.ledger.documents import ledger_blocks

    pipeline = load(file)
    with opened_ledger(ledger, dataset) as book:
        document = ledger_blocks.windows_document(book, block_room(book, pipeline, within, delta))
        return emit(with_delta_findings(document, book, pipeline, file, delta), **output)


@subcommand(
    "plan",
    ledger_argument,
    click.argument("file", metavar="SCHEDULE"),
    dataset_option,
    click.option("--policy", type=click.Choice(POLICIES), default=POLICIES[0], show_default=True, help="Order of the runs."),
    click.option(
        "--shares",
        type=click.IntRange(min=1),
        metavar="N",
        help="Number of fair shares, with --policy unlock. Default: the largest number of runs on one block.",
    ),
    pictured_options,
)
def plan(
    ledger: str, file: str, dataset: str | None, policy: str, shares: int | None, format_: str, outputs: tuple[str, ...]
) -> int:
    """Show which runs of SCHEDULE fit, in the order of their days and after what LEDGER has spent by now. Nothing is written.

    SCHEDULE is a TOML file of [[run]] tables, described in dpcli-schedule(5). A table states a pipeline file, how often it is run, the
    first and the last day, and the blocks that it reads, for example window = "last 28 days". The cost of each file is computed once. A run
    that does not fit is left out, and the runs after it are still requested, as the ledger itself would treat them.

    The output states the first run that does not fit and by how much, the share that is used at the end, and changes with which all runs
    would fit. If all runs fit, it states how long the budget lasts if the schedule continues. -o x.svg draws the blocks at the end of the
    plan or, without blocks, what each run leaves.

    --policy states the order in which runs are offered to the ledger, and the output then compares it with the order of their days (fcfs).
    The ledger decides about each of them, so that no order exceeds a cap. unlock divides what is left of each block into N fair shares,
    and each run that reads the block unlocks one. A run waits until it fits in what is unlocked, and the run with the smallest dominant
    share comes first. A run that needs at most one share of each of its blocks, and is among the first N on them, never waits (Luo et al.
    2021); what fewer than N runs leave locked stays unused. dpack prefers the runs that take the smallest shares of what is left on their
    blocks (Tholoniat et al. 2022), so that more runs fit in most schedules, though not in all. A ledger grants runs in the order of the
    requests: `dpcli budget reserve` keeps another order.

    Exit code 0 if all runs fit, 1 if a run does not fit.
    """
    from dpcli.ledger.documents.ledger_plan import picture, plan_document
    from dpcli.ledger.planning.plan_changes import changes_of_plan
    from dpcli.ledger.planning.plan_rehearsal import outlook_of, plan_of
    from dpcli.ledger.planning.policies import plan_by_policy
    from dpcli.ledger.planning.schedule import read_schedule

    if shares is not None and policy != "unlock":
        raise InputError(f"--shares: only with --policy unlock, found --policy {policy}")
    schedule = read_schedule(file)
    with opened_ledger(ledger, dataset) as book, working():  # prints a notice if it takes long
        rehearsed = plan_by_policy(plan_of(book, schedule), policy, shares)
        by_days = rehearsed.first_come is None  # changes and an outlook are computed for the order of the days alone
        changes, outlook = (changes_of_plan(book, rehearsed), outlook_of(rehearsed)) if by_days else ((), None)
        document = plan_document(rehearsed, changes, outlook, pictured=wants("html", format_, outputs))
    return emit_pictured(document, lambda: picture(rehearsed), format_, outputs)
