"""What an accountant of Opacus remembers: how often each noise multiplier and sampling rate was used."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dpcli.base.errors import InputError
from dpcli.exchange.opacus.inert_pickle import Inert
from dpcli.file.pipeline.series import MOST as ENTRIES
from dpcli.file.toml.shown import escaped, shown

MOST = 1_000_000  # values of a checkpoint that are looked at
MOST_STEPS = 10**18


@dataclass(frozen=True, slots=True)
class Phase:
    """Steps in a row with one noise multiplier (over max_grad_norm) and one sampling rate."""

    noise_multiplier: float
    sample_rate: float
    steps: int


@dataclass(frozen=True, slots=True)
class OpacusState:
    """The state of an accountant. mechanism: which one, as Opacus calls it (rdp, prv, gdp). carried: what dpcli export has added."""

    mechanism: str
    phases: tuple[Phase, ...]
    carried: Mapping[str, Any] | None = None


def state_in(checkpoint: Any) -> OpacusState:
    """The one accountant's state in a checkpoint, wherever it is there.

    Raises InputError where there is none or there are several, also of equal ones, or its history is empty or has no meaning.
    """
    found = list(_states(checkpoint))
    if not found and isinstance(checkpoint, dict) and "history" in checkpoint:
        raise InputError('expected a "mechanism" (rdp, prv or gdp) beside "history", found none that is text')
    if not found:
        raise InputError(
            'expected the state of an Opacus accountant ({"history": ..., "mechanism": ...}), found none: save it with '
            "PrivacyEngine.save_checkpoint, or torch.save(privacy_engine.accountant.state_dict(), PATH)"
        )
    if len(found) > 1:  # two that are equal may be two runs
        places = ", ".join(escaped(where) for where, _ in found[:4])
        raise InputError(f"expected one accountant, found {len(found)}, at {places}: save one alone")
    state = found[0][1]
    if not state.phases:
        raise InputError("expected a history with at least one step, found an empty one: nothing was trained yet")
    return state


def _states(checkpoint: Any) -> Iterator[tuple[str, OpacusState]]:
    """Every accountant's state, with the key at which it is."""
    left: list[tuple[str, Any]] = [("the top", checkpoint)]
    seen: set[int] = set()
    while left:
        if len(seen) > MOST:
            raise InputError(f"expected a checkpoint of at most {MOST:,} values, found more: save the accountant alone")
        where, value = left.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Inert):
            found = _of_object(value)
            if found is not None:
                yield where, found
            left.append((where, value.state))
        elif isinstance(value, dict):
            if isinstance(value.get("history"), list) and isinstance(value.get("mechanism"), str):
                yield where, _state(value["mechanism"], value["history"], value.get("dpcli"))
            left.extend((key if type(key) is str else _told(key), each) for key, each in value.items())
        elif isinstance(value, list | tuple):
            left.extend((where, each) for each in value)


def _of_object(value: Inert) -> OpacusState | None:
    """Of an accountant that was pickled whole: opacus.accountants.rdp RDPAccountant."""
    if not value.name.startswith("opacus.accountants.") or not isinstance(value.state, dict):
        return None
    history = value.state.get("history")
    return _state(value.name.partition(" ")[0].rpartition(".")[2], history, None) if isinstance(history, list) else None


def _state(mechanism: str, history: list[Any], carried: Any) -> OpacusState:
    if carried is not None and not isinstance(carried, dict):
        raise InputError('expected "dpcli" to be a table, as dpcli export wrote it, found something else')
    if len(history) > ENTRIES:
        raise InputError(f"expected a history of at most {ENTRIES:,} phases, found {len(history):,}: a file holds no more")
    phases = tuple(_phase(each, place) for place, each in enumerate(history, 1))
    return OpacusState(mechanism, phases, carried)


def _phase(entry: Any, place: int) -> Phase:
    if not isinstance(entry, list | tuple) or len(entry) != 3:
        raise InputError(f"history[{place}]: expected (noise_multiplier, sample_rate, steps), found something else")
    noise, rate, steps = map(_unwrapped, entry)
    if type(steps) is not int or not 1 <= steps <= MOST_STEPS:
        raise InputError(f"history[{place}]: expected a whole number of steps from 1 to 10^18, found {_told(steps)}")
    if not _is_number(noise) or noise <= 0:
        raise InputError(
            f"history[{place}]: expected a noise_multiplier > 0, found {_told(noise)}: without noise nothing is private"
        )
    if not _is_number(rate) or not 0 < rate <= 1:
        raise InputError(
            f"history[{place}]: expected a sample_rate in (0, 1], found {_told(rate)}; it is the rate of the loader times the number "
            "of batches that one step adds up, and above 1 no sampling can be accounted"
        )
    return Phase(float(noise), float(rate), steps)


def _unwrapped(value: Any) -> Any:
    """A number of numpy as the float that it is; anything else as it stands."""
    if not isinstance(value, Inert) or not value.name.endswith("multiarray scalar") or len(value.arguments) != 2:
        return value
    kind, data = value.arguments
    if isinstance(data, Inert) and data.name == "_codecs encode" and data.arguments and type(data.arguments[0]) is str:
        data = data.arguments[0].encode("latin-1", "replace")
    is_float = isinstance(kind, Inert) and kind.arguments[:1] == ("f8",) and type(data) is bytes and len(data) == 8
    little = is_float and isinstance(kind.state, tuple) and kind.state[1:2] == ("<",)
    return struct.unpack("<d", data)[0] if little else value


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e300


def _told(value: Any) -> str:
    return shown(value) if type(value) in (bool, int, float, str) else "something else"
