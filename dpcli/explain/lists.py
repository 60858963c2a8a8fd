"""Lists for the manual: the names of each registry with the descriptions from their modules or classes, and the exit codes.

A *registry* maps names, such as mechanism types, to what implements them (dpcli/base/registry.py). So a plugin that registers a name is in
the manual too. A page of topics.py asks for a list by its key in GENERATED, and `dpcli explain` (lookup.py) takes single entries of it. A
*premise* is a sentence that must be true for a guarantee to hold (dpcli/base/premise.py).
"""

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

Terms = tuple[tuple[str, str], ...]  # pairs of a term and its description
WIDTH = 100  # number of columns of a text in a terminal; arbitrary


def filled(text: str) -> str:
    """Return the text with each paragraph filled to WIDTH."""
    return "\n\n".join(textwrap.fill(" ".join(paragraph.split()), WIDTH) for paragraph in text.strip().split("\n\n"))


def hanging(text: str) -> str:
    """Return an entry of a list, filled to WIDTH, with a hanging indent."""
    return textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def accountants() -> Terms:
    """Return the title and source of each accountant, and its permitted uses."""
    return tuple((name, _accountant(load(target))) for name, target in ACCOUNTANTS.items())


def _accountant(accountant: Accountant) -> str:
    sentences = [f"{accountant.title}.", f"{accountant.source}."]
    if not accountant.sound:
        sentences.append("An approximation, not a bound.")
    if accountant.adaptive:
        sentences.append("Valid in adaptive pipelines.")
    return " ".join(sentences)


def _summaries(name: str) -> Terms:
    """Return the summary of each name in a list that a feature registers."""
    _kind, targets = LISTS[name]
    return tuple((listed_name, f"{load(target).summary}.") for listed_name, target in targets.items())


def _of_modules(registry: Mapping[str, str]) -> Terms:
    """Return the first paragraph of each module's docstring, which is "name: what it is for", without the name."""
    return tuple((name, module_words(target).partition("\n\n")[0].split(": ", 1)[-1]) for name, target in registry.items())


def _of_classes(registry: Mapping[str, str]) -> Terms:
    return tuple((name, load(target).__doc__ or "") for name, target in registry.items())


def module_words(target: str) -> str:
    """Return the docstring of the module of a registered object, whose target is "package.module:name"."""
    return __import__(target.partition(":")[0], fromlist=["__doc__"]).__doc__ or ""


def _premises(registry: Mapping[str, str]) -> Terms:
    """Return each premise that classes of a registry state, with the names of these classes."""
    stated: dict[Premise, list[str]] = {}
    for name, target in registry.items():
        for premise in load(target).premises:
            stated.setdefault(premise, []).append(name)
    return tuple((_names_in_words(names, [*registry]), str(premise)) for premise, names in stated.items())


def _names_in_words(names: Sequence[str], every: Sequence[str]) -> str:
    """Return the names as a list; as "all" or "all but" the others if these are less than a quarter as many, which is shorter."""
    others = [name for name in every if name not in names]
    if not others:
        return "all"
    return f"all but {', '.join(others)}" if len(others) < len(names) / 4 else ", ".join(names)


# The class of each command's table. RELEASED is empty if the plugin of dpcli release is missing.
COMMAND_TABLES = {**SECTIONS, "release": RELEASED["source"]} if RELEASED else SECTIONS

# The lists by name, as functions that return them.
GENERATED: dict[str, Callable[[], Terms]] = {
    "accountants": accountants,
    **{name: partial(_summaries, name) for name in LISTS},
    "formats": partial(_of_modules, FORMATS),
    "chart-formats": partial(_of_modules, CHART_FORMATS),
    "mechanisms": partial(_of_classes, MECHANISMS),
    "premises-of-mechanisms": partial(_premises, MECHANISMS),
    "premises-of-commands": partial(_premises, COMMAND_TABLES),
    "premises-of-ledgers": partial(_premises, PREMISED),
    "premises-of-sampling": partial(_premises, SAMPLING),
    "plots": partial(_of_modules, PLOTS),
    "sampling": partial(_of_classes, SAMPLING),
}


EXIT_CODES = (
    ("0", "pass"),
    ("1", "a gate, a budget or a rule refused"),
    ("2", "usage, file or input error"),
    ("3", "cannot certify: no sound accountant applies, or a target cannot be met"),
    ("4", "a ledger is missing, locked or damaged, or has different content under the same key"),
    ("70", "a bug in dpcli"),
    ("130", "interrupted"),
)
EXIT_CODE_TEXT = (
    "A script or a CI system reads the verdict from the exit code. If it is not 0, the reason is on standard error. Unknown is not a pass: "
    "if nothing can be certified, the code is 3. If several codes apply, 70 takes precedence over 4, then 2, 3 and 1."
)


def exit_codes() -> str:
    return "\n".join(["exit-codes", "", filled(EXIT_CODE_TEXT), "", *(hanging(f"{code}: {words}") for code, words in EXIT_CODES)])
