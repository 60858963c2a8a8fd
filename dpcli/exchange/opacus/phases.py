"""Conversion between pipelines and the histories of Opacus accountants, in both directions."""

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

OPACUS_ADJACENCY = "add-remove"
ASSUMED = (
    "Opacus counts every step as Poisson sampling and does not record how batches were drawn: poisson_sampling=True of make_private is "
    "Poisson, False is a shuffled order: say which it was with --sampling poisson or shuffle"
)
APPROXIMATE = "Opacus's own number is an approximation (dpcli account -a all), which may be too small."  # of its accountant gdp
COMMENTS = {
    "adjacency": "the one that Opacus's accountants count with",
    "noise_multiplier": "over max_grad_norm",
}
COMMENTS_IF_ASSUMED = {"sampling": "ASSUMED: see above"}


def state_of(pipeline: Pipeline, mechanism: str) -> OpacusState:
    """Return the state of an Opacus accountant that has counted this pipeline, without the entries that touch no private data.

    Raises InputError for anything that Opacus cannot count: it knows only Gaussian noise, relative to one record's contribution, on
    Poisson samples.
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
    """Yield each property of the entry that an Opacus history cannot express."""
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
    companions = [
        quoted(other.name) for other in together(entry, pipeline.mechanisms) if other is not entry and not other.spec.free
    ]
    if companions:
        yield f"it shares its sample with {first_names(companions)}, and Opacus counts a sample for each"


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
    """Return the tables of the pipeline file; if dpcli export wrote the state, the tables that the state carries.

    Args:
        state: the history.
        asserted: keys of [privacy] that the user states.
        sampling: the scheme by which batches were drawn; None if Poisson sampling is assumed.

    Raises:
        InputError: the carried tables contradict the history; or batches were shuffled and a phase other than the last ends within a
            pass, so that a record may be in one more batch of the next phase than its steps tell.
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
    privacy = {"adjacency": OPACUS_ADJACENCY, **asserted.table, "releases": "all-checkpoints"}
    return {"format": 1, "privacy": privacy, "mechanism": [entry]}


def file_of_state(state: OpacusState, asserted: Asserted, sampling: str | None, place: str) -> str:
    """Return the text of the pipeline file. Raises InvalidFile if the reader of pipeline files refuses it."""
    assumed = is_assumed(state, sampling)
    heading = [f"From an Opacus checkpoint (accountant: {escaped(state.mechanism)}).", *(_lines(ASSUMED) if assumed else ())]
    comments: dict[str, str] = {}
    if state.carried is None:
        heading += _lines(APPROXIMATE) if state.mechanism == "gdp" else ()
        is_theirs = asserted.adjacency in (None, OPACUS_ADJACENCY)
        comments = {key: comment for key, comment in COMMENTS.items() if key != "adjacency" or is_theirs}
        comments |= COMMENTS_IF_ASSUMED if assumed else {}
    return file_of(tables_of_state(state, asserted, sampling), tuple(heading), comments, place, wrapped)


def is_assumed(state: OpacusState, sampling: str | None) -> bool:
    """Return whether neither the user nor the state says how batches were drawn, so that Poisson sampling is assumed."""
    return sampling is None and state.carried is None


def _whole_passes(phase: Phase) -> bool:
    """Return whether the phase consists of complete passes of equally many batches each."""
    batches = round(1.0 / phase.sample_rate) if phase.sample_rate > 0.0 else 0
    return batches > 0 and phase.sample_rate == 1.0 / batches and phase.steps % batches == 0


def _lines(text: str) -> tuple[str, ...]:
    import textwrap

    return tuple(textwrap.wrap(text, 100))
