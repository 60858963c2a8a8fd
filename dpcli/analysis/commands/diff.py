"""The command `dpcli diff`: the changes between two pipelines, and the cost of each change.

It reads the flags; analysis/difference.py compares the files, and documents/diff.py words the result. A and B may be one file at two
revisions of git.
"""

from __future__ import annotations

import click

from dpcli.cli.options import emit, output_options


@click.command(short_help="List the changes between two pipelines, with the cost of each.")
@click.argument("files", nargs=2, metavar="A B")
@click.option("--delta", type=float, help="Delta at which both are compared. The default is the delta of A.")
@click.option(
    "--exit-code", "sets_exit_code", is_flag=True, help="Exit with 1 if B costs more, and with 3 if the files cannot be compared."
)
@output_options("table", "total", "records")
def command(files: tuple[str, str], delta: float | None, sets_exit_code: bool, format_: str, outputs: tuple[str, ...]) -> int:
    """List the changes from pipeline A to pipeline B, with the cost of each change made alone to A, and of all changes together.

    A and B are files, "-" for standard input (only one of them), or REVISION:PATH for a file at a git revision. Mechanisms are matched by
    name. Both files are priced at the delta of A. If the statement has changed (unit, adjacency, max_contributions, dataset_size, delta,
    adaptive), both epsilons are shown, but they are called not comparable. With --exit-code, a delta that is too large for a dataset
    gives exit code 1.
    """
    from dpcli.analysis.difference import difference
    from dpcli.analysis.documents.diff import document
    from dpcli.lint.delta import judged_deltas
    from dpcli.lint.documents.diagnostics import with_diagnostics

    result = difference(*files, delta)
    delta_by_name = {"delta" if delta is None else "--delta": result.before.delta}
    # If both files state the same size, the finding is about the first file.
    path_of_size = {result.after.pipeline.privacy.dataset_size: files[1], result.before.pipeline.privacy.dataset_size: files[0]}
    diagnostics = [diagnostic for size, path in path_of_size.items() for diagnostic in judged_deltas(delta_by_name, size, path)]
    return emit(with_diagnostics(document(result, sets_exit_code), tuple(diagnostics), sets_exit_code), format_, outputs)
