"""Reading of pipeline files, which reports every problem at its place in the text, and the search for files in folders."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from dpcli.base.errors import InputError
from dpcli.file.keys.kinds import calibration_weight
from dpcli.file.pipeline.canonical import is_pipeline, pipeline_of
from dpcli.file.pipeline.consistency import values_of
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.section import in_section
from dpcli.file.pipeline.series import find_calibrate, stood_in, substituted
from dpcli.file.toml import syntax
from dpcli.file.toml.findings import Diagnostic, Fault, Findings, InvalidFile, Path, TooMany
from dpcli.file.toml.limits import escaped_path, read_bytes
from dpcli.file.toml.shown import key_text


def load(path: str | os.PathLike[str], substitute: float | None = None) -> Pipeline:
    """Return the pipeline in the file at `path`, or on standard input for "-".

    Args:
        substitute: Number that replaces "calibrate". If it is None, a file that says "calibrate" is refused.

    Raises:
        InputError: If there is no such file, or it is not a regular, readable one.
        InvalidFile: If the file has problems. The error has at most 100 of them, in the order of their positions.
    """
    return parse(read_bytes(path), os.fspath(path), substitute)


def parse(text: bytes, path: str, substitute: float | None = None) -> Pipeline:
    """Return the pipeline in the bytes of a file. path: name of the file in messages. Raises InvalidFile as `load` does."""
    content, tables = _substituted(text, path, substitute)
    values, findings = _checked(tables)
    refuse(findings, tables, content, path)
    return _pipeline(values, tables, text, path)


def examine(text: bytes, path: str) -> tuple[Pipeline | None, tuple[Diagnostic, ...]]:
    """Return the pipeline and a diagnostic for each problem. The pipeline is None if more than sections such as [train] has problems.

    "calibrate" counts as the number 1, or as the sensitivity if that is larger and the key is noise.

    Raises:
        InvalidFile: If the bytes are not TOML.
    """
    content, tables = _stood_in(text, path)
    values, findings = _checked(tables)
    readable = not findings.more and all(in_section(finding.key) for finding in findings.items)
    wrong = (*_diagnostics(findings.items, tables, content, path), *_rest(findings, path)) if findings.items else ()
    return _pipeline(values, tables, text, path) if readable else None, wrong


def faults(text: bytes, path: str) -> tuple[str, Mapping[str, Any], list[Fault]]:
    """Return the text of a file, its tables with plain entries, and its problems by keys of these tables.

    "calibrate" counts as a number, as in `examine`.

    Raises:
        InvalidFile: If the bytes are not TOML.
    """
    content, tables = _stood_in(text, path)
    return content, tables, _checked(tables)[1].items


def section(text: bytes, path: str, name: str) -> Any:
    """Return the value of the section `name`; None if the file has no such section. The whole file is checked as by `parse`.

    "calibrate" counts as a number, as in `examine`. Raises InvalidFile as `load` does.
    """
    content, tables = _stood_in(text, path)
    values, findings = _checked(tables)
    refuse(findings, tables, content, path)
    return values.get(name)


def _substituted(text: bytes, path: str, substitute: float | None) -> tuple[str, Mapping[str, Any]]:
    content, tables = _document(text, path)
    return content, tables if substitute is None else substituted(tables, substitute)


def _stood_in(text: bytes, path: str) -> tuple[str, Mapping[str, Any]]:
    content, tables = _document(text, path)
    return content, stood_in(tables)


def _document(data: bytes, path: str) -> tuple[str, Mapping[str, Any]]:
    """Return the text and the tables of a file. Raises InvalidFile if it is blank, or is another known kind of file."""
    if not data.strip():
        raise InvalidFile((_no_pipeline("standard input with nothing in it" if path == "-" else "an empty file", path),))
    content, tables = toml_document(data, path)
    if not is_pipeline(tables):
        from dpcli.file.pipeline.other_files import other_file

        other = other_file(tables)
        if other is not None:
            raise InvalidFile((_no_pipeline(other, path),))
    return content, tables


def _pipeline(values: Mapping[str, Any], tables: Mapping[str, Any], text: bytes, path: str) -> Pipeline:
    return replace(pipeline_of(values, tables), path=path, sha256=hashlib.sha256(text).hexdigest())


def calibrate_targets(path: str | os.PathLike[str]) -> tuple[tuple[str, str], ...]:
    """Return the keys that say "calibrate", as (name of the mechanism, key). Raises InvalidFile if the file is not TOML."""
    return targets(read_bytes(path), os.fspath(path))


def targets(text: bytes, path: str) -> tuple[tuple[str, str], ...]:
    """Return the keys that say "calibrate" in the bytes of a file, as `calibrate_targets` does for a path."""
    _, tables = toml_document(text, path)
    return tuple((_name(tables["mechanism"][index], index), key) for index, key in find_calibrate(tables))


def weights(text: bytes, path: str) -> dict[str, float]:
    """Return the calibration weight of each mechanism that says "calibrate", by name. It is 1 if the file states no weight."""
    _, tables = toml_document(text, path)
    entries = tables.get("mechanism", ())
    unknowns = ((entries[index], index, key) for index, key in find_calibrate(tables))
    return {_name(table, index): calibration_weight(table[key]) or 1.0 for table, index, key in unknowns if key in table}


def _name(table: Mapping[str, Any], index: int) -> str:
    """Return the name of a mechanism, or its number from 1 if it has no name."""
    return table["name"] if type(table.get("name")) is str else f"mechanism[{index + 1}]"


def toml_document(data: bytes, path: str) -> tuple[str, Mapping[str, Any]]:
    """Return the text of a file and its tables, with lists and defaults expanded. Raises InvalidFile if it is not TOML."""
    try:
        text = syntax.text_of(data)
        return text, _plain(_stated(text))
    except syntax.NotToml as fault:
        from dpcli.file.pipeline.other_files import looks_like

        if (other := looks_like(data, path)) is not None:
            raise InvalidFile((_no_pipeline(f"what looks like {other}", path),)) from None
        source = _line(data.decode(errors="replace"), fault.line)
        raise InvalidFile((Diagnostic("DP001", "error", str(fault), _title(path), "", fault.line, fault.column, source),)) from None


def _no_pipeline(text: str, path: str) -> Diagnostic:
    return Diagnostic("DP001", "error", f"expected a pipeline file, found {text}", _title(path))


@lru_cache(maxsize=1)
def _stated(text: str) -> Mapping[str, Any]:
    """Return the tables of a text as they are written. They are cached, and must not be changed."""
    return syntax.tables_of(text)


def _plain(tables: Mapping[str, Any]) -> Mapping[str, Any]:
    if not _several(tables):
        return tables
    from dpcli.file.pipeline.series import plain_entries

    return plain_entries(tables)


def _several(tables: Mapping[str, Any]) -> bool:
    """Return whether the tables may have abbreviations: a list that makes several entries, or [defaults]."""
    mechanisms = tables.get("mechanism")
    stated = [table for table in mechanisms if type(table) is dict] if type(mechanisms) is list else []
    inner = (table["sampling"] for table in stated if type(table.get("sampling")) is dict)
    return "defaults" in tables or any(type(value) is list for table in (*stated, *inner) for value in table.values())


def located(text: str, paths: Iterable[Path]) -> dict[Path, tuple[int, int]]:
    """Return the line and column of keys of plain entries, in a text that is valid TOML."""
    from dpcli.file.toml.positions import locate

    stated = _stated(text)
    if not _several(stated):
        return locate(text, paths)
    from dpcli.file.pipeline.series import written

    paths = tuple(paths)
    places = dict(zip(paths, written(stated, paths), strict=True))
    result = locate(text, places.values())
    return {path: result[place] for path, place in places.items()}


def refuse(findings: Findings, tables: Mapping[str, Any], text: str, path: str) -> None:
    """Raise InvalidFile with all findings at their places in the text. If there are none, do nothing."""
    if findings.items:
        raise InvalidFile((*_diagnostics(findings.items, tables, text, path), *_rest(findings, path)))


def _checked(tables: Mapping[str, Any]) -> tuple[Mapping[str, Any], Findings]:
    """Return the values that can be read, and a finding for everything else."""
    findings = Findings()
    try:
        return values_of(tables, findings), findings
    except TooMany:
        return {}, findings


def _diagnostics(findings: list[Fault], tables: Mapping[str, Any], text: str, path: str) -> tuple[Diagnostic, ...]:
    """Return the findings as diagnostics, in the order of their places in the text."""
    places = located(text, [finding.key for finding in findings])
    names, lines = _names(tables), text.split("\n")
    result = []
    for finding in sorted(findings, key=lambda finding: places[finding.key]):
        line, column = places[finding.key]
        key = key_text(finding.key, names)
        result.append(Diagnostic(finding.rule, "error", finding.message, _title(path), key, line, column, lines[line - 1]))
    return tuple(result)


def _rest(findings: Findings, path: str) -> tuple[Diagnostic, ...]:
    words = f"expected at most {len(findings)} problems, found more; the others are not listed"
    return (Diagnostic("DP001", "error", words, _title(path)),) if findings.more else ()


def _names(tables: Mapping[str, Any]) -> dict[int, str]:
    """Return the names of mechanisms, by position."""
    mechanisms = tables.get("mechanism")
    stated = enumerate(mechanisms if type(mechanisms) is list else ())
    names = {index: table.get("name") for index, table in stated if type(table) is dict}
    return {index: name for index, name in names.items() if type(name) is str and name}


def _line(text: str, line: int) -> str:
    return text.replace("\r\n", "\n").split("\n")[line - 1] if line else ""


def _title(path: str) -> str:
    return "<stdin>" if path == "-" else path


UNSEARCHED = frozenset({".git"})  # folders that are not searched


def unfolded(paths: Sequence[str], wanted: Callable[[Mapping[str, Any]], bool]) -> tuple[str, ...]:
    """Return the paths with each folder replaced by the wanted *.toml files in it, in order and without duplicates.

    Links are followed, and hidden folders are searched. A file that is not TOML or cannot be read is included, as it may be a pipeline. A
    folder without such files stays in the list, and fails when it is read.

    Raises:
        InputError: If a folder cannot be listed.
    """
    result: dict[str, str] = {}
    for path in paths:
        for name in (list(_wanted(path, wanted)) if os.path.isdir(path) else []) or [path]:
            result.setdefault(name if name == "-" else os.path.abspath(name), name)
    return tuple(result.values())


def may_be_pipeline(tables: Mapping[str, Any]) -> bool:
    """Return whether a file may be a pipeline. A file with misspelt tables may be one, so that none is skipped."""
    if is_pipeline(tables) or "format" not in tables:
        return is_pipeline(tables)
    from dpcli.file.pipeline.other_files import misspelt_pipeline

    return misspelt_pipeline(tables)


def toml_name(name: str) -> bool:
    """Return whether a file's name ends in .toml, in any letter case, as some file systems know only one case."""
    return name.lower().endswith(".toml")


def below(path: str, folder: str) -> bool:
    """Return whether a path is in a folder, after following links. Neither has to exist."""
    inside, around = os.path.realpath(path), os.path.realpath(folder)
    return os.path.commonpath((inside, around)) == around


def _wanted(folder: str, wanted: Callable[[Mapping[str, Any]], bool]) -> Iterator[str]:
    """Yield the *.toml files in a folder that are wanted, or cannot be read."""
    for name in _below(folder):
        try:
            _, tables = toml_document(read_bytes(name), name)
        except InputError:
            yield name
            continue
        if wanted(tables):
            yield name


def _below(folder: str) -> Iterator[str]:
    """Yield every *.toml file in a folder and its subfolders. A folder with several links to it is searched once."""
    known = {os.path.realpath(folder)}

    def refuse(error: OSError) -> None:
        raise InputError(f"{escaped_path(os.fsdecode(error.filename))}: expected a folder that can be listed; {error.strerror}")

    for place, inner, names in os.walk(folder, onerror=refuse, followlinks=True):
        fresh = [
            name for name in sorted(inner) if name not in UNSEARCHED and os.path.realpath(os.path.join(place, name)) not in known
        ]
        known.update(os.path.realpath(os.path.join(place, name)) for name in fresh)
        inner[:] = fresh
        yield from (os.path.join(place, name) for name in sorted(names) if toml_name(name))
