"""Search for the state of an Opacus accountant in a checkpoint.

The *state* has the *history* of a run, which is a list of phases (noise multiplier, sampling rate, steps). `read_checkpoint` returns the
values of a file, and `state_in` searches them for the state, wherever it is. A checkpoint is a file of torch.save (a zip, or the older
format before torch 1.6), a pickle, or JSON. No code in it is run, and torch is not imported: an `Inert` (inert_pickle.py) with the name and
the arguments takes the place of each call that the pickle asks for.
"""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dpcli.base.errors import InputError
from dpcli.exchange.foreign import LARGEST_NUMBER, read_fields
from dpcli.exchange.opacus.inert_pickle import Inert, read_pickle
from dpcli.file.pipeline.series import MAX_ENTRIES as MOST_PHASES
from dpcli.file.toml.limits import read_head, title
from dpcli.file.toml.shown import escaped, shown

# Limits of memory and time, so that no file can exhaust them; arbitrary, and far beyond the history of a run.
MAX_PICKLE = 64 * 1024 * 1024  # largest size of the pickled values in bytes; tensors are stored elsewhere in the file
MAX_JSON = 16 * 1024 * 1024  # largest size of a JSON file in bytes
MOST_SEARCHED_VALUES = 1_000_000  # largest number of values of a checkpoint that are searched
MOST_STEPS = 10**18  # largest number of steps of a phase; the most that a pipeline file may state
MOST_NAMED = 4  # largest number of accountants whose places a message names; arbitrary
LEGACY_MAGIC = 0x1950A86A20F9469CFC6C  # the first pickle in a file of torch before 1.6
LEGACY_PLACE = 4  # the pickle in such a file, counted from 1, that is the checkpoint
ZIP_MAGIC = b"PK\x03\x04"


def read_checkpoint(path: str) -> Any:
    """Return the values in a checkpoint ("-" for standard input), with an Inert for each tensor and object.

    Raises InputError if the file cannot be read or is too large, has none of the known formats, or is a pickle that would call an unknown
    function.
    """
    head, name = read_head(path, MAX_PICKLE, "a checkpoint"), title(path)
    if head.lstrip()[:1] == b"{":
        if len(head) > MAX_JSON:
            raise InputError(f"{name}: expected at most {MAX_JSON // 1024**2} MiB of JSON")
        return read_fields(head, name).fields
    try:
        if head.startswith(ZIP_MAGIC):
            # The directory of a zip is at its end, which `head` may not reach.
            return read_pickle(io.BytesIO(_zipped(io.BytesIO(head) if path == "-" else path)))
        return _pickled(io.BytesIO(head))
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def _zipped(source: str | io.BytesIO) -> bytes:
    """Return the pickle of values in a zip of torch.save. Raises InputError if it is damaged or too large, or has no single such pickle."""
    try:
        with zipfile.ZipFile(source) as archive:
            names = [name for name in archive.namelist() if name.rpartition("/")[2] == "data.pkl"]
            if len(names) != 1:
                raise InputError(f"expected a file of torch.save, found a zip with {len(names)} data.pkl in it")
            with archive.open(names[0]) as file:
                data = file.read(MAX_PICKLE + 1)
    except InputError:
        raise
    except Exception:  # a damaged zip may raise anything, in the archive or in one of four decompressors
        raise InputError("expected a file of torch.save, found a damaged zip") from None
    if len(data) > MAX_PICKLE:
        raise InputError(f"expected at most {MAX_PICKLE // 1024**2} MiB of values without their tensors, found more")
    return data


def _pickled(stream: io.BytesIO) -> Any:
    """Return the value in a pickle. A file of torch before 1.6 has it in a later pickle than the first."""
    value = read_pickle(stream)
    if type(value) is int and value == LEGACY_MAGIC:
        for _ in range(LEGACY_PLACE - 1):
            value = read_pickle(stream)
    return value


@dataclass(frozen=True, slots=True)
class Phase:
    """Consecutive steps with the same noise multiplier (relative to max_grad_norm) and the same sampling rate."""

    noise_multiplier: float
    sample_rate: float
    steps: int


@dataclass(frozen=True, slots=True)
class OpacusState:
    """The state of an accountant.

    Attributes:
        mechanism: Name of the accountant, as the file states it. In Opacus it is rdp, prv or gdp.
        phases: The history.
        carried: The tables that dpcli export added; None in other files.
    """

    mechanism: str
    phases: tuple[Phase, ...]
    carried: Mapping[str, Any] | None = None


def state_in(checkpoint: Any) -> OpacusState:
    """Return the state of the only accountant in a checkpoint, in whatever place it is.

    Raises InputError if there is no state, or there are several, even equal ones; if the history is empty or invalid; or if the checkpoint
    has too many values.
    """
    states = list(_states(checkpoint))
    if not states and isinstance(checkpoint, dict) and "history" in checkpoint:
        raise InputError('"history" has no "mechanism" (rdp, prv or gdp) with it')
    if not states:
        raise InputError(
            'no state of an Opacus accountant ({"history": ..., "mechanism": ...}): save it with '
            "PrivacyEngine.save_checkpoint, or torch.save(privacy_engine.accountant.state_dict(), PATH)"
        )
    if len(states) > 1:  # two equal states may be of two runs
        places = ", ".join(escaped(key) for key, _ in states[:MOST_NAMED])
        raise InputError(f"expected one accountant, found {len(states)}, at {places}: save only one")
    ((_, state),) = states
    if not state.phases:
        raise InputError("expected a history with at least one step, found an empty one: nothing was trained yet")
    return state


def _states(checkpoint: Any) -> Iterator[tuple[str, OpacusState]]:
    """Yield the state of every accountant, with the key under which it is stored. Raises InputError as `state_in` does."""
    unvisited: list[tuple[str, Any]] = [("the top", checkpoint)]
    visited: set[int] = set()
    while unvisited:
        if len(visited) > MOST_SEARCHED_VALUES:
            raise InputError(
                f"expected a checkpoint of at most {MOST_SEARCHED_VALUES:,} values, found more: save only the accountant"
            )
        key, value = unvisited.pop()
        if id(value) in visited:
            continue
        visited.add(id(value))
        if isinstance(value, Inert):
            state = _of_object(value)
            if state is not None:
                yield key, state
            unvisited.append((key, value.state))
        elif isinstance(value, dict):
            if isinstance(value.get("history"), list) and isinstance(value.get("mechanism"), str):
                yield key, _state(value["mechanism"], value["history"], value.get("dpcli"))
            unvisited.extend((name if type(name) is str else _described(name), item) for name, item in value.items())
        elif isinstance(value, list | tuple):
            unvisited.extend((key, item) for item in value)


def _of_object(value: Inert) -> OpacusState | None:
    """Return the state of a pickled accountant object, such as opacus.accountants.rdp RDPAccountant; None for any other object."""
    if not value.name.startswith("opacus.accountants.") or not isinstance(value.state, dict):
        return None
    history = value.state.get("history")
    if not isinstance(history, list):
        return None
    module = value.name.partition(" ")[0]
    return _state(module.rpartition(".")[2], history, None)


def _state(mechanism: str, history: list[Any], carried: Any) -> OpacusState:
    """Return the state with this history. Raises InputError if it is too long or invalid."""
    if carried is not None and not isinstance(carried, dict):
        raise InputError(f'expected "dpcli" to be a table, as dpcli export wrote it, found {_described(carried)}')
    if len(history) > MOST_PHASES:
        raise InputError(
            f"expected a history of at most {MOST_PHASES:,} phases, found {len(history):,}: a pipeline file cannot have more"
        )
    phases = tuple(_phase(item, place) for place, item in enumerate(history, 1))
    return OpacusState(mechanism, phases, carried)


def _phase(entry: Any, place: int) -> Phase:
    """Return a phase of the history. Raises InputError if its values have no meaning. `place` counts from 1."""
    if not isinstance(entry, list | tuple) or len(entry) != 3:
        raise InputError(f"history[{place}]: expected (noise_multiplier, sample_rate, steps), found {_described(entry)}")
    noise, rate, steps = map(_unwrapped, entry)
    if type(steps) is not int or not 1 <= steps <= MOST_STEPS:
        raise InputError(f"history[{place}]: expected a whole number of steps from 1 to 10^18, found {_described(steps)}")
    if not _is_number(noise) or noise <= 0:
        raise InputError(
            f"history[{place}]: expected a noise_multiplier > 0, found {_described(noise)}: without noise nothing is private"
        )
    if not _is_number(rate) or not 0 < rate <= 1:
        raise InputError(
            f"history[{place}]: expected a sample_rate in (0, 1], found {_described(rate)}; it is the rate of the loader times the number "
            "of batches that one step accumulates, and a rate above 1 cannot be accounted for"
        )
    return Phase(float(noise), float(rate), steps)


def _unwrapped(value: Any) -> Any:
    """Return the float that a pickled numpy float64 stands for. Any other value, of numpy too, is returned unchanged."""
    if not isinstance(value, Inert) or not value.name.endswith("multiarray scalar") or len(value.arguments) != 2:
        return value
    kind, data = value.arguments
    data = _unwrapped_bytes(data)
    if not _is_little_endian_double(kind) or type(data) is not bytes or len(data) != 8:
        return value
    (number,) = struct.unpack("<d", data)
    return number


def _unwrapped_bytes(data: Any) -> Any:
    """Return the bytes that old pickles write as a text in Latin-1. Any other value is returned unchanged."""
    is_encoded = isinstance(data, Inert) and data.name == "_codecs encode" and data.arguments
    if not is_encoded or type(data.arguments[0]) is not str:
        return data
    return data.arguments[0].encode("latin-1", "replace")


def _is_little_endian_double(kind: Any) -> bool:
    """Return whether a pickled numpy type is that of floats of 8 bytes, the least significant byte first."""
    if not isinstance(kind, Inert) or kind.arguments[:1] != ("f8",):
        return False
    return isinstance(kind.state, tuple) and kind.state[1:2] == ("<",)  # the state is (version, order of the bytes, ...)


def _is_number(value: Any) -> bool:
    """Return whether a value is an int or a float of magnitude below LARGEST_NUMBER. NaN, infinity and bool are not."""
    return type(value) in (int, float) and abs(value) < LARGEST_NUMBER


def _described(value: Any) -> str:
    """Return a plain value as it is shown in messages, or else its type."""
    return shown(value) if type(value) in (bool, int, float, str, list, dict) else f"a value of type {type(value).__name__}"
