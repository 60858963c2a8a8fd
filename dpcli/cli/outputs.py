"""Checks of the files that a command writes, made before anything is charged: no output may replace an input or a ledger."""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import IO, Any

import click

from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.registry import CHART_FORMATS, FORMATS, LEFT_BY_RUN, RELEASED, SECTIONS, TAKEN_FOR_DATA
from dpcli.cli.printing import show, standard_error

DATA_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".duckdb", ".db")  # as in dpcli.release.engines.files
DATABASE = b"SQLite format 3\0"  # the first bytes of a ledger in a file, and of every other SQLite database
DATABASE_ENDINGS = ("", "-journal", "-wal", "-shm")  # the files of a database
PROTECTED = "dpcli.kept"
NO_INPUTS = frozenset({"output", "outputs", "pictures", "format_", "parquet"})  # parameters of outputs
SCHEDULE_TABLE = "run"  # which names planned files
QUOTED = re.compile(r'"([^"\n]*)"|' + r"'([^'\n]*)'")
LARGEST_HINTED_DELTA = 1e-6  # of a hint; smaller for more than 10^5 records
PICTURE_ENDINGS = {".svg": "svg", ".png": "png", ".csv": "csv", ".vl.json": "vega-lite", ".json": "vega-lite", ".txt": "terminal"}
PICTURES_ALONE = (".svg", ".png", ".vl.json")  # endings that no document has


def as_picture(output: str) -> str | None:
    """Return a picture as FORMAT=PATH; None for an output that may be a document."""
    name, equals, path = output.partition("=")
    if path and name in CHART_FORMATS and name not in FORMATS:
        return output
    if equals:
        return None
    return next((f"{PICTURE_ENDINGS[end]}={output}" for end in PICTURES_ALONE if output.lower().endswith(end)), None)


def split_pictures(outputs: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the pictures and the documents among outputs."""
    pictures = tuple(output for output in outputs if as_picture(output))
    return pictures, tuple(output for output in outputs if output not in pictures)


def protect(paths: Iterable[str]) -> None:
    """Protect these files from every output of the running command."""
    click.get_current_context().meta[PROTECTED] = tuple(paths)


def has_protected() -> bool:
    """Return whether the running command has named its protected files."""
    context = click.get_current_context(silent=True)
    return context is not None and PROTECTED in context.meta


def may_be_data(path: str) -> bool:
    """Return whether an existing file could be data of a release, by its name or that of its target."""
    names = (path.lower(), os.path.realpath(path).lower())
    return os.path.lexists(path) and any(name.endswith(DATA_ENDINGS) for name in names)


def require_free(path: str) -> None:
    """Raises InputError for a protected file, however it is spelled, and for a file of a ledger or another SQLite database."""
    context = click.get_current_context(silent=True)
    protected: tuple[str, ...] = () if context is None else context.meta.get(PROTECTED, ())
    if any(same_file(path, input_path) for input_path in protected):
        raise InputError(f"{path}: expected another path for the output, found one that dpcli keeps")
    if any(is_of_database(name) for name in (path, os.path.realpath(path))):
        raise InputError(f"{path}: expected another path for the output, found a ledger or another database of SQLite")


def is_of_database(path: str) -> bool:
    """Return whether the path is a readable SQLite database, or a file that SQLite has or would put next to one."""
    for ending in DATABASE_ENDINGS:
        base = path.removesuffix(ending)
        if path.endswith(ending) and os.path.isfile(base):
            with suppress(OSError), open(base, "rb") as file:
                if file.read(len(DATABASE)) == DATABASE:
                    return True
    return False


def same_file(path: str, other: str) -> bool:
    """Return whether two paths are one file, or would be one."""
    if os.path.exists(path) and os.path.exists(other):
        return os.path.samefile(path, other)
    return os.path.realpath(path) == os.path.realpath(other)


def inputs() -> Iterator[str]:
    """Yield each text among the command's arguments that names no output: files, a ledger, a policy, a baseline."""
    context = click.get_current_context()
    for parameter in context.command.params:
        given = context.params.get(parameter.name or "")
        values = given if isinstance(given, tuple) else (given,)
        if parameter.name not in NO_INPUTS:
            yield from (text for text in values if isinstance(text, str))


def require_no_input(path: str, texts: Iterable[str]) -> None:
    """Raises InputError if an output would replace an input that a text names, or a file that such an input names."""
    for text in texts:
        files = ledger_files(text)
        if os.path.exists(files[0]) and any(same_file(path, file) for file in files):
            raise InputError(f"{path}: expected another path for the output, found the input file")
        if load(LEFT_BY_RUN)(text, path):
            raise InputError(f"{path}: expected another path for the output, found a file of the run in {text}")
        if _input_names(text, path):
            raise InputError(f"{path}: expected another path for the output, found a file that {text} names")


def ledger_files(ledger: str) -> tuple[str, ...]:
    """Return the files of a ledger in SQLite, by its path or URL (sqlite:///PATH)."""
    path = ledger.removeprefix("sqlite:///")
    return tuple(path + ending for ending in DATABASE_ENDINGS)


def require_writable(paths: Iterable[str]) -> None:
    """Raises InputError for the first output that could not or must not be written."""
    for path in paths:
        require_no_input(path, inputs())
        require_free(path)
        folder = os.path.dirname(path) or "."
        if os.path.isdir(path):
            raise InputError(f"{path}: cannot be written: Is a directory")
        if not os.path.isdir(folder):
            raise InputError(f"{path}: cannot be written: No such file or directory")
        if not os.access(path if os.path.exists(path) else folder, os.W_OK):
            raise InputError(f"{path}: cannot be written: Permission denied")


def _input_names(given: str, path: str) -> bool:
    """Return whether an input file names the file at `path` (data, scores, votes), or would take it for data."""
    folder = os.getcwd() if given == "-" else os.path.dirname(os.path.abspath(given))
    tables = _tables(given)
    places = (os.path.join(folder, text) for text in _texts(tables))
    if os.path.exists(path) and any(os.path.exists(place) and os.path.samefile(path, place) for place in places):
        return True
    pattern = _table(tables, "source").get("path")
    if not isinstance(pattern, str) or "\0" in pattern:
        return False
    return bool(load(TAKEN_FOR_DATA)(path, pattern, folder))


def _tables(given: str) -> Mapping[str, Any]:
    """Read the tables of an input that name files; of a broken pipeline file, every quoted text."""
    from dpcli.file.pipeline.read import toml_document
    from dpcli.file.toml.findings import InvalidFile
    from dpcli.file.toml.limits import read_again

    try:
        data = read_again(given)
    except InputError:
        return {}
    try:
        tables = toml_document(data, given)[1]
    except InvalidFile:
        if given != "-" and not given.endswith(".toml"):  # a ledger, scores: no pipeline file
            return {}
        return {"quoted": [match[1] or match[2] for match in QUOTED.finditer(os.fsdecode(data))]}
    return {name: tables[name] for name in (*SECTIONS, *RELEASED, SCHEDULE_TABLE) if name in tables}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(inner)


def path_or_stdout(_context: click.Context, _option: click.Parameter, path: str | None) -> str | None:
    """Return the path of a new file; None for "-", which is standard output."""
    return None if path == "-" else path


new_file_option = click.option(
    "-o",
    "--output",
    metavar="PATH",
    callback=path_or_stdout,
    help="Write to PATH, which must not exist; standard output where absent, or for -.",
)


def write_new(path: str | None, text: str, data: bytes | None = None, then: str = "") -> None:
    """Write a text, or other `data`, to a new file, and print that, followed by `then`; print the text if there is no path.

    Raises InputError if the file exists, cannot be written, or is one that SQLite would keep next to a ledger.
    """
    if path is None:
        show(text)
        return
    require_free(path)
    try:
        with open(path, "xb") as file:
            _write_all(path, file, text.encode() if data is None else data)
    except FileExistsError:
        what = "a directory" if os.path.isdir(path) else "a file"
        raise InputError(f"{path}: expected a path that does not exist yet, found {what}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
    settings = getattr(click.get_current_context(silent=True), "obj", None)
    if settings is None or not settings.quiet:
        with standard_error():
            click.echo(f"wrote {path}{then}", err=True)


def _write_all(path: str, file: IO[bytes], data: bytes) -> None:
    """Write all of the data, or leave no file."""
    try:
        file.write(data)
        file.flush()
    except BaseException:
        with suppress(OSError):
            os.unlink(path)
        raise


def write_new_pipeline(path: str | None, text: str) -> None:
    """Print a pipeline file, or write it to a new file and say which command reads it."""
    then = "" if path is None else f"; next: dpcli account {shlex.quote(path)}{_delta_flag(text)}"
    write_new(path, text, then=then)


def _delta_flag(text: str) -> str:
    """Return the flag that `dpcli account` needs for a file that states no delta."""
    import tomli

    tables = tomli.loads(text)
    privacy, budget = (_table(tables, name) for name in ("privacy", "budget"))
    if "delta" in privacy or "delta" in budget:
        return ""
    size = privacy.get("dataset_size")
    small = 10.0 ** -(math.floor(math.log10(size)) + 2) if type(size) is int and size > 0 else LARGEST_HINTED_DELTA
    return f" --delta {min(LARGEST_HINTED_DELTA, small):g}"


def _table(tables: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = tables.get(name)
    return value if isinstance(value, dict) else {}
