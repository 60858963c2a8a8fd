"""The `dpcli budget` commands that write nothing: show, log, export, anchor, verify, overview, windows and plan."""

from __future__ import annotations

from typing import Any

import click

from dpcli.cli.options import PICTURES, emit, output_options, working
from dpcli.cli.printing import progress
from dpcli.ledger.commands.budget import (
    answer_options,
    dataset_option,
    delta_option,
    emit_pictured,
    ledger_argument,
    opened,
    subcommand,
    wants,
    with_delta_judged,
)

pictured_options = output_options("text", "total", "records", PICTURES)


@subcommand("show", ledger_argument, dataset_option, pictured_options)
def show(ledger: str, dataset: str | None, format_: str, outputs: tuple[str, ...]) -> int:
    """Show what the dataset of LEDGER has spent: the bar, each run's share, how many more like the last fit.

    -o x.svg draws it (.png and .vl.json too): blocks by the share of their caps that is used, days as a calendar; without blocks, what each
    entry left of the cap. -o x.html is a page with both.
    """
    from dpcli.ledger.documents.ledger_balance import balance_document, picture

    with opened(ledger, dataset) as book:
        document = balance_document(book, wants("html", format_, outputs))
        return emit_pictured(document, lambda: picture(book), format_, outputs)


@subcommand("log", ledger_argument, dataset_option, output_options("table", "records", outlives_errors=True))
def log(ledger: str, dataset: str | None, **output: Any) -> int:
    """List every entry of LEDGER: what, which run, what it cost, who, when (by the writer's clock) and why."""
    from dpcli.ledger.documents import ledger_entries

    with opened(ledger, dataset) as book:
        return emit(ledger_entries.log(book), **output)


@subcommand("export", ledger_argument, dataset_option, output_options("json", "records", outlives_errors=True))
def export(ledger: str, dataset: str | None, **output: Any) -> int:
    """Print every entry of LEDGER in full.

    json and jsonl carry the canonical text of each entry and its hash, so that anybody can check the chain without dpcli: each hash is the
    SHA-256 of the text, and each text names the hash before it.
    """
    from dpcli.ledger.documents import ledger_entries

    with opened(ledger, dataset) as book:
        return emit(ledger_entries.export(book), **output)


@subcommand("anchor", ledger_argument, dataset_option, output_options("json", outlives_errors=True))
def anchor(ledger: str, dataset: str | None, **output: Any) -> int:
    """Print the number and hash of the last entry of LEDGER. Keep it where the ledger is not (the repository of the pipeline, say):
    no chain can tell by itself that it was restored from a backup, and `verify --anchor` can."""
    from dpcli.ledger.documents import ledger_entries

    with opened(ledger, dataset) as book:
        return emit(ledger_entries.anchor(book), **output)


@subcommand(
    "verify",
    ledger_argument,
    dataset_option,
    click.option("--anchor", metavar="PATH", help="What dpcli budget anchor wrote: the chain must still contain it."),
    output_options("text", "records"),
)
def verify(ledger: str, dataset: str | None, anchor: str | None, **output: Any) -> int:
    """Check LEDGER from end to end: the database, the definitions that guard the entries, the hash chain, whether each entry was allowed
    where it stands, the totals that were noted with the entries, and every cost, computed again by this version under the ledger's own
    unit, adjacency and dataset_size. It reads everything, which nothing else does, and holds none of it.

    Exit code 0: all is well. 1: a cost is larger than what was charged, or a run was stated under other terms than the ledger's.
    4: damaged, changed, or restored from a backup.
    """
    from dpcli.ledger import verify as checking
    from dpcli.ledger.documents.ledger_entries import verification_document

    with opened(ledger, dataset) as book, progress() as report:
        result = checking.verify(book, checking.read_anchor(anchor) if anchor else None, report)
        return emit(verification_document(book, result), **output)


@subcommand("overview", click.argument("ledgers", nargs=-1, required=True, metavar="LEDGER..."), answer_options)
def overview(ledgers: tuple[str, ...], **output: Any) -> int:
    """List every dataset of each LEDGER: unit, adjacency, filter, cap, the share that is used (with blocks, of the fullest one), what is
    reserved, the last entry, and what somebody should look at. The fullest come first.

    Each is read from its last checkpoint on, whatever its history. A dataset or a ledger that cannot be read has a row that says so, before
    all others; the exit code is 4 then.
    """
    from dpcli.ledger.dataset_overview import overview
    from dpcli.ledger.documents.ledger_overview import overview_document

    return emit(overview_document(*overview(ledgers)), **output)


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
        help='The blocks to look at, as 2026-01-01..2026-01-28 or "last 28 days"; repeatable. Absent: all from the first to the last that '
        "was charged.",
    ),
    answer_options,
)
def windows(ledger: str, file: str, dataset: str | None, delta: float | None, within: tuple[str, ...], **output: Any) -> int:
    """Say which windows of LEDGER still have room for one run of the pipeline FILE: all, the widest, the latest. Nothing is written.

    Exit code 1 where none that was looked at has. Blocks that were never charged are whole.
    """
    from dpcli.file.pipeline.read import load
    from dpcli.ledger.blocks.room import block_room
    from dpcli.ledger.documents import ledger_blocks

    pipeline = load(file)
    with opened(ledger, dataset) as book:
        document = ledger_blocks.windows_document(book, block_room(book, pipeline, within, delta))
        return emit(with_delta_judged(document, book, pipeline, file, delta), **output)


@subcommand("plan", ledger_argument, click.argument("file", metavar="SCHEDULE"), dataset_option, pictured_options)
def plan(ledger: str, file: str, dataset: str | None, format_: str, outputs: tuple[str, ...]) -> int:
    """Walk the runs of SCHEDULE through the calendar, from what LEDGER has spent by now, and say which fit. Nothing is written.

    SCHEDULE is a TOML file of [[run]] tables, in dpcli-schedule(5): which pipeline file, how often, from when to when, and which blocks
    it reads, as window = "last 28 days". Each file is priced once. A run that does not fit is left out, and the next ones are asked for
    all the same, as the ledger itself would do.

    Printed are the first run that does not fit and by how much, what is used at the end, what would fit instead, and, where all fit, how
    long the budget lasts if the schedule goes on. -o x.svg draws the blocks at the end of the plan; without blocks, what each run leaves.

    Exit code 0 where all runs fit, 1 where one does not.
    """
    from dpcli.ledger.documents.ledger_plan import picture, plan_document
    from dpcli.ledger.planning.plan_changes import instead_of
    from dpcli.ledger.planning.plan_rehearsal import outlook_of, plan_of
    from dpcli.ledger.planning.schedule import read_schedule

    schedule = read_schedule(file)
    with opened(ledger, dataset) as book, working():
        rehearsed = plan_of(book, schedule)
        document = plan_document(rehearsed, instead_of(book, rehearsed), outlook_of(rehearsed), wants("html", format_, outputs))
    return emit_pictured(document, lambda: picture(rehearsed), format_, outputs)
