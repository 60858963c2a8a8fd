"""Lists for the manual: names of a registry with what their module or class says of them, and exit codes."""

from __future__ import annotations

import textwrap
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
WIDTH = 100  # columns of a text in a terminal


def filled(text: str) -> str:
    """Return the text with each paragraph filled to WIDTH."""
    return "\n\n".join(textwrap.fill(" ".join(paragraph.split()), WIDTH) for paragraph in text.strip().split("\n\n"))


def hanging(text: str) -> str:
    """Return an entry of a list, its further lines indented."""
    return textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def accountants() -> Terms:
    """Return title and source of each accountant, and what it may be used for."""
    return tuple((name, _accountant(load(target))) for name, target in ACCOUNTANTS.items())


def _accountant(accountant: Accountant) -> str:
    uses = "" if accountant.sound else " An approximation, no bound."
    return f"{accountant.title}. {accountant.source}.{uses}{' Valid in adaptive pipelines.' if accountant.adaptive else ''}"


def _summaries(name: str) -> Terms:
    """Return the summary of each name in a feature's list."""
    return tuple((each, f"{load(target).summary}.") for each, target in LISTS[name][1].items())


def _of_modules(registry: Mapping[str, str]) -> Terms:
    """Return what the modules' docstrings say after their name."""
    return tuple((name, module_words(target).split(": ", 1)[-1]) for name, target in registry.items())


def _of_classes(registry: Mapping[str, str]) -> Terms:
    return tuple((name, load(target).__doc__ or "") for name, target in registry.items())


def module_words(target: str) -> str:
    """Return the docstring of the module in which a registered object is."""
    return __import__(target.partition(":")[0], fromlist=["__doc__"]).__doc__ or ""


def formats() -> Terms:
    """Return the formats of results."""
    return _of_modules(FORMATS)


def _premises(registry: Mapping[str, str]) -> Terms:
    """Return each premise that classes of the registry state, under the names of those classes."""
    stated: dict[Premise, list[str]] = {}
    for name, target in registry.items():
        for premise in load(target).premises:
            stated.setdefault(premise, []).append(name)
    return tuple((_names_in_words(names, [*registry]), str(premise)) for premise, names in stated.items())


def _names_in_words(names: Sequence[str], every: Sequence[str]) -> str:
    """Return names of a registry in words: each, or all but a few."""
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


EXIT_CODES = (
    ("0", "pass"),
    ("1", "a gate, a budget or a rule said no"),
    ("2", "usage, file or input error"),
    ("3", "cannot certify: no sound accountant applies, or a target cannot be met"),
    ("4", "a ledger is missing, locked or damaged, or holds something else under the same key"),
    ("70", "a bug of dpcli"),
    ("130", "interrupted"),
)
MEANT = (
    "A script or a CI system reads the verdict from the exit code; why it is not 0 is on standard error. Unknown is no pass: where "
    "nothing can be certified the code is 3. Where several hold, 70 goes before 4, 2, 3 and 1."
)


def exit_codes() -> str:
    """Return the exit codes with their meaning."""
    return "\n".join(["exit-codes", "", filled(MEANT), "", *(hanging(f"{code}: {words}") for code, words in EXIT_CODES)])
