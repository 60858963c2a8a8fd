"""Lists that the registries make: a name each, and what its own module or class says of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from dpcli.accountants.base import Accountant
from dpcli.base.lazy import load
from dpcli.base.premise import Premise
from dpcli.base.registry import (
    ACCOUNTANTS,
    CHART_FORMATS,
    FORMATS,
    LISTS,
    MECHANISMS,
    PLOTS,
    PREMISED,
    RELEASED,
    SAMPLING,
    SECTIONS,
)

Terms = tuple[tuple[str, str], ...]


def accountants() -> Terms:
    """Title and source of each accountant, and what it may be used for."""
    return tuple((name, _accountant(load(target))) for name, target in ACCOUNTANTS.items())


def _accountant(accountant: Accountant) -> str:
    uses = "" if accountant.sound else " An approximation, no bound."
    return f"{accountant.title}. {accountant.source}.{uses}{' Valid in adaptive pipelines.' if accountant.adaptive else ''}"


def _summaries(name: str) -> Terms:
    """What is said of each name of a feature's list."""
    return tuple((each, f"{load(target).summary}.") for each, target in LISTS[name][1].items())


def _of_modules(registry: Mapping[str, str]) -> Terms:
    """From docstrings of the form `name: what it is`."""
    return tuple((name, _module_words(target).split(": ", 1)[-1]) for name, target in registry.items())


def _of_classes(registry: Mapping[str, str]) -> Terms:
    return tuple((name, load(target).__doc__ or "") for name, target in registry.items())


def _module_words(target: str) -> str:
    return __import__(target.partition(":")[0], fromlist=["__doc__"]).__doc__ or ""


def formats() -> Terms:
    """The formats of results."""
    return _of_modules(FORMATS)


def _premises(registry: Mapping[str, str]) -> Terms:
    """Each premise that a class of the registry states, by the names of those that state it."""
    stated: dict[Premise, list[str]] = {}
    for name, target in registry.items():
        for premise in load(target).premises:
            stated.setdefault(premise, []).append(name)
    return tuple((_together(names, [*registry]), str(premise)) for premise, names in stated.items())


def _together(names: Sequence[str], every: Sequence[str]) -> str:
    """Some of the names of a registry: all but a few, or each."""
    others = [name for name in every if name not in names]
    if len(others) < len(names) / 4:
        return f"all but {', '.join(others)}" if others else "all"
    return ", ".join(names)


EVERY: dict[str, Callable[[], Terms]] = {
    "accountants": accountants,
    **{name: partial(_summaries, name) for name in LISTS},
    "formats": formats,
    "chart-formats": lambda: _of_modules(CHART_FORMATS),
    "mechanisms": lambda: _of_classes(MECHANISMS),
    "premises-of-mechanisms": lambda: _premises(MECHANISMS),
    "premises-of-commands": lambda: _premises({**SECTIONS, **({"release": RELEASED["source"]} if RELEASED else {})}),
    "premises-of-ledgers": lambda: _premises(PREMISED),
    "premises-of-sampling": lambda: _premises(SAMPLING),
    "plots": lambda: _of_modules(PLOTS),
    "sampling": lambda: _of_classes(SAMPLING),
}
