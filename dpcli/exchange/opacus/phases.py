"""A pipeline as the history of an Opacus accountant, and such a history as a pipeline file."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Iterator
from typing import Any

from dpcli.base.errors import InputError
from dpcli.exchange.foreign import Asserted, carried_tables, file_of
from dpcli.exchange.opacus.accountant import OpacusState, Phase
from dpcli.exchange.rounded import rate_of
from dpcli.exchange.schedule_csv import merged_stages, staged_entry, wrapped
from dpcli.file.pipeline.canonical import tables_of
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.parts import together
from dpcli.file.toml.shown import escaped, first_names, quoted
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.mechanisms.sampling.schemes import Poisson, Unsampled

ADJACENCY = "add-remove"  # Opacus's
ASSUMED = (
    "Opacus counts every step as Poisson sampling and does not record how batches were drawn: poisson_sampling=True of make_private is "
    "Poisson, False is a shuffled order: say which it was with --sampling poisson or shuffle"
)
# By how Opacus counted: where its number and dpcli's differ.
OTHER = {
    "prv": "Of Poisson samples Opacus's own number is above dpcli's: it adds eps_error, 0.01 unless set.",
    "rdp": "Of Poisson samples Opacus's own number is above dpcli's: see dpcli account -a rdp.",
    "gdp": "Opacus's own number is an approximation (dpcli account -a all), which may be too small.",
}
COMMENTS = {
    "adjacency": "the one that Opacus's accountants count with",
    "noise_multiplier": "over max_grad_norm",
}
UNSAID = {"sampling": "ASSUMED: see above"}


def state_of(pipeline: Pipeline, mechanism: str) -> OpacusState:
    """Return the history of an accountant that has counted this pipeline; what touches no private data is not in it.

    Raises InputError for what Opacus cannot count: anything but Gaussian noise over one record's contribution on Poisson samples.
    """
    if pipeline.privacy.adjacency.value != "add-remove":
        raise InputError(f"Opacus counts records that come or go: expected add-remove, found {pipeline.privacy.adjacency.value}")
    if (pipeline.privacy.max_contributions or 1) > 1:
        raise InputError("Opacus counts one record: expected max_contributions of 1, or none")
    if pipeline.privacy.adaptive:
        raise InputError("Opacus adds up what was planned: expected adaptive = false, found true")
    phases = tuple(_phase(entry, pipeline) for entry in pipeline.mechanisms if not entry.spec.free)
    if not phases:
        raise InputError("no mechanism touches private data")
    return OpacusState(mechanism, phases, tables_of(pipeline))


def _phase(entry: Entry, pipeline: Pipeline) -> Phase:
    for problem in _problems(entry, pipeline):
        raise InputError(f"mechanism {quoted(entry.name)} cannot be a history of Opacus: {problem}")
    size = pipeline.privacy.dataset_size
    runs = entry.runs(size)
    rate, lower = 1.0, None
    if isinstance(entry.sampling, Poisson):
        rate, lower = rate_of(entry.sampling, size), entry.sampling.lower_rate(size)
    if rate == 0.0:
        raise InputError(f"mechanism {quoted(entry.name)} cannot be a history of Opacus: its rate is 0")
    assert isinstance(entry.spec, GaussianSpec) and entry.spec.noise_multiplier is not None
    return Phase(entry.spec.noise_multiplier, rate, runs.steps_at(lower))


def _problems(entry: Entry, pipeline: Pipeline) -> Iterator[str]:
    """Yield what Opacus has no words for."""
    if not isinstance(entry.spec, GaussianSpec):
        yield f"its type is {entry.type}, and Opacus knows gaussian alone"
    elif entry.spec.noise_multiplier is None:
        yield "it states sigma with sensitivity, and Opacus knows noise_multiplier alone"
    if not isinstance(entry.sampling, Poisson | Unsampled | None):
        yield f"its sampling is {entry.sampling.scheme}, and Opacus knows poisson alone"
    elif isinstance(entry.sampling, Poisson) and entry.sampling.max_batch_size is not None:
        yield "it has max_batch_size, which Opacus does not count"
    if entry.partition is not None:
        yield "it has a partition, which Opacus does not count"
    others = [
        quoted(entry_sharing.name)
        for entry_sharing in together(entry, pipeline.mechanisms)
        if entry_sharing is not entry and not entry_sharing.spec.free
    ]
    if others:
        yield f"it shares its sample with {first_names(others)}, and Opacus counts a sample for each"


def json_text(state: OpacusState) -> str:
    """Return the state as JSON."""
    return json.dumps(_plain(state), indent=2) + "\n"


def torch_bytes(state: OpacusState) -> bytes:
    """Return the state as a file that torch.load(PATH, weights_only=True) reads; the same state gives the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in (("data.pkl", pickle.dumps(_plain(state), protocol=2)), ("byteorder", b"little"), ("version", b"3\n")):
            archive.writestr(zipfile.ZipInfo(f"opacus/{name}"), data)
    return buffer.getvalue()


def _plain(state: OpacusState) -> dict[str, Any]:
    history = [(phase.noise_multiplier, phase.sample_rate, phase.steps) for phase in state.phases]
    return {"history": history, "mechanism": state.mechanism, "dpcli": state.carried}


def tables_of_state(state: OpacusState, asserted: Asserted, sampling: str | None) -> dict[str, Any]:
    """Return the tables of the file; if dpcli export wrote the state, those that it carries. sampling: None if Poisson is assumed.

    Raises InputError if these tables contradict the history, and for shuffled batches if a phase begins within a pass: a record may
    then be in one more batch of it than its steps tell.
    """
    if state.carried is not None:
        if sampling not in (None, "poisson"):
            raise InputError(
                f"expected --sampling poisson, or none: dpcli export wrote how batches were drawn beside the history, found {sampling}"
            )
        return carried_tables(state.carried, asserted, lambda pipeline: state_of(pipeline, state.mechanism).phases, state.phases)
    if sampling == "shuffle" and not all(map(_whole_passes, state.phases[:-1])):
        raise InputError(
            "expected phases of whole passes, but for the last, where batches are of a shuffled order: found one that ends within a pass, "
            "and the next may hold a record of it twice; write the file by hand, with that many more passes"
        )
    rows = ({"noise_multiplier": p.noise_multiplier, "steps": p.steps, "rate": p.sample_rate} for p in state.phases)
    entry = staged_entry("dp-sgd", merged_stages(rows), sampling or "poisson")
    privacy = {"adjacency": ADJACENCY, **asserted.table, "releases": "all-checkpoints"}
    return {"format": 1, "privacy": privacy, "mechanism": [entry]}


def file_of_state(state: OpacusState, asserted: Asserted, sampling: str | None, place: str) -> str:
    """Return the text of the file. Raises InvalidFile if the reader refuses it."""
    assumed = is_assumed(state, sampling)
    heading = (f"From an Opacus checkpoint (accountant: {escaped(state.mechanism)}).", *(_lines(ASSUMED) if assumed else ()))
    comments: dict[str, str] = {}
    if state.carried is None:
        same = _counted_alike(asserted, sampling)
        heading = (*heading, *_lines(OTHER.get(state.mechanism, "") if same or state.mechanism == "gdp" else ""))
        comments = {key: words for key, words in COMMENTS.items() if key != "adjacency" or _opacus_adjacency(asserted)}
        comments |= UNSAID if assumed else {}
    return file_of(tables_of_state(state, asserted, sampling), heading, comments, place, wrapped)


def _counted_alike(asserted: Asserted, sampling: str | None) -> bool:
    """Return whether the file's guarantee is the one that Opacus counts: of one record, under its adjacency, on Poisson samples."""
    return _opacus_adjacency(asserted) and asserted.max_contributions in (None, 1) and sampling != "shuffle"


def _opacus_adjacency(asserted: Asserted) -> bool:
    return asserted.adjacency in (None, ADJACENCY)


def is_assumed(state: OpacusState, sampling: str | None) -> bool:
    """Return whether nobody has said how batches were drawn."""
    return sampling is None and state.carried is None


def _whole_passes(phase: Phase) -> bool:
    batches = round(1.0 / phase.sample_rate) if phase.sample_rate > 0.0 else 0
    return batches > 0 and phase.sample_rate == 1.0 / batches and phase.steps % batches == 0


def _lines(text: str) -> tuple[str, ...]:
    import textwrap

    return tuple(textwrap.wrap(text, 100))
