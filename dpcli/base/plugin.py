"""Plugins, by which a folder of dpcli or another package registers its features.

A *feature* is something that users name, such as a command, a mechanism type or an output format. It has a name and a *target*
"package.module:object", such as "gaussian" and "dpcli.mechanisms.noise.gaussian_spec:GaussianSpec". Each folder states its features in its
plugin.py as one `Plugin`, another package states one as an entry point, and registry.py merges them into one table for each kind. The
target is loaded only when it is needed (`load` in lazy.py), so that a command imports only what it uses.

A *pipeline file* is the TOML file that describes a run, and its *tables* are the parts of it, such as [[mechanism]]. A *finding* is an
error about a place in the file. Unless another key is stated below, a table of `Plugin` maps the names that users write to targets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Targets = Mapping[str, str]  # targets "package.module:object" by name
NONE: Targets = {}  # for a kind of feature that a plugin does not have


class Plugin(NamedTuple):
    """The features of one folder or package.

    Attributes:
        names: Names of the other folders with a plugin that this folder imports and cannot do without, such as "ledger". If one of them is
            not installed, the plugin is left out.
        commands: Target and short help of each command.
        mechanisms: Classes of mechanisms, by type.
        sampling: Classes of sampling schemes, by scheme.
        accountants: Accountants, by name.
        sections: Dataclasses of *sections*: tables of the pipeline file that one command reads, such as [train]. Every command checks them.
        released: Dataclasses of tables that become mechanisms: [source] and [[query]] of dpcli release.
        entries: Function (values of the file, findings to add to) -> entries, which converts the tables in `released`.
        judged_in_file: Checks of a section against the rest of the file: (value of the section, tables of the file, findings to add to).
        judged_solved: Checks of a section after a parameter was solved for: (value of the section, solved pipeline) -> problems.
        files: Other file formats, such as "policy": targets of their keys, and of the function that reads their bytes.
        words: For each key whose value selects the dataclass of its table, such as `task`: the dataclass for each value.
        lists: Lists that `dpcli explain` prints, such as "filters": what an item is, and the targets of the items, which have a `summary`.
        premised: Further classes that state premises (premise.py), by their title in the table of premises.
        references: Releases for `dpcli exam`, by mechanism type. Each target is a tuple of Reference (dpcli/exam/enumeration). Its releases
            are valid for the type, and small enough to enumerate.
        formats: Output formats of documents.
        chart_formats: Output formats of charts.
        plots: Plots, by kind.
        displayed: Functions that return the document of a result for a notebook, by the name of the result's class (displayed.py).
        taken_for_data: Function (path, pattern, folder) -> whether the path is among the data that the pattern names.
        left_by_run: Function (folder, path) -> whether a run wrote the file at the path into the folder.
        replayed: Function (path of a file) -> the training whose first steps `dpcli audit` replays.
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
