"""The command group `dpcli pate`: label public data by noisy votes of teachers, and train a student.

A *teacher* is a model of one *shard*, a part of the private data. `fit` trains the teachers and saves their votes, `label` answers the
queries with noise and charges for them, `student` learns from the labels, and `account` prints what they cost. A *session* of `label` is
everything that one charge pays for; it may be interrupted and continued. Each command reads the [pate] table of FILE (pate/pate_plan.py).
`output_options` adds -f and -o, and its arguments say what the documents contain; `emit` prints a document and returns its exit code.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from dpcli.base.errors import InputError
from dpcli.cli.groups import LazyGroup
from dpcli.cli.options import emit, output_options, working
from dpcli.cli.printing import progress
from dpcli.sessions.commands.ledger_options import charging_options

if TYPE_CHECKING:
    from dpcli.predict.pate.pate_plan import VotingPlan

SUBCOMMANDS: dict[str, tuple[str, str]] = {
    "fit": ("dpcli.predict.commands.pate:fit", "Train each teacher on its shard, and save the votes."),
    "label": ("dpcli.predict.commands.pate:label", "Answer the queries with noise, and write labels and a statement."),
    "student": ("dpcli.predict.commands.pate:student", "Train the student on the labels, and test it on public data."),
    "account": ("dpcli.predict.commands.pate:account", "Print the cost of the labels, for any votes and given the votes."),
}


@click.group(cls=LazyGroup, table=SUBCOMMANDS, short_help="Label public data by noisy votes, and train a student (PATE).")
def command() -> None:
    """Label public data by the noisy votes of teachers that were trained on disjoint shards of private data (PATE).

    A [[mechanism]] entry of FILE, of type gnmax, confident-gnmax or lnmax, states the noise on the votes and the number of queries. The
    [pate] table of FILE names the source of the votes and the student that learns from the labels.
    """


@click.command(short_help=SUBCOMMANDS["fit"][1])
@click.argument("file")
@click.option("--jobs", type=click.IntRange(1), help="Number of processes [default: one for each core; 1 under torchrun].")
@output_options("text")
def fit(file: str, jobs: int | None, format_: str, outputs: tuple[str, ...]) -> int:
    """Train the teachers of FILE without noise, each on a separate shard of the records, and save their votes on every query.

    All records of a unit of privacy are in one shard, which depends on that unit alone. Only the votes of a teacher are saved. They are
    private and must not be published. Nothing is charged yet. A fitted teacher is not fitted again: if the command was stopped, run it
    again, and it continues with the next teacher.

    To divide torch teachers among processes, run torchrun --nproc-per-node N -m dpcli pate fit FILE. Each process fits some of the
    teachers. All processes must have access to the folder of the session. LOCAL_RANK in the environment selects the GPU of a process.
    """
    import os

    from dpcli.predict.documents.pate import fit_document
    from dpcli.predict.pate.pate_plan import plan_of
    from dpcli.predict.pate.teachers import fit as fit_teachers
    from dpcli.train.run.processes import first_process, several_processes

    plan = plan_of(file)
    with progress("teachers") if first_process() else nullcontext(lambda done, total: None) as report:
        try:
            teachers = fit_teachers(plan, jobs or (1 if several_processes() else os.cpu_count() or 1), report)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("the fitted teachers are saved; run the same command again to fit the others") from None
    return emit(fit_document(plan, teachers), format_, outputs) if first_process() else 0


@click.command(short_help=SUBCOMMANDS["label"][1])
@click.argument("file")
@charging_options("Charge this ledger before the first noise.")
@click.option("--moved", is_flag=True, help="Confirm that the folder was moved here and that no copy of it is left elsewhere.")
@click.option(
    "--insecure-seed", type=click.IntRange(min=0), help="Draw reproducible noise from this seed, for debugging: NOT PRIVATE."
)
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
    """Answer the queries of FILE by the noisy votes of the teachers, or of a file of votes, and write the labels.

    Every query is charged before its noise is drawn, whether or not it is then answered. No query is put twice: an interrupted session
    continues with the next query, a copied folder is refused, and a session that has ended returns the labels it already released. The
    session stops at the number of answers that the entry or the budget allows. Both numbers are fixed before any vote is read.

    Exit codes: 1 if the budget or the ledger refuses, 2 if there are no votes, 130 if the session was interrupted.
    """
    from dpcli.predict.documents.pate import label_document
    from dpcli.predict.pate.pate_plan import plan_of
    from dpcli.predict.pate.pate_session import hold_session
    from dpcli.predict.pate.student import predictor
    from dpcli.sessions.commands.ledger_options import opened_or_none, restrict_run

    plan = plan_of(file)
    with opened_or_none(ledger, dataset) as opened_ledger, progress("queries") as report:
        plan = restrict_run(plan, opened_ledger, window)  # to the part of the dataset that FILE or --window names
        try:
            outcome = hold_session(plan, opened_ledger, insecure_seed, report, lambda: predictor(plan), moved)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_interrupt_message(plan)) from None
    return emit(label_document(outcome), format_, outputs)


def _interrupt_message(plan: VotingPlan) -> str:
    """Return the message for an interrupted session: what was charged, and what the command does if it is run again."""
    from dpcli.predict.pate.transcript import read_transcript

    try:
        transcript = read_transcript(plan)
    except InputError:
        return ""
    if transcript is None:
        return "no query was answered; run the same command again to begin"
    if transcript.closed:
        return "the session has ended, and its charges stand; run the same command again to write the labels and the statement"
    return "the charges so far stand; run the same command again to continue with the next query"


@click.command(short_help=SUBCOMMANDS["student"][1])
@click.argument("file")
@output_options("text")
def student(file: str, format_: str, outputs: tuple[str, ...]) -> int:
    """Train the student of FILE on the released labels and, by default, on labels that it predicts itself for the other queries.

    The student reads only public inputs and released labels. Training it therefore costs nothing, and may be repeated at will.
    """
    from dpcli.predict.documents.pate import student_document
    from dpcli.predict.pate.pate_plan import plan_of
    from dpcli.predict.pate.student import teach_student

    with working():  # shows a notice if this takes long
        outcome = teach_student(plan_of(file))
    return emit(student_document(outcome), format_, outputs)


@click.command(short_help=SUBCOMMANDS["account"][1])
@click.argument("file")
@output_options("table", "findings", "checks", "total")
def account(file: str, format_: str, outputs: tuple[str, ...]) -> int:
    """Print the cost of the labels of FILE: the guarantee, which holds for any votes, and the cost given the actual votes.

    The cost given the votes reveals how far the teachers agree, which is private. It is printed, with a mark, for the owner of the data
    only, and appears in no statement. Reading votes needs neither torch nor scikit-learn.

    Exit codes: 1 if the file as written overspends its budget (a session stops before that), 2 if a file is not a file of votes, 3 if
    nothing can be certified.
    """
    from dpcli.predict.documents.pate import account_document
    from dpcli.predict.pate.pate_plan import plan_of
    from dpcli.predict.pate.vote_account import vote_account

    with working():
        votes = vote_account(plan_of(file))
    return emit(account_document(votes), format_, outputs)
