"""What the folders of the package add to it, put together: names to objects, each loaded when it is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.others import plugins_of_others
from dpcli.base.plugin import Plugin

Value = TypeVar("Value")

# Folders with a plugin.py, in the order in which what they add is listed. Without the folder of a feature the others do what they did.
FOLDERS = (
    "mechanisms",
    "accountants",
    "document",
    "plots",
    "analysis",
    "cli",
    "lint",
    "gate",
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


def _plugin(folder: str) -> Plugin | None:
    name = f"dpcli.{folder}.plugin"
    try:
        found: Plugin = load(f"{name}:PLUGIN")
    except ModuleNotFoundError as error:
        if error.name not in (name, f"dpcli.{folder}"):
            raise
        return None
    return found


def _plugins() -> dict[str, Plugin]:
    """Those whose folder is there, and the folders of all that they name."""
    found = {folder: plugin for folder in FOLDERS if (plugin := _plugin(folder)) is not None}
    while without := [folder for folder, plugin in found.items() if not found.keys() >= {*plugin.names}]:
        for folder in without:
            del found[folder]
    return found


PLUGINS = (*_plugins().values(), *plugins_of_others())


def _all(of: Callable[[Plugin], Mapping[str, Value]]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for plugin in PLUGINS:
        for name, value in of(plugin).items():
            if name in found:
                raise InputError(f"expected a name that no other plugin has, found {name!r} twice: {found[name]!r} and {value!r}")
            found[name] = value
    return found


def _one(texts: Iterable[str]) -> str:
    return next((text for text in texts if text), "")


COMMANDS = _all(lambda plugin: plugin.commands)
MECHANISMS = _all(lambda plugin: plugin.mechanisms)
SAMPLING = _all(lambda plugin: plugin.sampling)
ACCOUNTANTS = _all(lambda plugin: plugin.accountants)
SECTIONS = _all(lambda plugin: plugin.sections)
RELEASED = _all(lambda plugin: plugin.released)
ENTRIES_OF_QUERIES = _one(plugin.entries for plugin in PLUGINS)
JUDGED_IN_FILE = _all(lambda plugin: plugin.judged_in_file)
JUDGED_SOLVED = _all(lambda plugin: plugin.judged_solved)
FILES = _all(lambda plugin: plugin.files)
WORDS = _all(lambda plugin: plugin.words)
LISTS = _all(lambda plugin: plugin.lists)
PREMISED = _all(lambda plugin: plugin.premised)
REFERENCES = _all(lambda plugin: plugin.references)
FORMATS = _all(lambda plugin: plugin.formats)
CHART_FORMATS = _all(lambda plugin: plugin.chart_formats)
PLOTS = _all(lambda plugin: plugin.plots)
DISPLAYED = _all(lambda plugin: plugin.displayed)
TAKEN_FOR_DATA = _one(plugin.taken_for_data for plugin in PLUGINS)
LEFT_BY_RUN = _one(plugin.left_by_run for plugin in PLUGINS)
REPLAYED = _one(plugin.replayed for plugin in PLUGINS)
