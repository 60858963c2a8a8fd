"""Application of the lint rules to one file or pipeline, for `dpcli lint` and for commands that compute a cost.

`lint` starts from a path, `lint_bytes` from bytes, and `judge` from a pipeline that was read already. The result is a tuple of
*diagnostics*, which are findings with their line and column in the text. The rules are in catalogue.py by code; the *reader* of files
(dpcli/file) itself reports DP001 to DP005. A *policy* of the gate and a *schedule* of planned runs are other TOML files, which have readers
of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from dpcli.base.lazy import load
from dpcli.base.registry import FILES
from dpcli.file.pipeline.canonical import TOP
from dpcli.file.pipeline.read import examine, located, may_be_pipeline, parse, toml_document
from dpcli.file.toml.findings import Diagnostic, InvalidFile
from dpcli.file.toml.limits import read_bytes
from dpcli.lint.catalogue import checked_codes, rule
from dpcli.lint.delta import LARGE_DELTA_CODE, UNKNOWN_SIZE_CODE, judged_deltas

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline
    from dpcli.lint.rule_info import RuleFinding, RuleInfo


def lint(path: str) -> tuple[Diagnostic, ...]:
    """Return the findings about a file ("-" for standard input). Those about a pipeline have the order of its lines.

    A file that is not a valid pipeline has findings of the reader (DP001 to DP005). If these are only about sections such as [train], the
    rules are checked too. A policy of the gate or a schedule of planned runs has only findings of its reader. A file with "calibrate" in
    place of the noise is checked with a number there. Raises InputError if the file cannot be read.
    """
    return lint_bytes(read_bytes(path), path)  # the bytes are read once, because standard input cannot be read again for the places


def is_lintable(tables: Mapping[str, Any]) -> bool:
    """Return whether a file in a folder should be checked: a pipeline, a policy or a schedule."""
    return may_be_pipeline(tables) or ("format" in tables and _other_reader(tables) is not None)


def _other_reader(tables: Mapping[str, Any]) -> str | None:
    """Return the reader of a policy or a schedule, as "package.module:name".

    The result is None for any other file, including each file with a key of a pipeline, and if the plugin with the reader is missing.
    """
    has_pipeline_key = any(key in TOP for key in tables if key != "format")  # TOP has the keys at the top of a pipeline file
    if has_pipeline_key:
        return None
    from dpcli.file.pipeline.other_files import is_policy, is_schedule

    if is_schedule(tables):
        kind = "schedule"
    elif is_policy(tables):
        kind = "policy"
    else:
        return None
    if kind not in FILES:
        return None
    _, reader = FILES[kind]
    return reader


def lint_bytes(data: bytes, path: str) -> tuple[Diagnostic, ...]:
    """Return the findings about the content of the file at `path`, as in `lint`."""
    try:
        tables = toml_document(data, path).tables
        reader = _other_reader(tables)
        if reader is not None:
            load(reader)(data, path)  # raises InvalidFile if the file has findings
            return ()
        pipeline, reader_findings = examine(data, path)
    except InvalidFile as invalid:
        return invalid.diagnostics
    rule_findings = () if pipeline is None else judge(pipeline, data)
    if not reader_findings or not rule_findings:
        return reader_findings or rule_findings
    return tuple(sorted((*reader_findings, *rule_findings), key=lambda d: (d.line, d.column, d.rule)))


def checked_load(path: str, delta: float | None = None) -> tuple[Pipeline, tuple[Diagnostic, ...]]:
    """Return the pipeline in a file, and the findings about it.

    Args:
        delta: Value of --delta, which is judged too; None if the flag is not given.

    Raises:
        InvalidFile: The file is not a valid pipeline.
        InputError: The file does not exist or cannot be read.
    """
    data = read_bytes(path)
    pipeline = parse(data, path)
    return pipeline, judge(pipeline, data, {"--delta": delta})


def judge(pipeline: Pipeline, data: bytes, deltas: Mapping[str, float | None] = MappingProxyType({})) -> tuple[Diagnostic, ...]:
    """Return the findings of the rules about a pipeline in the order of its lines, followed by those about `deltas`.

    Args:
        data: The bytes from which it was read.
        deltas: Deltas from outside of the file, such as that of --delta, by their names in messages; None for one that is not given.
    """
    return _with_deltas(tuple(findings(pipeline)), pipeline, data, deltas)


def file_deltas(pipeline: Pipeline, data: bytes, flag: float | None, used: float | None) -> tuple[Diagnostic, ...]:
    """Return the findings of DP105 and DP306 about the deltas of a file and of a flag, for commands that check no other rule.

    Args:
        data: The bytes from which it was read.
        flag: Value of --delta; None if the flag is not given.
        used: Delta of the result; None if the result has no delta, so that there are no findings.
    """
    if used is None:
        return ()
    return _with_deltas(tuple(_findings_of((LARGE_DELTA_CODE, UNKNOWN_SIZE_CODE), pipeline)), pipeline, data, {"--delta": flag})


def _with_deltas(
    broken_rules: tuple[BrokenRule, ...], pipeline: Pipeline, data: bytes, deltas: Mapping[str, float | None]
) -> tuple[Diagnostic, ...]:
    """Return the findings with their places, followed by those about `deltas`.

    If the pipeline itself has a finding of DP306, the dataset size is missing, and the deltas are not judged: they would only repeat it.
    """
    placed = _with_places(broken_rules, pipeline, data) if broken_rules else ()
    if any(diagnostic.rule == UNKNOWN_SIZE_CODE for diagnostic in placed):
        return placed
    return (*placed, *judged_deltas(deltas, pipeline.privacy.dataset_size, _title(pipeline)))


class BrokenRule(NamedTuple):
    """A finding, and the rule that it breaks."""

    info: RuleInfo
    finding: RuleFinding


def findings(pipeline: Pipeline) -> Iterator[BrokenRule]:
    """Yield each finding in a pipeline with its rule, in the order of the codes."""
    yield from _findings_of(checked_codes(bool(pipeline.sections)), pipeline)


def _findings_of(codes: Iterable[str], pipeline: Pipeline) -> Iterator[BrokenRule]:
    for info in map(rule, codes):
        if info.check is not None:
            for finding in info.check(pipeline):
                yield BrokenRule(info, finding)


def _title(pipeline: Pipeline) -> str:
    return "<stdin>" if pipeline.path in (None, "-") else str(pipeline.path)


def _with_places(broken_rules: tuple[BrokenRule, ...], pipeline: Pipeline, data: bytes) -> tuple[Diagnostic, ...]:
    """Return the findings as diagnostics, sorted by place and code.

    A finding about a value that comes from a list or from [defaults] has the place where the file states this value.
    """
    from dpcli.file.toml.shown import key_text
    from dpcli.file.toml.syntax import text_of

    text = text_of(data)
    path_in_file = {broken.finding.path: pipeline.stated_at(broken.finding.path) for broken in broken_rules}
    place_of_path = located(text, path_in_file.values())
    places = {path: place_of_path[stated] for path, stated in path_in_file.items()}
    names = {index: entry.name for index, entry in enumerate(pipeline.mechanisms)}
    lines = text.split("\n")
    title = _title(pipeline)
    diagnostics = []
    for info, finding in sorted(broken_rules, key=lambda broken: (places[broken.finding.path], broken.info.code)):
        line, column = places[finding.path]
        severity = finding.severity or info.severity
        key = key_text(finding.path, names)
        diagnostics.append(Diagnostic(info.code, severity, finding.message, title, key, line, column, lines[line - 1]))
    return tuple(diagnostics)
