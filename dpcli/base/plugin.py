"""Plugins: what a folder of dpcli, or another package, adds, by name, each with an object that is loaded when it is needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Targets = Mapping[str, str]  # name: "package.module:object"
NONE: Targets = {}


class Plugin(NamedTuple):
    """The names of one folder. Only a plugin.py names modules by text.

    names: the features that it imports, and cannot do without; sessions is implied.
    commands: with the short help of each.
    sections: tables of the pipeline file that one command reads, and every command checks.
    released: tables that become mechanisms, by the function `entries`: (the file's values, findings to add to) -> entries.
    judged_in_file: checks of a section against the rest of the file: (its value, the file's tables, findings to add to).
    judged_solved: checks of a section after a parameter was solved for: (its value, the pipeline with the answer) -> problems.
    files: other file formats: their keys, and the function that reads their bytes.
    words: for a key that selects the keys of its table, the class for each word.
    lists: names that dpcli explain lists, with a summary of each list.
    premised: other classes that state premises, by their title in the table of premises.
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
