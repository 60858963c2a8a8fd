"""A charge that rested on noise and now rests on somebody's word: no accountant can tell whether the word is true."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.parts import named
from dpcli.file.toml.shown import escaped
from dpcli.gate.verdicts import Condition

Standing = tuple[str, int]  # the type of an entry, and the evidence of its charge
RESTS = {0: "costs nothing by its own word", 1: "states its own cost", 2: "is priced by its noise"}


def standings_of(pipeline: Pipeline) -> dict[str, Standing]:
    """Every entry by name; one that names others is worth the weakest of them."""
    entries = {entry.name: entry for entry in pipeline.mechanisms}
    return {name: (entry.type, _evidence(entry, entries)) for name, entry in entries.items()}


def _evidence(entry: Entry, entries: Mapping[str, Entry]) -> int:
    parts = (entries[name] for name in named(entry.spec) if name in entries)
    return min((entry.spec.evidence, *(_evidence(part, entries) for part in parts)))


def restatements(before: Mapping[str, Standing], pipeline: Pipeline) -> Iterator[Condition]:
    """A no to each entry that rests on less than it did, and to each new one that may stand for one that is gone.

    before: the standings of the file as it was. An entry that is gone and has no such successor is a warning.
    """
    from dpcli.file.pipeline.series import counterparts  # only against a base

    now = standings_of(pipeline)
    places = {entry.name: ("mechanism", index) for index, entry in enumerate(pipeline.mechanisms)}
    earlier = {name: before[was] for name, was in counterparts(now, before).items()}
    still = counterparts(before, now)
    gone = {name: standing for name, standing in before.items() if name not in still}
    for name, (kind, evidence) in now.items():
        told = f"{escaped(name)}: it {RESTS[evidence]}"
        if name in earlier and evidence < earlier[name][1]:
            yield _no(f"{told}, and {_rested(earlier[name])}", (*places[name], "type"))
        if name in earlier:
            continue
        for other in (other for other, (was, worth) in gone.items() if was != kind and evidence < worth):
            yield _no(f"{told}, and {escaped(other)}, which is gone, {_rested(gone[other])}", (*places[name], "type"))
    for name, (kind, _) in gone.items():
        yield Condition("mechanism", "warn", f"{escaped(name)} ({kind}) is gone: nothing counts what it released", ("mechanism",))


def _rested(was: Standing) -> str:
    kind, worth = was
    return f"as {kind} it {RESTS[worth].replace('is priced', 'was priced').replace('states', 'stated').replace('costs', 'cost')}"


def _no(message: str, key: tuple[str | int, ...]) -> Condition:
    return Condition("restatement", "fail", f'{message} (a waiver of "restatement" lets it pass)', key)
