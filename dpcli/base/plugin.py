"""The names that a folder of dpcli, or another package, adds: each with the object that is loaded when it is needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Targets = Mapping[str, str]  # name: "package.module:object"
NONE: Targets = {}


class Plugin(NamedTuple):
    """The names of one folder. Only a plugin.py names modules by text.

    names: the features that it imports, without which it is not there either; sessions goes without saying.
    commands: with the short help of each.
    sections: tables of the pipeline file that one command reads, and everybody checks.
    released: tables that become mechanisms, by the function `entries`: (the file's values, findings to add to) -> entries.
    judged_in_file: what a section says of the rest of the file: (its value, the file's tables, findings to add to).
    judged_solved: the same when a parameter was solved for: (its value, the pipeline with the answer) -> problems.
    files: other formats than the pipeline's: their keys, and what reads their bytes.
    words: what selects the keys of a table, by the key that states it.
    lists: names with a summary of their own, and what they are.
    premised: classes besides these that state premises, by the words of the table.
    references: for the exam, by mechanism type: a tuple of Reference, releases that the type's keys allow, each small enough to enumerate.
    displayed: how a notebook shows a result, by the name of its class.
    taken_for_data: (path, pattern, folder) -> whether a path is among the data that a pattern names.
    left_by_run: (folder, path) -> whether a run left that file.
    replayed: (path of a file) -> the program that a replay audit runs.
    """

    names: tuple[str, ...] = ()
    commands: Mapping[str, tuple[str, str]] = {}
    mechanisms: Targets = NONE
    sampling: Targets = NONE
    accountants: Targets = NONE
    sections: Targets = NONE
    released: Targets = NONE
    entries: str = ""
    judged_in_file: Targets = NONE
    judged_solved: Targets = NONE
    files: Mapping[str, tuple[str, str]] = {}
    words: Mapping[str, Targets] = {}
    lists: Mapping[str, tuple[str, Targets]] = {}
    premised: Targets = NONE
    references: Targets = NONE
    formats: Targets = NONE
    chart_formats: Targets = NONE
    plots: Targets = NONE
    displayed: Targets = NONE
    taken_for_data: str = ""
    left_by_run: str = ""
    replayed: str = ""
