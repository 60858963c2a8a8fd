"""dpcli explain."""

from __future__ import annotations

import os

import click

from dpcli.cli import completing
from dpcli.cli.options import emit, output_options, refuse
from dpcli.cli.printing import show


@click.command(short_help="What a pipeline's guarantee, a rule or a term means.")
@click.argument("file", metavar="FILE|NAME", shell_complete=completing.file_or_name)
@click.argument("of", metavar="[FILE]", required=False)
@click.option("--delta", type=float, help="Explain the guarantee at this delta instead of the file's.")
@click.option(
    "--prior",
    "priors",
    type=float,
    multiple=True,
    metavar="P",
    help="Belief before the release; repeatable [default: 0.01 and 0.5].",
)
@output_options("table", "total", "records")
def command(
    file: str, of: str | None, delta: float | None, priors: tuple[float, ...], format_: str, outputs: tuple[str, ...]
) -> int:
    """What the guarantee of the pipeline in FILE means to an attacker, or what NAME means.

    FILE is an existing file, a name that ends in .toml, or "-" for standard input: the highest true-positive rate at a false-positive
    rate, beliefs before and after, groups. Exit code 3 where no finite guarantee can be certified, 1 where a rule calls it unsound.

    NAME is a rule (DP101), an accountant (rdp), a mechanism type (gaussian), a sampling scheme (poisson), a term (adjacency) or a
    page of the manual (tutorial, training, ledger, gate, glossary).

    query FILE tells of each query of FILE how its sensitivity and its noise come about.
    """
    if of is not None:
        return _queries(file, of, format_, outputs, delta=delta, prior=priors or None)
    if not _is_file(file):
        from dpcli.explain.lookup import explain

        text = None if format_ == "table" else format_
        refuse("the name of a rule or a term", delta=delta, prior=priors or None, format=text, output=outputs or None)
        show(explain(file) + "\n")
        return 0
    from dpcli.analysis.meaning import PRIORS, meaning
    from dpcli.lint.run import checked_load
    from dpcli.present.meaning import document

    pipeline, diagnostics = checked_load(file)
    account, found = meaning(pipeline, delta, priors or PRIORS)
    return emit(document(account, found, diagnostics), format_, outputs)


def _queries(word: str, file: str, format_: str, outputs: tuple[str, ...], **flags: object) -> int:
    if word != "query":
        raise click.UsageError(f"expected one FILE or NAME, or query FILE, found {word} {file}")
    from dpcli.present.release import explained
    from dpcli.release.plan import plan_of

    refuse("explain query", **flags)
    return emit(explained(plan_of(file)), format_, outputs)


def _is_file(name: str) -> bool:
    return name == "-" or name.endswith(".toml") or (os.path.exists(name) and not os.path.isdir(name))
