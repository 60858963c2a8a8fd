"""dpcli gate."""

from __future__ import annotations

import click

from dpcli.cli.options import emit, output_options


@click.command(short_help="Stop a change that overspends: verdict by exit code.")
@click.argument("files", nargs=-1, required=True)
@click.option("--max-epsilon", type=float, help="Cap on epsilon, instead of each file's budget.")
@click.option("--delta", type=float, help="Delta of the cap, instead of each file's.")
@click.option("--max-increase", type=float, help="Largest rise of epsilon over the base that passes.")
@click.option("--base-ref", metavar="REF", help="Compare with the files as they stand at this git revision.")
@click.option("--baseline", metavar="JSON", help="Compare with what an earlier gate wrote with -f json.")
@output_options("table", "json", "jsonl", "markdown", "csv", "github", "junit", "sarif")
def command(
    files: tuple[str, ...],
    max_epsilon: float | None,
    delta: float | None,
    max_increase: float | None,
    base_ref: str | None,
    baseline: str | None,
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """Judge FILES against their caps and, with --base-ref or --baseline, against what they cost before.

    Exit code 0: all pass. 1: a cap, an increase or a soundness rule says no. 2: a file cannot be read. 3: not certified.
    """
    from dpcli.gate import bases_at, bases_from, checked_policy, gate
    from dpcli.lint.run import lint
    from dpcli.report.gate_report import document

    policy = checked_policy(max_epsilon, delta, max_increase, base_ref, baseline)
    bases = bases_at(base_ref, files, policy) if base_ref else bases_from(baseline, files) if baseline else None
    return emit(document(gate(files, policy, bases, lint)), format_, outputs)
