"""The command `dpcli audit`: attack a program and compare the result with its privacy claim."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from dpcli.cli.options import emit, output_options
from dpcli.cli.picture import show
from dpcli.cli.printing import progress


@click.command(short_help="Put a program to the test: what an attack proves against its claim.")
@click.argument("file", required=False)
@click.option("--kind", type=click.Choice(["one-run", "two-run", "replay"]), help="Which audit [default: by what is given].")
@click.option(
    "--scores", metavar="PATH", help="Scores (csv, json) or a finished run's folder; with --function, where trials are kept."
)
@click.option("--canaries", type=int, help="How many canaries there are.")
@click.option("--guesses", type=int, help="About how many of them is guessed.")
@click.option("--correct", type=int, help="How many of these guesses were right, instead of scores.")
@click.option("--threshold", type=float, help="A threshold that was fixed before the scores were seen.")
@click.option("--function", metavar="MODULE:NAME", help="The program: (dataset, rng) -> score, or steps for a replay.")
@click.option("--data", metavar="MODULE:NAME", help="Its two datasets: (rng) -> (with the record, without it).")
@click.option("--trials", type=int, help="Runs on each dataset [default: 1000]; pairs of runs for a replay [default: 5].")
@click.option("--sensitivity", type=float, help="For a replay: the bound on one record's contribution to a step (L2).")
@click.option("--noise", type=float, help="For a replay: standard deviation of a step's noise, instead of the file's.")
@click.option("--confidence", type=float, help="1 minus the chance of failing a true claim [default: 0.95].")
@click.option("--epsilon", type=float, help="The claim, instead of what FILE costs.")
@click.option("--delta", type=float, help="Delta of the claim, instead of the file's.")
@click.option("--jobs", type=click.IntRange(1), help="Processes for the trials [default: one for each core, at most 8].")
@click.option(
    "--picture", "pictures", multiple=True, metavar="PATH", help="Draw both trade-off curves to PATH (.svg, .png); repeatable."
)
@output_options("table", "findings", "checks", "total")
def command(
    file: str | None,
    epsilon: float | None,
    delta: float | None,
    correct: int | None,
    jobs: int | None,
    pictures: tuple[str, ...],
    format_: str,
    outputs: tuple[str, ...],
    **flags: Any,
) -> int:
    """Find a lower bound on epsilon, and fail where it exceeds what FILE, or --epsilon at --delta, claims.

    One run: canaries, each in the run or not by a fair coin; from their scores it is guessed which were in. Two runs: a program is run many
    times with and without one record. Replay: it is run with the same randomness on both, and its sums before noise are compared.

    The [audit] table of FILE may set the same values; a flag overrides it. If --scores names a place for the trials, an interrupted audit
    continues from the trials kept there.

    A pass says that no violation was found at this confidence. It does not say that the program is private: no audit can.

    Exit code 0: no violation found. 1: a violation. 2: a file or a function cannot be read or run. 3: the claim is not certified, or says
    nothing about what was audited.
    """
    from dpcli.audit.audit_run import audit, audit_request
    from dpcli.audit.documents.audit import chart, document
    from dpcli.cli.outputs import require_free

    with progress("runs") as report:
        requested = audit_request(file, flags, epsilon, delta, correct, jobs, report)
        if requested.settings.function is not None and requested.settings.scores is not None:  # where trials are added
            require_free(requested.settings.scores)
        with _hint_after_interrupt(requested.settings.scores):
            result = audit(requested)
    drawn = [chart(result)] if result.measured is not None or pictures else []
    if pictures:
        show(drawn[0], None, pictures)
    return emit(document(result, requested.diagnostics, drawn), format_, outputs)


@contextmanager
def _hint_after_interrupt(path: str | None) -> Iterator[None]:
    """Say after Ctrl-C where the trials so far are kept."""
    try:
        yield
    except KeyboardInterrupt:
        words = (
            f"the trials so far are in {path}; the same command goes on from there"
            if path
            else "--scores PATH would have kept them"
        )
        click.echo(f"dpcli: {words}", err=True)
        raise
