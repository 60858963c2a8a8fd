"""dpcli gate."""

from __future__ import annotations

import click

from dpcli.cli.options import emit, output_options


@click.command(short_help="Stop a change that overspends: verdict by exit code.")
@click.argument("files", nargs=-1, required=True)
@click.option("--max-epsilon", type=float, help="Cap on epsilon, instead of each file's budget.")
@click.option("--delta", type=float, help="Delta of the cap, instead of each file's.")
@click.option("--max-increase", type=float, help="Largest rise of epsilon over the base that passes.")
@click.option(
    "--allow-statement-change", is_flag=True, help="Let a file change its unit, adjacency, delta, ... or loosen its own caps."
)
@click.option("--base-ref", metavar="REF", help="Compare with the files as they stand at this git revision.")
@click.option("--baseline", metavar="JSON", help="Compare with what an earlier gate wrote with -f json.")
@output_options("table", "json", "jsonl", "markdown", "csv", "github", "junit", "sarif")
def command(
    files: tuple[str, ...],
    max_epsilon: float | None,
    delta: float | None,
    max_increase: float | None,
    allow_statement_change: bool,
    base_ref: str | None,
    baseline: str | None,
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """Judge FILES against their caps and, with --base-ref or --baseline, against what they cost before.

    A comparison fails where the number no longer means the same (unit, adjacency, max_contributions, dataset_size, delta), or where the
    file has loosened its own caps. The base's max_increase holds, if it states one.

    Exit code 0: all pass. 1: a cap, an increase or a soundness rule says no. 2: a file cannot be read. 3: not certified.
    """
    from dpcli.gate import capped, checked_policy, gate
    from dpcli.gate_base import bases_at, bases_from
    from dpcli.lint.run import checked_load
    from dpcli.report.gate_report import document

    policy = checked_policy(max_epsilon, delta, max_increase, allow_statement_change, base_ref, baseline)
    at_base = bases_at(base_ref, files, lambda pipeline: capped(pipeline, policy)) if base_ref else None
    bases = at_base or (bases_from(baseline, files) if baseline else None)
    return emit(document(gate(files, policy, bases, checked_load)), format_, outputs)
