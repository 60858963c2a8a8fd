"""Plugins of other packages: entry points of the group `dpcli.plugins`, each a Plugin."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from dpcli.base.errors import InputError
from dpcli.base.plugin import Plugin

GROUP = "dpcli.plugins"


def plugins_of_others() -> Iterator[Plugin]:
    """What installed packages add. Raises InputError where one states no Plugin.

    Whether there is any is read from the installers' files: importlib.metadata takes sixty milliseconds, which no other command has to pay.
    """
    if not any(map(_has_group, _installed())):
        return
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP):
        found = point.load()
        if not isinstance(found, Plugin):
            raise InputError(f"{point.value}: expected a Plugin at the entry point {point.name!r} of {GROUP}, found {found!r}")
        yield found


def _installed() -> Iterator[str]:
    """The folders in which installers describe what they have put on sys.path."""
    for place in sys.path:
        try:
            names = os.listdir(place or ".")
        except OSError:  # a zip file, or nothing
            continue
        yield from (os.path.join(place, name) for name in names if name.endswith((".dist-info", ".egg-info")))


def _has_group(folder: str) -> bool:
    try:
        with open(os.path.join(folder, "entry_points.txt"), "rb") as file:
            return b"[" + GROUP.encode() + b"]" in file.read()
    except OSError:
        return False
