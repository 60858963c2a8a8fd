"""The command `dpcli audit`: attack a program and compare the result with its privacy claim.

The options replace keys of the [audit] table of FILE (audit_settings.py). audit_run.py performs the audit, and documents/audit.py says what
its result means. `output_options` adds -f and -o, and its arguments say what the documents contain; `emit` prints a document and returns
its exit code.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import click

from dpcli.cli.options import emit, output_options
from dpcli.cli.picture import show
from dpcli.cli.printing import progress


@click.command(short_help="Attack a program, and compare the result with its privacy claim.")
@click.argument("file", required=False)
@click.option(
    "--kind",
    type=click.Choice(["one-run", "two-run", "replay"]),
    help="Kind of audit [default: two-run with --function, otherwise one-run].",
)
@click.option(
    "--scores",
    metavar="PATH",
    help="Read scores from this file (csv, json) or folder of a finished run. With --function, store the trials in this file.",
)
@click.option("--canaries", type=int, help="Number of canaries.")
@click.option("--guesses", type=int, help="Number of canaries that the audit guesses about.")
@click.option("--correct", type=int, help="Number of right guesses, instead of scores.")
@click.option("--threshold", type=float, help="Threshold for the scores, fixed before they were known.")
@click.option("--function", metavar="MODULE:NAME", help="Program to audit: (dataset, rng) -> score, or steps for a replay.")
@click.option("--data", metavar="MODULE:NAME", help="Function that makes two datasets: (rng) -> (with the record, without it).")
@click.option("--trials", type=int, help="Runs on each dataset [default: 1000]; pairs of runs for a replay [default: 5].")
@click.option("--sensitivity", type=float, help="For a replay: L2 bound on one record's contribution to a step.")
@click.option("--noise", type=float, help="For a replay: standard deviation of a step's noise, which overrides the file.")
@click.option("--confidence", type=float, help="1 minus the probability of failing a true claim [default: 0.95].")
@click.option("--epsilon", type=float, help="Claimed epsilon, instead of the epsilon of FILE.")
@click.option("--delta", type=float, help="Delta of the claim [default: the file's].")
@click.option("--jobs", type=click.IntRange(1), help="Number of processes for the trials [default: one for each core, at most 8].")
@click.option(
    "--picture", "pictures", multiple=True, metavar="PATH", help="Draw both trade-off curves to PATH (.svg, .png); repeatable."
)
@click.option("--dry-run", is_flag=True, help="Print the faults that the audit would find, and run nothing.")
@output_options("table", "findings", "checks", "total")
def command(
    file: str | None,
    epsilon: float | None,
    delta: float | None,
    correct: int | None,
    jobs: int | None,
    pictures: tuple[str, ...],
    dry_run: bool,
    format_: str,
    outputs: tuple[str, ...],
    **flags: Any,
) -> int:
    """Find a lower bound on epsilon. The audit fails if the bound exceeds the claim of FILE, or of --epsilon and --delta.

    one-run: a fair coin decides for each canary whether it is in the run, and the audit guesses from the scores which canaries were in it.
    two-run: the program runs many times with and without one record. replay: the program runs with the same randomness on both datasets,
    and the audit compares the sums before noise.

    The [audit] table of FILE may set the same values; a flag overrides it. With --function and --scores, each trial is stored in that file,
    and an interrupted audit continues from the stored trials.

    A pass means that no violation was found at this confidence. It does not mean that the program is private; no audit can show that.

    Exit code 0: no violation found. 1: a violation. 2: a file or a function cannot be read or run. 3: the claim is not certified, or does
    not apply to the audited datasets.
    """
    from dpcli.audit.audit_run import audit, audit_request
    from dpcli.audit.documents.audit import chart, document
    from dpcli.audit.documents.planned_power import planned_document
    from dpcli.cli.outputs import require_unprotected

    with progress("runs") as report:
        requested = audit_request(file, flags, epsilon, delta, correct, jobs, report)
        if dry_run:
            return emit(planned_document(requested), format_, outputs)
        settings = requested.settings
        runs_trials = settings.function is not None  # without a function, the file of scores is only read
        if runs_trials and settings.scores is not None:
            require_unprotected(settings.scores)  # trials are added to this file, so it must be no input and no ledger
        with _hint_after_interrupt(settings.scores) if runs_trials else nullcontext():
            result = audit(requested)
    # With --picture, an audit without scores is an error, which `chart` raises.
    charts = [chart(result)] if result.measured is not None or pictures else []
    if pictures:
        show(charts[0], format_=None, outputs=pictures)
    return emit(document(result, requested.diagnostics, charts), format_, outputs)


@contextmanager
def _hint_after_interrupt(path: str | None) -> Iterator[None]:
    """Say on standard error, after Ctrl-C in the block, where the finished trials are stored, if anywhere. Raise the interrupt again."""
    try:
        yield
    except KeyboardInterrupt:
        hint = "the trials so far are lost; --scores PATH stores them"
        if path:
            hint = f"the trials so far are in {path}; the same command continues from them"
        click.echo(f"dpcli: {hint}", err=True)
        raise
