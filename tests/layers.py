"""The layers of the package: which folders of it may import which others (project/test_architecture.py checks it).

The *core* consists of folders in layers, listed below from the lowest to the highest. A *feature* is another folder, such as the ledger,
which may import all of the core and only those features that are listed for it. test_absent.py removes each feature, and what does not need
it must still work.
"""

from __future__ import annotations

from dpcli.base.lazy import load
from dpcli.base.registry import FOLDERS

# The layers of the core. A folder may import itself and the folders of the layers before its own, but no other folder of its own layer.
LAYERS = [
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
LAYER_OF = {folder: layer for layer, folders in enumerate(LAYERS) for folder in folders}  # the position of each folder's layer

# The other features that each feature may import. Most of them are declared by the `names` of its plugin.
FEATURES = {
    "sessions": frozenset({"ledger"}),
    "random": frozenset({"sessions"}),
    "exam": frozenset({"ledger"}),
    "lint.commands": frozenset({"ledger", "sessions"}),  # the rest of lint is a part of the core
    **{
        folder: frozenset((*load(f"dpcli.{folder}.plugin:PLUGIN").names, "sessions", "random"))
        for folder in FOLDERS
        if folder not in {*LAYER_OF, *(name.partition(".")[0] for name in LAYER_OF)}
    },
}
FEATURES["ledger"] = FEATURES["audit"] = FEATURES["disclosure"] = frozenset()  # sessions imports them, so they may not import it
