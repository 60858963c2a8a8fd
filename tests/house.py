"""The rooms of the package: what the core is made of, floor by floor, and which features may name which others."""

from __future__ import annotations

from dpcli.base.lazy import load
from dpcli.base.registry import FOLDERS

# The core, floor by floor: a room may import itself and the rooms of the floors below it, never one of its own floor.
FLOORS = [
    {"base"},
    {"file.toml", "numerics", "templates"},
    {"file.keys", "mechanisms"},
    {"accountants", "file.pipeline"},
    {"git", "lint"},
    {"analysis", "document"},
    {"certify", "document.charts", "lint.documents", "plots"},
    {"analysis.documents", "document.formats"},
    {"certify.documents", "cli"},
    {"analysis.commands", "certify.commands", "plots.commands"},
]
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}

# Features, a folder each, and the others that they may name.
FEATURES = {
    "sessions": frozenset({"ledger"}),
    "random": frozenset({"sessions"}),
    "exam": frozenset({"ledger"}),
    "lint.commands": frozenset({"ledger", "sessions"}),  # its rules are of the core
    **{
        folder: frozenset((*load(f"dpcli.{folder}.plugin:PLUGIN").names, "sessions", "random"))
        for folder in FOLDERS
        if folder not in {*FLOOR, *(room.partition(".")[0] for room in FLOOR)}
    },
}
FEATURES["ledger"] = FEATURES["audit"] = FEATURES["disclosure"] = frozenset()  # sessions stands on them
