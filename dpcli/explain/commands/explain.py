"""The command `dpcli explain`, which explains the guarantee of a pipeline file, a name, or a simulated attack (--demo).

FILE and NAME share one argument. An existing file, a name that ends in .toml, and "-" are files (`_is_file`); everything else is looked up.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from dpcli.base.errors import InputError
from dpcli.cli.options import emit, output_options, refuse_flags
from dpcli.cli.outputs import split_pictures
from dpcli.cli.printing import show


def _file_or_name(_: click.Context, __: click.Parameter, typed: str) -> list[str]:
    """Return the names and pipeline files that complete `typed`; [] if no name does, so that the shell completes files."""
    from dpcli.explain.lookup import known_names
    from dpcli.file.pipeline.key_places import tables
    from dpcli.lint.catalogue import codes

    names = [*known_names(), *codes()]
    for table in tables():
        names += [*table.members, table.path]
    completed = [name for name in dict.fromkeys(names) if name and name.startswith(typed)]
    if not completed:
        return []
    folder, start = os.path.split(typed)
    paths = [path for path in sorted(Path(folder or ".").glob("*.toml")) if path.name.startswith(start)]
    return [*map(str, paths), *completed]


@click.command(short_help="Explain a pipeline's guarantee, a rule or a term.")
@click.argument("file", metavar="[FILE|NAME]", required=False, shell_complete=_file_or_name)
@click.argument("query_file", metavar="[FILE]", required=False)
@click.option("--delta", type=float, help="Use this delta [default: the delta of FILE].")
@click.option(
    "--prior",
    "priors",
    type=float,
    multiple=True,
    metavar="P",
    help="Attacker's belief before the release; repeatable [default: 0.01 and 0.5].",
)
@click.option("--demo", is_flag=True, help="Simulate the best attack on a count with Laplace noise, on made-up data, and draw it.")
@click.option("--epsilon", type=float, help="With --demo: epsilon of the count [default: 1].")
@click.option("--trials", type=int, help="With --demo: number of releases of each of the two counts [default: 1000].")
@click.option("--seed", type=int, help="With --demo: seed of the simulated noise [default: 1].")
@output_options("table", "total", "records", "pictures")
def command(
    file: str | None,
    query_file: str | None,
    delta: float | None,
    priors: tuple[float, ...],
    demo: bool,
    epsilon: float | None,
    trials: int | None,
    seed: int | None,
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """Explain what the guarantee of the pipeline in FILE means for an attacker, or explain NAME.

    FILE is an existing file, a name that ends in .toml, or "-" for standard input. The explanation has the highest true-positive rate at
    several false-positive rates, beliefs before and after the release, and epsilon for groups. Exit codes: 3 if no finite guarantee can be
    certified, 1 if a rule calls the file unsound.

    NAME is a rule (DP101), an accountant (rdp), a mechanism type (gaussian), a sampling scheme (poisson), a key, a term (adjacency), a
    heading of a table, an exit code, a command (report) or a page of the manual (tutorial, accountants, certify, training, federated,
    private-prediction, release, ledger, backup, gate, threats, glossary).

    --demo needs no file. It simulates noisy counts of two made-up datasets that differ by one person. The likelihood-ratio test
    distinguishes them as well as any test can, and its errors are drawn together with the bound that epsilon sets. -o demo.svg (.png,
    .vl.json) saves the picture.

    query FILE explains the sensitivity and the noise of each query of FILE.
    """
    if demo:
        if file is not None:
            raise InputError(f"--demo: expected no FILE and no NAME, found {file!r}")
        refuse_flags("--demo", delta=delta, prior=priors or None)
        return _run_demo(epsilon, trials, seed, format_, outputs)
    refuse_flags("a file or a name; it belongs to --demo", epsilon=epsilon, trials=trials, seed=seed)
    if file is None:
        raise InputError("expected FILE, NAME or --demo")
    if query_file is not None:
        return _explain_queries(file, query_file, format_, outputs, delta=delta, prior=priors or None)
    if not _is_file(file):
        other_format = None if format_ == "table" else format_
        refuse_flags("the name of a rule or a term", delta=delta, prior=priors or None, format=other_format, output=outputs or None)
        return _explain_name(file)
    return _explain_file(file, delta, priors, format_, outputs)


def _explain_name(name: str) -> int:
    from dpcli.explain.lookup import picture

    show(_explanation(name) + "\n")
    drawn = picture(name)
    if drawn is not None:
        from dpcli.cli.picture import show as show_picture

        show("\n")
        show_picture(drawn, format_=None, outputs=())
    return 0


def _explain_file(path: str, delta: float | None, priors: tuple[float, ...], format_: str, outputs: tuple[str, ...]) -> int:
    from dpcli.analysis.meaning import PRIORS, meaning
    from dpcli.disclosure.documents.meaning import document
    from dpcli.lint.run import checked_load

    pictures, _ = split_pictures(outputs)
    if pictures:
        raise InputError(
            f"--output: expected a format of documents, found {pictures[0]!r}; to draw the file, run dpcli plot trade-off {path}"
        )
    pipeline, diagnostics = checked_load(path, delta)
    account, result = meaning(pipeline, delta, priors or PRIORS)
    return emit(document(account, result, diagnostics), format_, outputs)


def _explanation(name: str) -> str:
    """Return the explanation of a name, with the short help if it is a command. Raises InputError for an unknown name."""
    from dpcli.explain.lookup import explain

    about = _command_help(name)
    try:
        return "\n\n".join(filter(None, (explain(name), about)))
    except InputError:
        if not about:
            raise
        return about


def _command_help(name: str) -> str:
    """Return the short help of a command, such as "budget init", and its manual page; "" for other names."""
    from dpcli.base.lazy import load
    from dpcli.base.registry import COMMANDS
    from dpcli.cli.groups import Commands, LazyGroup

    words, target, summary = name.split(), "", ""
    if not words:
        return ""
    table: Commands = COMMANDS
    for word in words:
        if target:
            group = load(target)
            table = group.table if isinstance(group, LazyGroup) else {}
        if word not in table:
            return ""
        target, summary = table[word]
    called = " ".join(("dpcli", *words))
    page = f"{called.replace(' ', '-')}(1)"
    return f"{called}: {summary}\n\n{called} --help lists its options. Manual page: {page}, which dpcli man DIRECTORY writes."


def _explain_queries(word: str, file: str, format_: str, outputs: tuple[str, ...], **flags: object) -> int:
    """Explain the queries of a file. `word` is the first argument, which must be "query". No option in `flags` may be given."""
    if word != "query":
        raise click.UsageError(f"expected one FILE or NAME, or query FILE, found {word} {file}")
    from dpcli.release.documents.release import explanation_document
    from dpcli.release.release_plan import plan_of

    refuse_flags("explain query", **flags)
    return emit(explanation_document(plan_of(file)), format_, outputs)


def _run_demo(epsilon: float | None, trials: int | None, seed: int | None, format_: str, outputs: tuple[str, ...]) -> int:
    """Run the demonstration, and print its picture and numbers, or one document in another format."""
    from dpcli.cli.picture import show as show_picture
    from dpcli.explain.demo import chart, demo
    from dpcli.explain.documents.demo import document

    pictures, documents = split_pictures(outputs)
    result = demo(1.0 if epsilon is None else epsilon, 1000 if trials is None else trials, 1 if seed is None else seed)
    drawn = chart(result)
    if pictures:
        show_picture(drawn, format_=None, outputs=pictures)
    if format_ == "table":
        show_picture(drawn, format_=None, outputs=())
        show("\n")
    return emit(document(result, drawn), format_, documents)


def _is_file(name: str) -> bool:
    """Return whether an argument is a file. A folder is not, so that a folder named like a term does not hide the term."""
    return name == "-" or name.endswith(".toml") or (os.path.exists(name) and not os.path.isdir(name))
