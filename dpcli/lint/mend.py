"""Mistakes that have one repair, mended in the text of a file: what the file says then is what it can only have meant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import ceil
from typing import Any

from dpcli.errors import InputError
from dpcli.lint.certain import is_slip
from dpcli.lint.run import findings
from dpcli.pipeline.read import faults, parse, toml_document
from dpcli.pipeline.resolve import resolve
from dpcli.toml.edit import edited
from dpcli.toml.findings import Fault, Path
from dpcli.toml.positions import locate
from dpcli.toml.rename import renamed
from dpcli.toml.shown import shown
from dpcli.toml.syntax import NotToml, tables_of
from dpcli.values import dataclass

MOST = 100  # repairs of one file
MEANT = re.compile(r"did you mean '([^']+)'\Z")
WRITE = re.compile(r"write (\S+)(?: without quotes)?\Z")


@dataclass(frozen=True, slots=True)
class Mend:
    """One repair. line: 1-based, of the text before. words: `steps: "10" -> 10`."""

    rule: str
    line: int
    words: str


def mended(data: bytes, path: str) -> tuple[bytes, tuple[Mend, ...]]:
    """The bytes of a pipeline file with every repair that is certain, and these.

    A key or a word that is misspelt by one letter, a number in quotes or with a point, and epochs that are no whole number of steps, which
    become the steps that they cost. A repair is kept only where its problem is gone and, of a file that could be read, the price is as it
    was. A file with lists of values or [defaults] is left as it is.

    Raises InvalidFile where the bytes are not TOML, InputError where their line ends are mixed.
    """
    text, ends = _text(data, path)
    if toml_document(data, path)[1] != tables_of(text):  # an entry stands at another place than its table
        return data, ()
    done: list[Mend] = []
    while len(done) < MOST and (step := _step(text, path)) is not None:
        text, mend = step
        done.append(mend)
    return text.replace("\n", ends).encode(), tuple(done)


def _text(data: bytes, path: str) -> tuple[str, str]:
    """The text with the line ends "\\n", and its own."""
    text, _, _ = faults(data, path)
    for ends in ("\n", "\r\n"):
        if text.replace("\n", ends).encode() == data:
            return text, ends
    raise InputError(f"{path}: expected line ends of one kind, to keep them; found several")


def _step(text: str, path: str) -> tuple[str, Mend] | None:
    """The text after the first repair that holds."""
    _, tables, before = faults(text.encode(), path)
    if not before:
        return _rounded(text, path)
    for fault in before:
        for mend, after in _repairs(text, tables, fault):
            if (fault.rule, fault.key) not in {(one.rule, one.key) for one in faults(after.encode(), path)[2]}:
                return after, mend
    return None


def _repairs(text: str, tables: Any, fault: Fault) -> Iterator[tuple[Mend, str]]:
    """What the reader's advice comes to in the text, where that can be nothing else."""
    meant, write = MEANT.match(fault.hint), WRITE.match(fault.hint)
    line = locate(text, [fault.key])[fault.key][0]
    try:
        if fault.rule == "DP002" and meant and is_slip(key := str(fault.key[-1]), meant[1]):
            yield Mend(fault.rule, line, f"{key} -> {meant[1]}"), renamed(text, fault.key, meant[1])
            return
        was = _at(tables, fault.key)
        if meant and isinstance(was, str) and is_slip(was, meant[1]):
            yield _value(fault.rule, line, fault.key, was, meant[1]), edited(text, {fault.key: meant[1]})
        if write and (now := _scalar(write[1])) is not None:
            yield _value(fault.rule, line, fault.key, was, now), edited(text, {fault.key: now})
    except InputError:  # not where it can be edited
        return


def _value(rule: str, line: int, path: Path, was: Any, now: Any) -> Mend:
    return Mend(rule, line, f"{path[-1]}: {shown(was)} -> {shown(now)}")


def _at(tables: Any, path: Path) -> Any:
    for part in path:
        try:
            tables = tables[part]
        except (KeyError, IndexError, TypeError):
            return None
    return tables


def _scalar(text: str) -> int | float | bool | None:
    """A number, true or false, as TOML has them."""
    try:
        value = tables_of(f"x = {text}")["x"]
    except NotToml:
        return None
    return value if isinstance(value, int | float) else None


def _rounded(text: str, path: str) -> tuple[str, Mend] | None:
    """Epochs as the steps that are charged for them, for the first entry whose epochs are no whole number of steps (DP117)."""
    try:
        pipeline = parse(text.encode(), path)
        price = [(line.mechanism, line.count) for line in resolve(pipeline)]
    except InputError:  # "calibrate", or what has no price
        return None
    for info, finding in findings(pipeline):
        if info.code != "DP117":
            continue
        entry = pipeline.mechanisms[int(finding.path[1])]
        size, line = pipeline.privacy.dataset_size, locate(text, [finding.path])[finding.path][0]
        rate = None if entry.sampling is None else entry.sampling.exact_rate(size)
        name, count = ("epochs", ceil(entry.epochs or 0.0)) if rate is None else ("steps", entry.runs(size).steps_at(rate))
        try:
            after = edited(text, {finding.path: count})
            after = after if name == "epochs" else renamed(after, finding.path, name)
            same = [(line.mechanism, line.count) for line in resolve(parse(after.encode(), path))] == price
        except InputError:
            continue
        if same:
            return after, Mend(info.code, line, f"epochs = {entry.epochs:g} -> {name} = {count}")
    return None
