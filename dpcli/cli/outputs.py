"""Checks that no output of a command replaces an input, private data or a ledger: a mistyped -o must not destroy what cannot be made again.

An *output* is one -o of a command, written FORMAT=PATH: a document, or a picture. Before a file is written, document_files.py asks
`require_no_input`, which looks for inputs among the arguments of the command and the paths that an input file names, and
`require_unprotected`, which refuses the files of ledgers and those that the command declared (`protect`). `require_writable` makes these
checks without writing: dpcli release calls it before it charges a ledger for answers that could not be written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import click

from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.registry import CHART_FORMATS, FORMATS, LEFT_BY_RUN, RELEASED, SECTIONS, TAKEN_FOR_DATA

# Endings of files that dpcli release reads: the keys of `ENDINGS` in dpcli.release.engines.source_files. A test compares the two.
DATA_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".duckdb", ".db")
DATABASE = b"SQLite format 3\0"  # the first bytes of every SQLite database, such as a ledger
DATABASE_ENDINGS = ("", "-journal", "-wal", "-shm")  # endings of the files that SQLite may keep for a database
PROTECTED = "dpcli.kept"  # key of the paths that the running command protects, in the metadata of its Click context
NO_INPUTS = frozenset({"output", "outputs", "pictures", "format_", "parquet"})  # parameters whose texts name outputs or formats
SCHEDULE_TABLE = "run"  # the tables [[run]] of a schedule name pipeline files
# A text in single or double quotes. It finds the paths in a pipeline file that has errors.
QUOTED = re.compile(r'"([^"\n]*)"|' + r"'([^'\n]*)'")
# The chart format for each ending of a picture. `picture.py` takes the first ending that fits, so .vl.json stands before .json.
PICTURE_ENDINGS = {".svg": "svg", ".png": "png", ".csv": "csv", ".vl.json": "vega-lite", ".json": "vega-lite", ".txt": "terminal"}
PICTURES_ALONE = (".svg", ".png", ".vl.json")  # endings of pictures that are not endings of documents


def as_picture(output: str) -> str | None:
    """Return a picture as FORMAT=PATH; None for an output that may be a document.

    An output is a picture if it names a format that only charts have or, without "=", if its path ends in one of PICTURES_ALONE.
    """
    name, equals, path = output.partition("=")
    if path and name in CHART_FORMATS and name not in FORMATS:
        return output
    if equals:
        return None
    ending = next((ending for ending in PICTURES_ALONE if output.lower().endswith(ending)), None)
    return None if ending is None else f"{PICTURE_ENDINGS[ending]}={output}"


def split_pictures(outputs: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the pictures and the documents among outputs, each as the user wrote it."""
    pictures = tuple(output for output in outputs if as_picture(output))
    return pictures, tuple(output for output in outputs if output not in pictures)


def protect(paths: Iterable[str]) -> None:
    """Protect these files, in place of those of an earlier call, from every output of the running command."""
    click.get_current_context().meta[PROTECTED] = tuple(paths)


def has_protected() -> bool:
    """Return whether the running command has called `protect`; False if no command runs."""
    context = click.get_current_context(silent=True)
    return context is not None and PROTECTED in context.meta


def may_be_data(path: str) -> bool:
    """Return whether a path exists and may be data of a release, judged by its name or, for a link, also by the name of its target."""
    has_name_of_data = any(name.lower().endswith(DATA_ENDINGS) for name in (path, os.path.realpath(path)))
    return has_name_of_data and os.path.lexists(path)


def require_unprotected(path: str) -> None:
    """Raise InputError if a path is a protected file, or a file of a ledger or of another SQLite database."""
    context = click.get_current_context(silent=True)
    protected: tuple[str, ...] = () if context is None else context.meta.get(PROTECTED, ())
    if any(same_file(path, input_path) for input_path in protected):
        raise InputError(f"{path}: expected another path for the output, found a file that dpcli needs")
    if any(is_database_file(name) for name in (path, os.path.realpath(path))):
        raise InputError(f"{path}: expected another path for the output, found a ledger or another SQLite database")


def is_database_file(path: str) -> bool:
    """Return whether the path is a readable SQLite database, or the name of a file that SQLite may keep next to one."""
    bases = [path.removesuffix(ending) for ending in DATABASE_ENDINGS if path.endswith(ending)]
    return any(_first_bytes(base) == DATABASE for base in bases if os.path.isfile(base))


def _first_bytes(path: str) -> bytes:
    """Return as many bytes as DATABASE has; none if the file cannot be read."""
    with suppress(OSError), open(path, "rb") as file:
        return file.read(len(DATABASE))
    return b""


def same_file(path: str, other: str) -> bool:
    """Return whether two paths are the same file. If one does not exist, their names are compared after links are followed."""
    if os.path.exists(path) and os.path.exists(other):
        return os.path.samefile(path, other)
    return os.path.realpath(path) == os.path.realpath(other)


def possible_inputs() -> Iterator[str]:
    """Yield each text among the arguments and options of the running command that may name an input: all except those of `NO_INPUTS`.

    Many of these texts are paths of inputs: files, a ledger, a policy or a baseline.
    """
    context = click.get_current_context()
    for parameter in context.command.params:
        given = context.params.get(parameter.name or "")
        values = given if isinstance(given, tuple) else (given,)
        if parameter.name not in NO_INPUTS:
            yield from (text for text in values if isinstance(text, str))


def require_no_input(path: str, texts: Iterable[str]) -> None:
    """Raise InputError if an output would replace an input, a file of a run in an input, or a file that an input names.

    A *run* is the folder that `dpcli train` and similar commands write. LEFT_BY_RUN names a function of another package, which recognises
    the files of a run; `load` imports it only now.

    Args:
        texts: Texts that may be paths of inputs.
    """
    for text in texts:
        files = ledger_files(text)
        if os.path.exists(files[0]) and any(same_file(path, file) for file in files):
            raise InputError(f"{path}: expected another path for the output, found the input file")
        if load(LEFT_BY_RUN)(text, path):
            raise InputError(f"{path}: expected another path for the output, found a file of the run in {text}")
        if _names_file(text, path):
            raise InputError(f"{path}: expected another path for the output, found a file that {text} names")


def ledger_files(ledger: str) -> tuple[str, ...]:
    """Return the file of an SQLite ledger, which is given by its path or as sqlite:///PATH, and the files that SQLite may keep for it."""
    path = ledger.removeprefix("sqlite:///")
    return tuple(path + ending for ending in DATABASE_ENDINGS)


def require_writable(paths: Iterable[str]) -> None:
    """Raise InputError for the first output that cannot be written or must not be replaced. A command must be running."""
    for path in paths:
        require_no_input(path, possible_inputs())
        require_unprotected(path)
        folder = os.path.dirname(path) or "."
        if os.path.isdir(path):
            raise InputError(f"{path}: cannot be written: Is a directory")
        if not os.path.isdir(folder):
            raise InputError(f"{path}: cannot be written: No such file or directory")
        if not os.access(path if os.path.exists(path) else folder, os.W_OK):
            raise InputError(f"{path}: cannot be written: Permission denied")


def _names_file(given: str, path: str) -> bool:
    """Return whether the input file `given` names the existing file at `path`, or has a pattern that would take it for data.

    Paths in an input are relative to its folder.
    """
    folder = os.getcwd() if given == "-" else os.path.dirname(os.path.abspath(given))
    tables = _tables(given)
    if os.path.exists(path):
        named_paths = [os.path.join(folder, text) for text in _texts(tables)]
        if any(os.path.exists(name) and os.path.samefile(path, name) for name in named_paths):
            return True
    pattern = table_named(tables, "source").get("path")  # of the data of dpcli release, such as "visits/*.csv"
    if not isinstance(pattern, str) or "\0" in pattern:
        return False
    return bool(load(TAKEN_FOR_DATA)(path, pattern, folder))  # the function that finds the data for the pattern


def _tables(given: str) -> Mapping[str, Any]:
    """Return the tables of an input file that may name other files: sections such as [train], tables of a release, and runs of a schedule.

    If standard input or a .toml file has errors, all quoted texts in it are returned as a list under the key "quoted", since its tables are
    not known. For an input that cannot be read, or that is neither TOML nor named *.toml, the result is empty.
    """
    from dpcli.file.pipeline.read import toml_document
    from dpcli.file.toml.findings import InvalidFile
    from dpcli.file.toml.limits import read_again

    try:
        data = read_again(given)
    except InputError:
        return {}
    try:
        tables = toml_document(data, given).tables
    except InvalidFile:
        if given != "-" and not given.endswith(".toml"):  # such as a ledger or scores
            return {}
        return {"quoted": [match[1] or match[2] for match in QUOTED.finditer(os.fsdecode(data))]}
    return {name: tables[name] for name in (*SECTIONS, *RELEASED, SCHEDULE_TABLE) if name in tables}


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in a value of a file, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(inner)


def table_named(tables: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the table of this name; an empty table if there is none."""
    value = tables.get(name)
    return value if isinstance(value, dict) else {}
