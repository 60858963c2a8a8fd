"""The entries of the file that a step of training performs: which there can be, and whether [train] names some of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpcli.base.lazy import load
from dpcli.base.registry import MECHANISMS
from dpcli.file.toml.findings import Findings, Path
from dpcli.file.toml.shown import first_names, quoted
from dpcli.file.toml.suggest import did_you_mean
from dpcli.mechanisms.noise.correlated import CorrelatedSpec
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.mechanisms.spec import Spec
from dpcli.train.plan.settings import Train

PERFORMED = (GaussianSpec, CorrelatedSpec)  # whose noise training can add


def performed(spec: Spec) -> bool:
    """Whether training can add this mechanism's noise."""
    return isinstance(spec, PERFORMED)


def judge_entries(train: Train, tables: Mapping[str, Any], findings: Findings) -> None:
    """A finding for each name in [train] that is of no entry which training performs; `tables` are those of a file valid otherwise."""
    types = {table["name"]: table["type"] for table in tables["mechanism"]}
    able = tuple(name for name, kind in types.items() if issubclass(load(MECHANISMS[kind]), PERFORMED))
    here: Path = ("train", "mechanism")
    if isinstance(train.mechanism, str):
        _judge_name(train.mechanism, here, types, able, findings)
        return
    if train.mechanism == ():
        findings.add("DP005", here, "the name of an entry, or several in their order", "an empty list")
    for index, name in enumerate(train.mechanism or ()):
        if name in (train.mechanism or ())[:index]:
            findings.add("DP005", (*here, index), "each entry once", f"{quoted(name)} again")
        else:
            _judge_name(name, (*here, index), types, able, findings)


def _judge_name(name: str, place: Path, types: Mapping[str, str], able: tuple[str, ...], findings: Findings) -> None:
    if name in able:
        return
    names = first_names(map(quoted, able), "the file has none")
    found = f"{quoted(name)} of type {quoted(types[name])}" if name in types else quoted(name)
    findings.add("DP005", place, f"an entry with Gaussian noise ({names})", found, did_you_mean(name, able))
