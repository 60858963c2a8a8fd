"""Lazy imports: modules that load when their first attribute is read, and objects that are loaded by name.

numpy and scipy take long to import, and many commands need neither. `np = lazy("numpy")` at the top of a module
(dpcli/numerics/arrays.py) costs nothing until `np.exp` is read.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from _thread import RLock
from types import ModuleType
from typing import Any


def load(target: str) -> Any:
    """Import and return the object that a target "package.module:name" of a plugin names."""
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


class LazyModule(ModuleType):
    """A module that loads when its first attribute is read. Other threads wait until it is loaded.

    It replaces importlib.util.LazyLoader: before Python 3.12.3, a second thread may read a module that LazyLoader has half loaded.
    """

    def __getattribute__(self, name: str) -> Any:
        spec = object.__getattribute__(self, "__spec__")  # self.__spec__ would call this method again
        with spec.loader_state["lock"]:  # another thread may have loaded the module meanwhile: then its class has changed
            if object.__getattribute__(self, "__class__") is LazyModule and not spec.loader_state["loading"]:
                spec.loader_state["loading"] = True  # the module's own code may read its attributes while it loads
                try:
                    spec.loader.exec_module(self)
                    object.__setattr__(self, "__class__", ModuleType)
                finally:
                    spec.loader_state["loading"] = False
        return ModuleType.__getattribute__(self, name)


def lazy(name: str) -> ModuleType:
    """Return a module that is imported when its first attribute is read. Raises ModuleNotFoundError at once if it is not installed."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"no module named {name!r}")
    module = importlib.util.module_from_spec(spec)
    spec.loader_state = {"lock": RLock(), "loading": False}  # the thread that loads the module may take an RLock again
    module.__class__ = LazyModule
    return sys.modules.setdefault(name, module)  # another thread may have been faster
