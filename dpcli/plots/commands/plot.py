"""The command `dpcli plot KIND FILE`: draw a chart of a pipeline.

It reads the flags; plots/drawing.py makes the chart. A picture of a file that a rule calls unsound is drawn too, but says so in its notes,
and the exit code is 1.
"""

from __future__ import annotations

import click

from dpcli.base.errors import InputError
from dpcli.base.registry import CHART_FORMATS, PLOTS
from dpcli.cli.accounting_options import accounting_options
from dpcli.cli.completion import complete_kind
from dpcli.cli.picture import destination, show
from dpcli.cli.printing import complain, progress, standard_error


@click.command(short_help="Draw epsilon, delta or an attacker's errors, in a terminal or to a file.")
@click.argument("kind", shell_complete=complete_kind)
@click.argument("file", required=False, metavar="FILE")
@click.option("-m", "--mechanism", metavar="NAME", help="Mechanism to vary, if the file has several.")
@click.option("--cap", type=float, help="Draw a line at this epsilon, such as the cap of a ledger (epsilon-steps, epsilon-sigma).")
@accounting_options
@click.option(
    "-f",
    "--format",
    "format_",
    type=click.Choice(tuple(CHART_FORMATS)),
    help="Format of the picture [default: the suffix of PATH, or terminal].",
)
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    metavar="[FORMAT=]PATH",
    help="Write to PATH, in FORMAT or the format of its suffix; repeatable.",
)
def command(
    kind: str,
    file: str | None,
    mechanism: str | None,
    cap: float | None,
    accountants: tuple[str, ...],
    delta: float | None,
    group_size: int,
    format_: str | None,
    outputs: tuple[str, ...],
) -> int:
    """Draw a picture of the pipeline in FILE: in the terminal, or to a .svg, .png, .csv, .vl.json or .txt file.

    KIND is epsilon-steps or epsilon-sigma (epsilon by the number of steps, or by the noise), delta-epsilon (the privacy profile), trade-off
    (lower bounds on the errors of an attacker), rdp (the Renyi divergence by order), or accountants (epsilon by accountant).

    If the file has several mechanisms and none is named, epsilon-steps follows the whole run, one mechanism after the other in the order of
    the file. Certified intervals that are wide are drawn as error bars.

    Each -a draws a separate line. Without -a, the smallest bound of all accountants is drawn. Exit codes: 1 if a rule calls the file
    unsound, 3 if no finite epsilon can be certified (nothing is then written).
    """
    from dpcli.lint.documents.lint import first_error
    from dpcli.lint.run import checked_load
    from dpcli.plots.drawing import checked_kind, draw
    from dpcli.plots.epsilons import Question

    if file is None and kind not in PLOTS:
        raise InputError(f"expected KIND FILE, with KIND among {', '.join(PLOTS)}, found only {kind!r}")
    checked_kind(kind)
    if file is None:
        raise click.UsageError("Missing argument 'FILE'.")
    paths = [destination(output, format_).path for output in outputs]  # before the work, because it refuses unknown formats
    pipeline, diagnostics = checked_load(file, delta)
    with progress() as report:
        chart = draw(kind, Question(pipeline, accountants, delta, group_size, mechanism, cap, report), diagnostics)
    show(chart, format_, outputs)
    for path in () if click.get_current_context().obj.quiet else paths:  # With PATHs, nothing is written to standard output.
        with standard_error():
            click.echo(f"wrote {path}", err=True)
    if any(result.severity == "error" for result in diagnostics):
        complain(first_error(diagnostics))
        return 1
    return 0
