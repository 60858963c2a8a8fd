"""The features of all plugins, as one table for each kind. The plugins are those of dpcli's folders and of installed packages.

A *feature*, such as a mechanism type, is found by its name: `load(MECHANISMS["gaussian"])` returns the class. plugin.py explains each kind.
The tables are made once, when this module is imported, from the plugin.py of each folder.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.plugin import Plugin

GROUP = "dpcli.plugins"  # group of entry points under which other packages register plugins

# Folders with a plugin.py, in the order in which their features are listed. An installation may lack some of them.
FOLDERS = (
    "mechanisms",
    "accountants",
    "document",
    "plots",
    "analysis",
    "cli",
    "lint",
    "gate",
    "certify",
    "comments",
    "ledger",
    "disclosure",
    "exchange",
    "train",
    "audit",
    "sweep",
    "predict",
    "federated",
    "release",
    "explain",
    "doctor",
)


def _own_plugins() -> Iterable[Plugin]:
    """Return the plugins of the existing folders. A plugin is left out if it needs a folder that is missing, or was left out itself."""
    plugins: dict[str, Plugin] = {}
    for folder in FOLDERS:
        plugin = _own_plugin(folder)
        if plugin is not None:
            plugins[folder] = plugin
    while True:  # again after each removal, because others may need a removed plugin
        incomplete = [folder for folder, plugin in plugins.items() if not plugins.keys() >= {*plugin.names}]
        if not incomplete:
            return plugins.values()
        for folder in incomplete:
            del plugins[folder]


def _own_plugin(folder: str) -> Plugin | None:
    """Return the plugin of a folder of dpcli; None if the folder is missing."""
    name = f"dpcli.{folder}.plugin"
    try:
        plugin: Plugin = load(f"{name}:PLUGIN")
    except ModuleNotFoundError as error:
        if error.name not in (name, f"dpcli.{folder}"):
            raise
        return None
    return plugin


def _other_plugins() -> Iterator[Plugin]:
    """Yield the plugins of installed packages. Raises InputError if a plugin cannot be imported or is no Plugin.

    The import of importlib.metadata takes sixty milliseconds, and most installations have no such package. So the metadata files of all
    packages are searched for the name of the group first.
    """
    if not any(map(_has_group, _metadata_folders())):
        return
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP):
        package = point.dist.name if point.dist is not None else point.module
        try:
            plugin = point.load()
        except Exception as error:  # any error: without the package's mechanisms, a file could have another meaning
            why = f"{type(error).__name__}: {error}"
            raise InputError(
                f"{package}: its plugin {point.value} cannot be imported ({why}): repair or uninstall the package"
            ) from error
        if not isinstance(plugin, Plugin):
            raise InputError(f"{package}: expected a Plugin at the entry point {point.name!r} of {GROUP}, found {plugin!r}")
        yield plugin


def _metadata_folders() -> Iterator[str]:
    """Yield the folders in which installed packages have their metadata, such as numpy-2.0.dist-info."""
    for place in sys.path:
        try:
            names = os.listdir(place or ".")
        except OSError:  # a zip file, or a folder that does not exist
            continue
        yield from (os.path.join(place, name) for name in names if name.endswith((".dist-info", ".egg-info")))


def _has_group(folder: str) -> bool:
    """Return whether the metadata in a folder name the group of entry points."""
    try:
        with open(os.path.join(folder, "entry_points.txt"), "rb") as file:
            return b"[" + GROUP.encode() + b"]" in file.read()
    except OSError:
        return False


def _merged(plugins: Sequence[Plugin]) -> Plugin:
    """Return a plugin with the features of all plugins. A field that is not a table, such as `entries`, is the first that a plugin states.

    Raises InputError if two plugins have a feature of the same name in one table: a file would not say which one it means.
    """
    merged: dict[str, Any] = {}
    for field, default in Plugin._field_defaults.items():
        values = [getattr(plugin, field) for plugin in plugins]
        if isinstance(default, dict):  # a table
            merged[field] = _union(values)
        else:
            merged[field] = next((value for value in values if value), default)
    return Plugin(**merged)


def _union(tables: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return one table with the features of all tables. Raises InputError if two of them have the same name."""
    union: dict[str, Any] = {}
    for table in tables:
        for name, value in table.items():
            if name in union:
                raise InputError(f"expected a name that no other plugin has, found {name!r} twice: {union[name]!r} and {value!r}")
            union[name] = value
    return union


PLUGINS = (*_own_plugins(), *_other_plugins())
ALL = _merged(PLUGINS)
COMMANDS = ALL.commands
MECHANISMS = ALL.mechanisms
SAMPLING = ALL.sampling
ACCOUNTANTS = ALL.accountants
SECTIONS = ALL.sections
RELEASED = ALL.released
ENTRIES_OF_QUERIES = ALL.entries
JUDGED_IN_FILE = ALL.judged_in_file
JUDGED_SOLVED = ALL.judged_solved
FILES = ALL.files
WORDS = ALL.words
LISTS = ALL.lists
PREMISED = ALL.premised
REFERENCES = ALL.references
FORMATS = ALL.formats
CHART_FORMATS = ALL.chart_formats
PLOTS = ALL.plots
DISPLAYED = ALL.displayed
TAKEN_FOR_DATA = ALL.taken_for_data
LEFT_BY_RUN = ALL.left_by_run
REPLAYED = ALL.replayed
