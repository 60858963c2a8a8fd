"""dpcli account."""

from __future__ import annotations

from dataclasses import replace

import click

from dpcli.cli.options import accounting_options, emit, output_options, refuse, working


@click.command(short_help="What a pipeline costs, by every accountant.")
@click.argument("file")
@accounting_options
@click.option("--epsilon", type=float, help="Report delta at this epsilon instead.")
@click.option("--tolerance", type=float, help="Relative width of the grid accountant's interval [default: 0.001].")
@click.option("--digits", type=click.IntRange(0, 15), default=4, show_default=True, help="Decimals in the table.")
@output_options("table", "findings", "checks", "total", "records")
def command(
    file: str,
    accountants: tuple[str, ...],
    delta: float | None,
    group_size: int,
    epsilon: float | None,
    tolerance: float | None,
    digits: int,
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """What the pipeline in FILE ("-" for standard input) costs: epsilon at its delta, by every accountant.

    Each row is an upper bound, rounded up; the headline is the smallest sound one. Where it is certified to within 1e-9, rows that take
    more work are left out: -a all runs them too. Exit code 1 where the file's budget is overspent,
    3 where nothing can be certified.
    """
    if epsilon is not None:
        refuse("--epsilon", delta=delta)
    from dpcli.analysis.account import account
    from dpcli.lint.run import judge
    from dpcli.pipeline.read import parse
    from dpcli.present.account import document
    from dpcli.toml.limits import read_bytes

    data = read_bytes(file)
    pipeline = parse(data, file)
    diagnostics = judge(pipeline, data)
    sources = click.get_current_context().obj.verbose > 0
    with working():
        result = account(pipeline, accountants or None, delta, epsilon, group_size, tolerance)
    found = document(result, diagnostics, digits, sources)
    return emit(replace(found, place=_place(data)) if result.exit_code == 1 else found, format_, outputs)


def _place(data: bytes) -> tuple[int, int]:
    """Line and column of the cap, of the first line where the file has none."""
    from dpcli.toml.positions import locate
    from dpcli.toml.syntax import text_of

    cap = ("budget", "epsilon")
    return locate(text_of(data), [cap])[cap]
