"""dpcli pate fit."""

from __future__ import annotations

import click

from dpcli.cli.options import emit, output_options


@click.command(short_help="Train the teachers, each on its shard, and keep their votes.")
@click.argument("file")
@click.option("--jobs", type=click.IntRange(1), help="Processes, each with one thread [default: one for each core; 1 by torchrun].")
@output_options("text")
def command(file: str, jobs: int | None, format_: str, outputs: tuple[str, ...]) -> int:
    """Train the teachers of FILE without noise, each on the records of a shard of its own, and keep their votes on every query.

    All records of a unit of privacy are in one shard, which depends on that unit alone. A teacher leaves nothing but its votes, which are
    private: nothing here is charged, and nothing here may be published. What was fitted is not fitted again: the same command goes on where
    it was stopped.

    Teachers of torch may be spread over processes: torchrun --nproc-per-node N -m dpcli pate fit FILE. Each fits a part of them, in one
    folder that all of them see; LOCAL_RANK in the environment says which GPU is whose.
    """
    from dpcli.predict.commands.pate_session import fitted_with_progress
    from dpcli.predict.documents.pate import fitted
    from dpcli.predict.pate.plan import plan_of
    from dpcli.train.run.processes import first_process

    plan = plan_of(file)
    found = fitted_with_progress(plan, jobs)
    return emit(fitted(plan, found), format_, outputs) if first_process() else 0
