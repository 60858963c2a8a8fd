"""The command group `dpcli pate`: label public data by noisy votes of teachers, and train a student."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from dpcli.base.errors import InputError
from dpcli.cli.groups import LazyGroup
from dpcli.cli.options import emit, output_options, working
from dpcli.cli.printing import progress
from dpcli.sessions.commands.predicting import charged_ledger

if TYPE_CHECKING:
    from dpcli.predict.pate.pate_plan import VotingPlan

SUBCOMMANDS: dict[str, tuple[str, str]] = {
    "fit": ("dpcli.predict.commands.pate:fit", "Train the teachers, each on its shard, and keep their votes."),
    "label": ("dpcli.predict.commands.pate:label", "Answer the queries with noise, and leave labels and a statement."),
    "student": ("dpcli.predict.commands.pate:student", "Learn from the labels, and measure on public data."),
    "account": ("dpcli.predict.commands.pate:account", "What the labels cost, whatever the votes are and given the votes."),
}


@click.group(cls=LazyGroup, table=SUBCOMMANDS, short_help="Labels by the noisy votes of teachers, and a student (PATE).")
def command() -> None:
    """Label public data by the noisy votes of teachers that were trained on disjoint shards of private data (PATE).

    The [[mechanism]] entry of FILE says how much noise the votes get and how many queries are put: gnmax, confident-gnmax or lnmax. Its
    [pate] table says where the votes come from and what learns from the labels.
    """


@click.command(short_help=SUBCOMMANDS["fit"][1])
@click.argument("file")
@click.option("--jobs", type=click.IntRange(1), help="Processes, each with one thread [default: one for each core; 1 by torchrun].")
@output_options("text")
def fit(file: str, jobs: int | None, format_: str, outputs: tuple[str, ...]) -> int:
    """Train the teachers of FILE without noise, each on the records of a shard of its own, and keep their votes on every query.

    All records of a unit of privacy are in one shard, which depends on that unit alone. A teacher leaves nothing but its votes, which are
    private: nothing here is charged, and nothing here may be published. What was fitted is not fitted again: the same command goes on where
    it was stopped.

    Teachers of torch may be spread over processes: torchrun --nproc-per-node N -m dpcli pate fit FILE. Each fits a part of them, in one
    folder that all of them see; LOCAL_RANK in the environment says which GPU is whose.
    """
    import os

    from dpcli.predict.documents.pate import fitted
    from dpcli.predict.pate.pate_plan import plan_of
    from dpcli.predict.pate.teachers import fit
    from dpcli.train.run.processes import first_process, several_processes

    plan = plan_of(file)
    with progress("teachers") if first_process() else nullcontext(lambda done, total: None) as report:
        try:
            teachers = fit(plan, jobs or (1 if several_processes() else os.cpu_count() or 1), report)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("teachers that were fitted are kept, and the same command goes on with the others") from None
    return emit(fitted(plan, teachers), format_, outputs) if first_process() else 0


@click.command(short_help=SUBCOMMANDS["label"][1])
@click.argument("file")
@charged_ledger("Charge this ledger before the first noise.")
@click.option("--moved", is_flag=True, help="The folder was moved here from another place, which is gone.")
@click.option("--insecure-seed", type=click.IntRange(min=0), help="Reproducible noise, for debugging: NOT PRIVATE.")
@output_options("text", "total")
def label(
    file: str,
    ledger: str | None,
    dataset: str | None,
    window: tuple[str, ...],
    moved: bool,
    insecure_seed: int | None,
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """Put the queries of FILE to the teachers, or to a file of their votes, and leave the labels that come out of the noise.

    Every query is charged before its noise is drawn, whether or not it is then answered. No query is put twice: an interrupted session
    continues with the next query, a copied folder is refused, and a session that has ended returns the labels it already released. It
    stops at the number of answers that the entry allows, or that the budget allows; both are fixed before a vote is seen.

    Exit code 1 where the budget or the ledger says no, 2 where there are no votes, 130 where it was interrupted.
    """
    from dpcli.predict.documents.pate import labelled
    from dpcli.predict.pate.learners import predictor
    from dpcli.predict.pate.pate_plan import plan_of
    from dpcli.predict.pate.pate_session import hold_session
    from dpcli.sessions.commands.predicting import on_window, opened_or_none

    plan = plan_of(file)
    with opened_or_none(ledger, dataset) as books, progress("queries") as report:
        plan = on_window(plan, books, window)
        try:
            outcome = hold_session(plan, books, insecure_seed, report, lambda: predictor(plan), moved)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_left(plan)) from None
    return emit(labelled(outcome), format_, outputs)


def _left(plan: VotingPlan) -> str:
    """Say what an interrupted session leaves."""
    from dpcli.predict.pate.transcript import read_transcript

    try:
        transcript = read_transcript(plan)
    except InputError:
        return ""
    if transcript is None:
        return "no query was put, and the same command begins"
    if transcript.closed:
        return "the session has ended, and what was charged stays charged; the same command leaves the labels and the statement"
    return "what was charged stays charged, and the same command goes on with the next query"


@click.command(short_help=SUBCOMMANDS["student"][1])
@click.argument("file")
@output_options("text")
def student(file: str, format_: str, outputs: tuple[str, ...]) -> int:
    """Teach the student of FILE the labels that were released and, unless it says otherwise, its own on the other queries.

    It reads public inputs and released labels alone, so that it costs nothing and may be done again as often as one likes.
    """
    from dpcli.predict.documents.pate import taught
    from dpcli.predict.pate.learners import teach_student
    from dpcli.predict.pate.pate_plan import plan_of

    with working():
        outcome = teach_student(plan_of(file))
    return emit(taught(outcome), format_, outputs)


@click.command(short_help=SUBCOMMANDS["account"][1])
@click.argument("file")
@output_options("table", "findings", "checks", "total")
def account(file: str, format_: str, outputs: tuple[str, ...]) -> int:
    """Print what the labels of FILE cost: the guarantee, which holds whatever the votes are, and what they cost given the votes.

    The second number tells how far the teachers agree, which is private: it is printed for the owner of the data and marked so, and stands
    in no statement. Reading votes needs neither torch nor scikit-learn.

    Exit code 1 where the file as it stands overspends its budget, though a session stops before that, 2 where a file is no file of votes,
    3 where nothing can be certified.
    """
    from dpcli.predict.documents.pate import accounted
    from dpcli.predict.pate.pate_plan import plan_of
    from dpcli.predict.pate.vote_account import vote_account

    with working():
        votes = vote_account(plan_of(file))
    return emit(accounted(votes), format_, outputs)
