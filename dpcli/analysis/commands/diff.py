"""The command `dpcli diff`: compare two pipelines, and price each change between them."""

from __future__ import annotations

import click

from dpcli.cli.options import emit, output_options


@click.command(short_help="What changed between two pipelines, and what each change costs.")
@click.argument("files", nargs=2, metavar="A B")
@click.option("--delta", type=float, help="Compare at this delta instead of A's.")
@click.option("--exit-code", "sets_exit_code", is_flag=True, help="Exit with 1 where B costs more, 3 where that cannot be said.")
@output_options("table", "total", "records")
def command(files: tuple[str, str], delta: float | None, sets_exit_code: bool, format_: str, outputs: tuple[str, ...]) -> int:
    """List what changed from pipeline A to pipeline B, and what each change costs: made alone to A, and all together.

    A and B are files, "-" for standard input (one of them), or REVISION:PATH for a file as it stands at a git revision. Mechanisms are
    matched by name. Both are priced at A's delta. Where the statement has changed (unit, adjacency, max_contributions, dataset_size,
    delta, adaptive), the epsilons are shown but called not comparable. With --exit-code, a delta too large for a dataset is exit code 1.
    """
    from dpcli.analysis.difference import difference
    from dpcli.analysis.documents.diff import document
    from dpcli.lint.delta import judged_deltas
    from dpcli.lint.documents.diagnostics import with_diagnostics

    result = difference(*files, delta)
    stated = {"delta" if delta is None else "--delta": result.before.delta}
    sizes = {
        side.pipeline.privacy.dataset_size: path for path, side in zip(files[::-1], (result.after, result.before), strict=True)
    }
    diagnostics = tuple(findings for size, path in sizes.items() for findings in judged_deltas(stated, size, path))
    return emit(with_diagnostics(document(result, sets_exit_code), diagnostics, sets_exit_code), format_, outputs)
