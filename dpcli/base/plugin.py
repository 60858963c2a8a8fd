"""The plugin record: everything that one folder of dpcli, or another package, registers by name.

Each name stands for an object, written as "package.module:object". The object is loaded when it is first needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Targets = Mapping[str, str]  # name -> "package.module:object"
NONE: Targets = {}


class Plugin(NamedTuple):
    """Everything that one folder registers. Module paths as text are allowed only in a plugin.py.

    Attributes:
        names: The folders that this one imports and cannot work without. `sessions` need not be named.
        commands: The function and the short help of each command.
        mechanisms: The specification class of each mechanism type.
        sampling: The class of each sampling scheme.
        accountants: Each accountant.
        sections: Tables of the pipeline file. One command reads such a table, and every command checks it.
        released: Tables of the pipeline file that become mechanisms.
        entries: The function that makes the mechanisms of `released`: (the file's values, findings to add to) -> entries.
        judged_in_file: Checks of a section against the rest of the file: (its value, the file's tables, findings to add to).
        judged_solved: Checks of a section after a parameter was solved for: (its value, the pipeline with the answer) -> problems.
        files: Other file formats: their keys, and the function that reads their bytes.
        words: For each key that selects the class of its table, the class for each of its values.
        lists: Lists of names that `dpcli explain` prints, each with a summary.
        premised: Further classes that state premises, by their title in the table of premises.
        references: For the exam, the references of each mechanism type: a tuple of Reference. Each is a release that the keys of the type
            allow, small enough to enumerate.
        formats, chart_formats: Output formats of documents and of charts.
        plots: Each kind of plot.
        displayed: The function that makes the notebook page of a result, by the name of its class.
        taken_for_data: The function (path, pattern, folder) -> whether a path is among the data that a pattern names.
        left_by_run: The function (folder, path) -> whether a run left this file.
        replayed: The function (path of a file) -> the program that a replay audit runs.
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
