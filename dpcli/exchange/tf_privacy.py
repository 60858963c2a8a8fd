"""Import from tensorflow-privacy 0.9: conversion of the flags of compute_dp_sgd_privacy to a pipeline file.

compute_dp_sgd_privacy is a program that prints the epsilon of a DP-SGD run. It keeps no record, so its command line or flagfile is the
record; `dpcli import tf-privacy` calls `file_of_flags` with it. The new file states with comments what the program assumes by default:
delta = 1e-6, and *microbatches* of several records, whose gradients are clipped together. One record then moves the sum by up to twice the
clipping norm, which halves the noise multiplier.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from dpcli.base.errors import InputError
from dpcli.exchange.foreign import EVERY_STEP, Asserted, ForeignTable, file_of, with_asserted
from dpcli.file.toml.shown import escaped

PROGRAM = re.compile(r"(?:.*[./])?compute_dp_sgd_privacy(?:\.py)?")
FLAG = re.compile(r"--?([A-Za-z]\w*)(?:=(.*))?", re.DOTALL)
TRUTH_VALUES = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}

# For each flag, the function that reads its text.
REQUIRED_FLAGS: dict[str, Callable[[str], Any]] = {"N": int, "batch_size": int, "noise_multiplier": float, "epochs": float}
OPTIONAL_FLAGS: dict[str, Callable[[str], Any]] = {
    "delta": float,
    "used_microbatching": lambda text: TRUTH_VALUES[text.lower()],
    "max_examples_per_user": int,
    "accountant_type": {"RDP": "RDP", "PLD": "PLD"}.__getitem__,  # raises KeyError for any other text
}
MICROBATCHING = "used_microbatching"  # the only flag that may have no value
SWITCHES = {MICROBATCHING: "true", f"no{MICROBATCHING}": "false"}  # value of the flag by its forms without a value
SHOWN = 40  # number of characters of a wrong argument or value that a message shows; arbitrary
DEFAULT_DELTA = 1e-6  # the default of compute_dp_sgd_privacy
# Comments in the new file, by key.
COMMENTS = {"adjacency": "the adjacency of compute_dp_sgd_privacy"}
COMMENTS_IF_DEFAULT_DELTA = {"delta": "the default of the program, as no flag states a delta"}
COMMENTS_IF_HALVED = {
    "noise_multiplier": "half of the flag: in a microbatch of several records, one record moves the sum by twice the clipping norm"
}


def file_of_flags(data: bytes, asserted: Asserted, sampling: str, ignored: Collection[str], place: str) -> str:
    """Return the text of the pipeline file for a command line or a flagfile, with or without the name of the program.

    The adjacency is add-remove, for which the program reports its numbers, unless the user states another. As in the program,
    used_microbatching is true by default and halves the noise multiplier. `asserted` has the keys of [privacy] that the user states,
    `ignored` the flags that --ignore names, and `place` names the record in messages.
    """
    flags = _flags(data, ignored, place)
    flags.require_fields(REQUIRED_FLAGS, OPTIONAL_FLAGS, ignored)
    halved = flags.fields.get(MICROBATCHING, True)
    epochs = flags.number("epochs")
    entry = {
        "name": "dp-sgd",
        "type": "gaussian",
        "noise_multiplier": flags.number("noise_multiplier") / (2.0 if halved else 1.0),
        "epochs": int(epochs) if epochs.is_integer() else epochs,
        "sampling": {"scheme": sampling, "batch_size": flags.count("batch_size")},
    }
    comments = COMMENTS | COMMENTS_IF_HALVED if halved else COMMENTS
    if not flags.has("delta") and asserted.delta is None:
        comments = comments | COMMENTS_IF_DEFAULT_DELTA
    heading = (f"From flags of compute_dp_sgd_privacy: {escaped(place)}.",)
    return file_of({"format": 1, "privacy": _privacy(flags, asserted), "mechanism": [entry]}, heading, comments, place)


def _privacy(flags: ForeignTable, asserted: Asserted) -> dict[str, Any]:
    """Return the [privacy] table. Raises InputError if the flags contradict the keys that the user states."""
    delta = DEFAULT_DELTA if asserted.delta is None else asserted.delta
    known = {
        "adjacency": asserted.adjacency or "add-remove",
        "dataset_size": flags.count("N"),
        "delta": flags.number("delta") if flags.has("delta") else delta,
    }
    if flags.has("max_examples_per_user") and asserted.unit != "example":
        known |= {"unit": asserted.unit or "user", "max_contributions": flags.count("max_examples_per_user")}
    return {**with_asserted(known, asserted, flags.name), **EVERY_STEP}


def _flags(data: bytes, ignored: Collection[str], place: str) -> ForeignTable:
    """Return the values of the flags by name, without the flags that are ignored."""
    fields: dict[str, Any] = {}
    for name, text in _pairs(_arguments(data, place), place):
        if text is None and name in SWITCHES:
            name, text = MICROBATCHING, SWITCHES[name]
        if name in ignored:
            continue
        if name in fields:
            raise InputError(f"{place}: expected --{name} once, found it twice")
        read_value = {**REQUIRED_FLAGS, **OPTIONAL_FLAGS}.get(name, str)
        try:
            fields[name] = read_value(text or "")
        except (ValueError, KeyError):
            raise InputError(f"{place}: expected a value of --{name}, found {escaped((text or 'nothing')[:SHOWN])}") from None
    return ForeignTable(place, fields)


def _arguments(data: bytes, place: str) -> Sequence[str]:
    """Return the arguments of the program: the words after its name, or all words if its name is missing."""
    try:
        lines = data.decode("utf-8-sig").splitlines()
        command = "\n".join(line for line in lines if not line.lstrip().startswith(("#", "//")))
        arguments = shlex.split(command.replace("\\\n", " "))
    except ValueError:
        raise InputError(f"{place}: not flags in UTF-8 with closed quotes") from None
    programs = [index for index, argument in enumerate(arguments) if PROGRAM.fullmatch(argument)]
    return arguments[programs[0] + 1 :] if programs else arguments


def _pairs(arguments: Sequence[str], place: str) -> Iterator[tuple[str, str | None]]:
    """Yield each flag with its value, which follows an equals sign or is the next argument; None if the flag has no value."""
    remaining = list(arguments)[::-1]  # the next argument is the last item
    while remaining:
        argument = remaining.pop()
        match = FLAG.fullmatch(argument)
        if not match:
            raise InputError(f"{place}: expected flags --name=value of compute_dp_sgd_privacy, found {escaped(argument[:SHOWN])}")
        name, value = match.groups()
        is_separate = value is None and remaining and not FLAG.fullmatch(remaining[-1]) and name not in SWITCHES
        yield name, remaining.pop() if is_separate else value
