"""Runs of the lint rules over one file, with the places of their findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dpcli.base.lazy import load
from dpcli.base.registry import FILES
from dpcli.file.pipeline.canonical import TOP
from dpcli.file.pipeline.read import examine, located, parse, toml_document
from dpcli.file.toml.findings import Diagnostic, InvalidFile
from dpcli.file.toml.limits import read_bytes
from dpcli.lint.catalogue import checked_codes, rule
from dpcli.lint.delta import CODE, UNKNOWN, judged_deltas

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline
    from dpcli.lint.rule_info import RuleFinding, RuleInfo


def lint(path: str) -> tuple[Diagnostic, ...]:
    """Return everything that the failure catalogue has to say about a pipeline file ("-": standard input), in the order of the file.

    Of a policy of the gate, or a schedule of planned runs, it is what the reader says. A file that cannot be read as a pipeline gives the
    reader's findings (DP001 to DP005), and the rules' as well if these are all about sections such as [train]. Keys that say "calibrate"
    are taken as 1. Raises InputError if there is no such file.
    """
    return lint_bytes(read_bytes(path), path)  # read once: standard input cannot be read again for the positions


def is_lintable(tables: Mapping[str, Any]) -> bool:
    """Return whether `lint` judges a file, if a folder holds many."""
    from dpcli.file.pipeline.read import may_be_pipeline

    return may_be_pipeline(tables) or ("format" in tables and _other_reader(tables) is not None)


def _other_reader(tables: Mapping[str, Any]) -> str | None:
    """Return the reader of a file that is no pipeline, having no key that only pipelines have."""
    if not TOP.keys().isdisjoint(key for key in tables if key != "format"):
        return None
    from dpcli.file.pipeline.other_files import is_policy, is_schedule

    kind = ""
    if is_schedule(tables):
        kind = "schedule"
    elif is_policy(tables):
        kind = "policy"
    return FILES[kind][1] if kind in FILES else None


def lint_bytes(data: bytes, path: str) -> tuple[Diagnostic, ...]:
    """Return the findings about the bytes of a file. path: its name in messages."""
    try:
        tables = toml_document(data, path)[1]
        reader = _other_reader(tables)
        if reader is not None:
            load(reader)(data, path)
            return ()
        pipeline, wrong = examine(data, path)
    except InvalidFile as invalid:
        return invalid.diagnostics
    judged = () if pipeline is None else judge(pipeline, data)
    return tuple(sorted((*wrong, *judged), key=lambda d: (d.line, d.column, d.rule))) if wrong and judged else wrong or judged


def checked_load(path: str, delta: float | None = None) -> tuple[Pipeline, tuple[Diagnostic, ...]]:
    """Return the pipeline in a file and the findings about it. delta: of --delta. Raises InvalidFile, InputError as `dpcli.load` does."""
    data = read_bytes(path)
    pipeline = parse(data, path)
    return pipeline, judge(pipeline, data, {"--delta": delta})


def judge(pipeline: Pipeline, data: bytes, deltas: Mapping[str, float | None] = MappingProxyType({})) -> tuple[Diagnostic, ...]:
    """Return the rules' findings about a pipeline, placed in the bytes it was read from.

    deltas: at which it is judged too, and which do not stand in the file, as of `judged_deltas`.
    """
    return _with_deltas(tuple(findings(pipeline)), pipeline, data, deltas)


def file_deltas(pipeline: Pipeline, data: bytes, flag: float | None, used: float | None) -> tuple[Diagnostic, ...]:
    """Return what DP105 and DP306 say of the deltas of a file and of --delta, for commands that ask no other rule.

    used: the delta of the answer; if it has none, nothing is said.
    """
    if used is None:
        return ()
    return _with_deltas(tuple(_findings_of((CODE, UNKNOWN), pipeline)), pipeline, data, {"--delta": flag})


def _with_deltas(
    pairs: tuple[tuple[RuleInfo, RuleFinding], ...], pipeline: Pipeline, data: bytes, deltas: Mapping[str, float | None]
) -> tuple[Diagnostic, ...]:
    """Return the findings with their places, and those about other deltas: that the size is missing only once."""
    placed = _with_places(pairs, pipeline, data) if pairs else ()
    if any(diagnostic.rule == UNKNOWN for diagnostic in placed):
        return placed
    return (*placed, *judged_deltas(deltas, pipeline.privacy.dataset_size, _title(pipeline)))


def findings(pipeline: Pipeline) -> Iterator[tuple[RuleInfo, RuleFinding]]:
    """Yield what each rule finds in a pipeline, in the order of the codes."""
    yield from _findings_of(checked_codes(bool(pipeline.sections)), pipeline)


def _findings_of(codes: Iterable[str], pipeline: Pipeline) -> Iterator[tuple[RuleInfo, RuleFinding]]:
    for info in map(rule, codes):
        if info.check is not None:
            for finding in info.check(pipeline):
                yield info, finding


def _title(pipeline: Pipeline) -> str:
    return "<stdin>" if pipeline.path in (None, "-") else str(pipeline.path)


def _with_places(pairs: tuple[tuple[RuleInfo, RuleFinding], ...], pipeline: Pipeline, data: bytes) -> tuple[Diagnostic, ...]:
    """Return the findings with line, column and source line."""
    from dpcli.file.toml.shown import key_text
    from dpcli.file.toml.syntax import text_of

    text = text_of(data)
    lines, names = text.split("\n"), {index: entry.name for index, entry in enumerate(pipeline.mechanisms)}
    stated = {finding.path: pipeline.stated_at(finding.path) for _, finding in pairs}
    located_at = located(text, stated.values())
    places = {path: located_at[place] for path, place in stated.items()}
    title, placed = _title(pipeline), []
    for info, finding in sorted(pairs, key=lambda pair: (places[pair[1].path], pair[0].code)):
        line, column = places[finding.path]
        severity, key = finding.severity or info.severity, key_text(finding.path, names)
        placed.append(Diagnostic(info.code, severity, finding.message, title, key, line, column, lines[line - 1]))
    return tuple(placed)
