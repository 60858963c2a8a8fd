"""The sources that [train] may name, and digests of their content.

A source is a word that a task defines ("digits"), a file ("people.csv"), or a function of the user's own ("package.module:function"). The
digests tell a resumed run whether code or data have changed since the run began (`TrainingPlan.parts` in plan/plan.py).
"""

from __future__ import annotations

import filecmp
import os
import re
from collections.abc import Mapping
from typing import Any

from dpcli.audit.own_code import code_files, digest_of_files
from dpcli.base.errors import InputError
from dpcli.base.fields import Constraint

NAME = r"[^\s:./\\()]+"  # name of a module or a function; it is not a path and not a call
CALLED = rf"{NAME}(\.{NAME})*:{NAME}"
FUNCTION = Constraint("module:function", lambda x: re.fullmatch(CALLED, x) is not None, (("pattern", f"^{CALLED}$"),))
HELD_OUT = "held-out"

SOURCES = ("data", "public", "model", "tokenizer", "loss", "metric", "canary")  # keys that may name code, a file or a folder


def source_rule(endings: tuple[str, ...], *words: str) -> Constraint:
    """Return the constraint on a source, which must be one of `words`, a file with one of `endings` (".csv"), or module:function."""

    def holds(text: str) -> bool:
        return text in words or FUNCTION.holds(text) or os.path.splitext(text)[1] in endings

    # The pattern is for JSON Schema. A file named ".csv" has no ending, so the pattern requires a character before the dot.
    endings_pattern = "|".join(ending[1:] for ending in endings)
    alternatives = [f"^{CALLED}$", rf"[^./][^/]*\.({endings_pattern})$"]
    if words:
        alternatives.insert(0, f"^({'|'.join(words)})$")
    pattern = "|".join(alternatives)
    files = f"a {', '.join(endings[:-1])} or {endings[-1]} file"
    return Constraint(", ".join([*words, files, "or module:function"]), holds, (("pattern", pattern),))


def public_rule(endings: tuple[str, ...], *words: str) -> Constraint:
    """Return the constraint on public data. They may also be held out from the private data."""
    return source_rule(endings, HELD_OUT, *words)


def require_apart(data: str, public: str | None, path: str) -> None:
    """Raise InputError if the public data are the private data, because their names or the contents of their files are equal."""
    if public is None:
        return
    folder = os.path.dirname(os.path.abspath(path))
    data_file, public_file = os.path.join(folder, data), os.path.join(folder, public)
    both_exist = os.path.isfile(data_file) and os.path.isfile(public_file)  # a source may also be a function
    if data == public or (both_exist and filecmp.cmp(data_file, public_file, shallow=False)):
        raise same_source_error(path, public, data)


def same_source_error(path: str, public: str, data: str) -> InputError:
    """Return the error for public data that are the private records. Metrics on private records would have no noise."""
    return InputError(
        f"{path}: train.public: expected other records than the private ones, found that {public} is {data}, or has the same content: "
        "metrics on private records have no noise"
    )


def source_digests(table: Mapping[str, Any], path: str) -> dict[str, str]:
    """Return the SHA-256 of each source, by key.

    The digests must not be published: the digest of a private file identifies a record to an observer who knows all other records.

    The digest of a function covers the source of its module, and of all of the user's own modules that it imports. None of them is
    executed. The digest of a file or a folder covers its content. Files that functions read when they run are not covered.
    """
    folder = os.path.dirname(os.path.abspath(path))
    digests = {key: _digest(table[key], folder) for key in SOURCES if isinstance(table.get(key), str)}
    return {key: digest for key, digest in digests.items() if digest}


def _digest(value: str, folder: str) -> str:
    """Return the SHA-256 of a function, a file or a folder."""
    if FUNCTION.holds(value):
        return digest_of_files(code_files(value, (folder, os.getcwd())))
    path = os.path.join(folder, value)
    return digest_of_files({"": path} if os.path.isfile(path) else _files_in(path))  # the digest of a file does not cover its name


def _files_in(folder: str) -> dict[str, str]:
    """Return the paths of the files in a folder and its subfolders, by their paths relative to the folder."""
    paths = (os.path.join(subfolder, name) for subfolder, _, names in os.walk(folder) for name in names)
    return {os.path.relpath(path, folder): path for path in paths}
