"""Reading of pipeline files, and the search for pipeline files in folders. Problems are reported at their places in the text.

The steps are: bytes to text and TOML tables (toml/syntax.py); tables with lists and [defaults] expanded into one entry each (series.py);
values and findings for each key (consistency.py); and the `Pipeline`, if nothing is wrong. A *finding* is a problem with its key, and
becomes a `Diagnostic` with line and column. A number may be "calibrate", which asks dpcli to solve for it; the value is replaced by a
number here (placeholders.py).

`load` and `parse` are strict: commands that charge or price use them. `examine` returns a pipeline in spite of wrong *sections*, which are
tables such as [train] that one command reads and that do not affect the price; lint uses it. Nothing is guessed: a key that is unknown or
wrong refuses the file. `path` is always the name of the file in messages, and "-" stands for standard input.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from dpcli.base.errors import InputError
from dpcli.file.keys.kinds import calibration_weight
from dpcli.file.pipeline.canonical import is_pipeline, pipeline_of
from dpcli.file.pipeline.consistency import values_of
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.placeholders import find_calibrate, with_number, with_placeholders
from dpcli.file.pipeline.section import in_section
from dpcli.file.toml import syntax
from dpcli.file.toml.findings import Diagnostic, Findings, InvalidFile, Path, TooMany
from dpcli.file.toml.limits import escaped_path, read_bytes
from dpcli.file.toml.shown import key_text

UNSEARCHED = frozenset({".git"})  # names of folders that are not searched, because users do not write pipelines there


class TomlDocument(NamedTuple):
    """The text of a file with "\\n" as line ends, and its tables, in which lists and defaults are expanded."""

    text: str
    tables: Mapping[str, Any]


class CheckedDocument(NamedTuple):
    """A document, the top-level values that can be read, and a finding for everything else."""

    document: TomlDocument
    values: Mapping[str, Any]
    findings: Findings


class Examined(NamedTuple):
    """The pipeline in a file, and a diagnostic for each problem.

    The pipeline is None if a problem is outside of sections such as [train].
    """

    pipeline: Pipeline | None
    diagnostics: tuple[Diagnostic, ...]


def load(path: str | os.PathLike[str], substitute: float | None = None) -> Pipeline:
    """Return the pipeline in the file at `path`, or on standard input for "-".

    Args:
        substitute: Number that replaces "calibrate". If it is None, a file that contains "calibrate" is refused.

    Raises:
        InputError: There is no such file, or it is not a regular, readable file.
        InvalidFile: The file has problems. The error lists at most 100 of them, in the order of their positions.
    """
    return parse(read_bytes(path), os.fspath(path), substitute)


def parse(data: bytes, path: str, substitute: float | None = None) -> Pipeline:
    """Return the pipeline in the bytes of a file. Raises InvalidFile, with at most 100 problems, if it has problems."""
    document = _pipeline_document(data, path)
    if substitute is not None:
        document = document._replace(tables=with_number(document.tables, substitute))
    checked = _checked(document)
    refuse(checked.findings, document.tables, document.text, path)
    return _pipeline(checked, data, path)


def examine(data: bytes, path: str) -> Examined:
    """Return the pipeline in the bytes of a file, and its problems.

    A number replaces each "calibrate": 1 or, if the key is the noise, the sensitivity if that is larger.

    Raises InvalidFile if the bytes are blank, not TOML, or a file of another kind.
    """
    checked = checked_document(data, path)
    findings, document = checked.findings, checked.document
    # If there are more findings than are listed, one of the others may be outside of sections.
    is_readable = not findings.more and all(in_section(finding.key) for finding in findings.items)
    pipeline = _pipeline(checked, data, path) if is_readable else None
    return Examined(pipeline, _all_diagnostics(findings, document.tables, document.text, path))


def checked_document(data: bytes, path: str) -> CheckedDocument:
    """Return the document in the bytes of a file, its values and its findings. A number replaces each "calibrate", as in `examine`.

    Raises InvalidFile if the bytes are blank, not TOML, or a file of another kind.
    """
    document = _pipeline_document(data, path)
    return _checked(document._replace(tables=with_placeholders(document.tables)))


def section(data: bytes, path: str, name: str) -> Any:
    """Return the value of the section `name`; None if the file has no such section. The whole file is checked as in `parse`.

    A number replaces each "calibrate", as in `examine`. Raises InvalidFile if the file has problems, in this section or elsewhere.
    """
    document, values, findings = checked_document(data, path)
    refuse(findings, document.tables, document.text, path)
    return values.get(name)


def _pipeline_document(data: bytes, path: str) -> TomlDocument:
    """Return the document in the bytes of a file. Raises InvalidFile if the file is blank, not TOML, or of another known kind.

    A TOML file of an unknown kind is returned: its findings say which keys a pipeline needs.
    """
    if not data.strip():
        raise InvalidFile((_no_pipeline("empty standard input" if path == "-" else "an empty file", path),))
    document = toml_document(data, path)
    if not is_pipeline(document.tables):
        from dpcli.file.pipeline.other_files import other_file

        other = other_file(document.tables)
        if other is not None:
            raise InvalidFile((_no_pipeline(other, path),))
    return document


def _pipeline(checked: CheckedDocument, data: bytes, path: str) -> Pipeline:
    """Return the pipeline of a document, with the path and the SHA-256 of its file."""
    return replace(pipeline_of(checked.values, checked.document.tables), path=path, sha256=hashlib.sha256(data).hexdigest())


def targets(data: bytes, path: str) -> tuple[tuple[str, str], ...]:
    """Return the keys whose value is "calibrate", as (name of the mechanism, key). Raises InvalidFile if the file is not TOML."""
    tables = toml_document(data, path).tables
    return tuple((_name_or_number(tables["mechanism"][index], index), key) for index, key in find_calibrate(tables))


def weights(data: bytes, path: str) -> dict[str, float]:
    """Return the calibration weight of each mechanism with "calibrate", by name. The weight is 1 if the file states none.

    Raises InvalidFile if the file is not TOML.
    """
    tables = toml_document(data, path).tables
    result = {}
    for index, key in find_calibrate(tables):
        table = tables["mechanism"][index]
        if key in table:  # False for "sampling.KEY": a weight in the sampling table is not read
            result[_name_or_number(table, index)] = calibration_weight(table[key]) or 1.0
    return result


def _name_or_number(table: Mapping[str, Any], index: int) -> str:
    """Return the name of a mechanism, or its number from 1 if it has no name."""
    return table["name"] if type(table.get("name")) is str else f"mechanism[{index + 1}]"


def toml_document(data: bytes, path: str) -> TomlDocument:
    """Return the document in the bytes of a file. Raises InvalidFile if the file is not TOML."""
    try:
        text = syntax.text_of(data)
        return TomlDocument(text, _expanded(_written_tables(text)))
    except syntax.NotToml as fault:
        from dpcli.file.pipeline.other_files import looks_like

        kind = looks_like(data, path)
        if kind is not None:
            raise InvalidFile((_no_pipeline(f"a file that looks like {kind}", path),)) from None
        source = _line(data.decode(errors="replace"), fault.line)
        diagnostic = Diagnostic("DP001", "error", str(fault), _title(path), "", fault.line, fault.column, source)
        raise InvalidFile((diagnostic,)) from None


def _no_pipeline(actual: str, path: str) -> Diagnostic:
    """Return the problem (rule DP001) that a file is no pipeline but `actual`, such as "an empty file"."""
    return Diagnostic("DP001", "error", f"expected a pipeline file, found {actual}", _title(path))


@lru_cache(maxsize=1)
def _written_tables(text: str) -> Mapping[str, Any]:
    """Return the tables of a text without expansion. Those of the last text are cached, so the caller must not change them.

    They are needed for the values of a file, and again for the places of its findings (`located`): the cache spares a second parse.
    """
    return syntax.tables_of(text)


def _expanded(tables: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the tables with one entry for each value of a list, and with the defaults in the entries."""
    if not _has_abbreviations(tables):
        return tables
    from dpcli.file.pipeline.series import plain_entries

    return plain_entries(tables)


def _has_abbreviations(tables: Mapping[str, Any]) -> bool:
    """Return whether the tables may have abbreviations: a list that makes several entries, or [defaults]."""
    if "defaults" in tables:
        return True
    mechanisms = tables.get("mechanism")
    entries = [table for table in mechanisms if type(table) is dict] if type(mechanisms) is list else []
    samplings = [entry["sampling"] for entry in entries if type(entry.get("sampling")) is dict]
    return any(type(value) is list for table in (*entries, *samplings) for value in table.values())


def located(text: str, paths: Iterable[Path]) -> dict[Path, tuple[int, int]]:
    """Return the line and column of each key in a text. The paths are those in the expanded tables.

    Keys of several entries may have one place: a key of [defaults], or of a table with lists.
    """
    from dpcli.file.toml.positions import locate

    written = _written_tables(text)
    if not _has_abbreviations(written):
        return locate(text, paths)
    from dpcli.file.pipeline.series import written_paths

    paths = tuple(paths)
    written_path = dict(zip(paths, written_paths(written, paths), strict=True))
    places = locate(text, written_path.values())
    return {path: places[written_path[path]] for path in paths}


def refuse(findings: Findings, tables: Mapping[str, Any], text: str, path: str) -> None:
    """Raise InvalidFile with all findings at their places in the text, if there are any."""
    if findings.items:
        raise InvalidFile(_all_diagnostics(findings, tables, text, path))


def _checked(document: TomlDocument) -> CheckedDocument:
    """Return the document with its values and findings. It has no values if there are too many findings."""
    findings = Findings()
    try:
        values: Mapping[str, Any] = values_of(document.tables, findings)
    except TooMany:
        values = {}
    return CheckedDocument(document, values, findings)


def _all_diagnostics(findings: Findings, tables: Mapping[str, Any], text: str, path: str) -> tuple[Diagnostic, ...]:
    """Return the findings as diagnostics, in the order of the text. A last one says that there are more problems than are listed."""
    if not findings.items:
        return ()
    places = located(text, [finding.key for finding in findings.items])
    names, lines = _names_by_position(tables), text.split("\n")
    result = []
    for finding in sorted(findings.items, key=lambda finding: places[finding.key]):
        line, column = places[finding.key]
        key = key_text(finding.key, names)
        result.append(Diagnostic(finding.rule, "error", finding.message, _title(path), key, line, column, lines[line - 1]))
    if findings.more:
        message = f"expected at most {len(findings)} problems, found more; the others are not listed"
        result.append(Diagnostic("DP001", "error", message, _title(path)))
    return tuple(result)


def _names_by_position(tables: Mapping[str, Any]) -> dict[int, str]:
    """Return the names of mechanisms by their 0-based position. A mechanism without a valid name is left out."""
    mechanisms = tables.get("mechanism")
    result = {}
    for index, table in enumerate(mechanisms if type(mechanisms) is list else ()):
        name = table.get("name") if type(table) is dict else None
        if type(name) is str and name:
            result[index] = name
    return result


def _line(text: str, line: int) -> str:
    """Return a line of a text by its number from 1; "" for the number 0."""
    return text.replace("\r\n", "\n").split("\n")[line - 1] if line else ""


def _title(path: str) -> str:
    """Return the name of a file for a `Diagnostic`, which escapes it when it is printed."""
    return "<stdin>" if path == "-" else path


def expand_folders(paths: Sequence[str], wanted: Callable[[Mapping[str, Any]], bool]) -> tuple[str, ...]:
    """Return the paths with each folder replaced by the *.toml files in it whose tables satisfy `wanted`, in order, without duplicates.

    Links are followed, and hidden folders are searched. A file that is not TOML or cannot be read is included, because it may be a damaged
    pipeline. A folder without such files stays in the list, so that reading it reports an error. Raises InputError if a folder cannot be
    listed.
    """
    first_spelling: dict[str, str] = {}  # the path as it was given or found first, by the absolute path
    for path in paths:
        files = list(_wanted_files(path, wanted)) if os.path.isdir(path) else []
        for name in files or [path]:
            first_spelling.setdefault(name if name == "-" else os.path.abspath(name), name)
    return tuple(first_spelling.values())


def may_be_pipeline(tables: Mapping[str, Any]) -> bool:
    """Return whether a file is a pipeline, or a pipeline with mistyped names of tables."""
    if is_pipeline(tables):
        return True
    if "format" not in tables:
        return False
    from dpcli.file.pipeline.other_files import misspelt_pipeline

    return misspelt_pipeline(tables)


def toml_name(name: str) -> bool:
    """Return whether the name of a file ends in .toml, in upper or lower case."""
    return name.lower().endswith(".toml")


def is_in_folder(path: str, folder: str) -> bool:
    """Return whether a path is a folder or is in it, after links are followed. Neither needs to exist."""
    real_path, real_folder = os.path.realpath(path), os.path.realpath(folder)
    return os.path.commonpath((real_path, real_folder)) == real_folder


def _wanted_files(folder: str, wanted: Callable[[Mapping[str, Any]], bool]) -> Iterator[str]:
    """Yield the *.toml files in a folder that are wanted or cannot be read."""
    for name in _toml_files(folder):
        try:
            tables = toml_document(read_bytes(name), name).tables
        except InputError:
            yield name
            continue
        if wanted(tables):
            yield name


def _toml_files(folder: str) -> Iterator[str]:
    """Yield every *.toml file in a folder and its subfolders. A folder that can be reached by several links is searched once."""
    searched = {os.path.realpath(folder)}

    def refuse_folder(error: OSError) -> None:
        raise InputError(f"{escaped_path(os.fsdecode(error.filename))}: expected a folder that can be listed; {error.strerror}")

    for place, folders, files in os.walk(folder, onerror=refuse_folder, followlinks=True):
        to_search = []
        for name in sorted(set(folders) - UNSEARCHED):
            real_path = os.path.realpath(os.path.join(place, name))
            if real_path not in searched:
                searched.add(real_path)
                to_search.append(name)
        folders[:] = to_search  # os.walk continues with these
        yield from (os.path.join(place, name) for name in sorted(files) if toml_name(name))
