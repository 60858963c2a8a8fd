"""The flags of compute_dp_sgd_privacy, of tensorflow-privacy 0.9, as a pipeline file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from dpcli.base.errors import InputError
from dpcli.exchange.foreign import Asserted, ForeignTable, file_of, with_asserted
from dpcli.file.toml.shown import escaped

PROGRAM = re.compile(r"(?:.*[./])?compute_dp_sgd_privacy(?:\.py)?")
FLAG = re.compile(r"--?([A-Za-z]\w*)(?:=(.*))?", re.DOTALL)
TRUTHS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


def _truth(text: str) -> bool:
    return TRUTHS[text.lower()]


NEEDED: dict[str, Callable[[str], Any]] = {"N": int, "batch_size": int, "noise_multiplier": float, "epochs": float}
OPTIONAL: dict[str, Callable[[str], Any]] = {
    "delta": float,
    "used_microbatching": _truth,
    "max_examples_per_user": int,
    "accountant_type": {"RDP": "RDP", "PLD": "PLD"}.__getitem__,
}
SWITCH = "used_microbatching"  # it has no value if it stands alone
DELTA = 1e-6
COMMENTS = {"adjacency": "the one that compute_dp_sgd_privacy counts with"}
UNSTATED = {"delta": "the program's own, as no flag states one"}
HALVED = {"noise_multiplier": "half of the flag's: in microbatches of several a record moves twice the clip norm"}


def file_of_flags(data: bytes, asserted: Asserted, sampling: str, ignored: Collection[str], place: str) -> str:
    """Return the text of the pipeline file of flags as a shell or a flagfile has them; what stands before them is the program.

    Its adjacency, if no other is stated, is add-remove, as the program says of its number. used_microbatching, which is true if it is
    not stated, halves the noise multiplier as the program does. sampling: how batches were drawn. ignored: flags that say nothing about
    privacy. Raises InputError for flags that are missing, unknown or repeated; InvalidFile if the reader refuses the values.
    """
    flags = _flags(data, ignored, place)
    flags.require_fields(NEEDED, OPTIONAL, ignored)
    halved = flags.fields.get(SWITCH, True)
    delta = DELTA if asserted.delta is None else asserted.delta
    if flags.has("delta"):
        delta = flags.number("delta")
    known = {
        "adjacency": asserted.adjacency or "add-remove",
        "dataset_size": flags.count("N"),
        "delta": delta,
    }
    if flags.has("max_examples_per_user") and asserted.unit != "example":
        known |= {"unit": asserted.unit or "user", "max_contributions": flags.count("max_examples_per_user")}
    entry = {
        "name": "dp-sgd",
        "type": "gaussian",
        "noise_multiplier": flags.number("noise_multiplier") / (2.0 if halved else 1.0),
        "epochs": int(epochs) if (epochs := flags.number("epochs")).is_integer() else epochs,
        "sampling": {"scheme": sampling, "batch_size": flags.count("batch_size")},
    }
    privacy = {**with_asserted(known, asserted, place), "releases": "all-checkpoints"}
    stated = flags.has("delta") or asserted.delta is not None
    comments = {**COMMENTS, **(HALVED if halved else {}), **({} if stated else UNSTATED)}
    heading = (f"From flags of compute_dp_sgd_privacy: {escaped(place)}.",)
    return file_of({"format": 1, "privacy": privacy, "mechanism": [entry]}, heading, comments, place)


def _flags(data: bytes, ignored: Collection[str], place: str) -> ForeignTable:
    """Return the flags by name with their values, without those that are ignored."""
    fields: dict[str, Any] = {}
    for name, text in _pairs(_words(data, place), place):
        negated = name == f"no{SWITCH}"
        name, text = (SWITCH, "false") if negated and text is None else (name, text)
        if name in ignored:
            continue
        if name in fields:
            raise InputError(f"{place}: expected --{name} once, found it twice")
        try:
            fields[name] = {**NEEDED, **OPTIONAL}.get(name, str)("true" if text is None and name == SWITCH else text or "")
        except (ValueError, KeyError):
            raise InputError(f"{place}: expected a value of --{name}, found {escaped((text or 'nothing')[:40])}") from None
    return ForeignTable(place, fields)


def _words(data: bytes, place: str) -> Sequence[str]:
    """Return the words from the first flag on."""
    try:
        lines = data.decode("utf-8-sig").splitlines()
        words = shlex.split("\n".join(line for line in lines if not line.lstrip().startswith(("#", "//"))).replace("\\\n", " "))
    except ValueError:
        raise InputError(f"{place}: not flags in UTF-8, with their quotes closed") from None
    programs = [index for index, word in enumerate(words) if PROGRAM.fullmatch(word)]
    return words[programs[0] + 1 :] if programs else words


def _pairs(words: Sequence[str], place: str) -> Iterator[tuple[str, str | None]]:
    """Yield each flag and its value: behind an equals sign, or in the next word if that is no flag."""
    rest = list(words)[::-1]
    while rest:
        word = rest.pop()
        match = FLAG.fullmatch(word)
        if not match:
            raise InputError(f"{place}: expected flags --name=value of compute_dp_sgd_privacy, found {escaped(word[:40])}")
        name, value = match.groups()
        apart = value is None and rest and not FLAG.fullmatch(rest[-1]) and not name.endswith(SWITCH)
        yield name, rest.pop() if apart else value
