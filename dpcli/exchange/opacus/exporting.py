"""A pipeline as the state of an accountant of Opacus."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Iterator
from typing import Any

from dpcli.base.errors import InputError
from dpcli.exchange.opacus.history import OpacusState, Phase
from dpcli.exchange.rounded import rate_of
from dpcli.file.pipeline.document import tables_of
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.parts import together
from dpcli.file.toml.shown import first_names, quoted
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.mechanisms.sampling.schemes import Poisson, Unsampled


def state_of(pipeline: Pipeline, mechanism: str) -> OpacusState:
    """The history of an accountant that has counted this pipeline; what touches no private data is not in it.

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
        raise InputError("expected a mechanism that touches private data, found none")
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
    """What Opacus has no words for."""
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
    others = [quoted(one.name) for one in together(entry, pipeline.mechanisms) if one is not entry and not one.spec.free]
    if others:
        yield f"it shares its sample with {first_names(others)}, and Opacus counts a sample for each"


def json_text(state: OpacusState) -> str:
    """The state as JSON."""
    return json.dumps(_plain(state), indent=2) + "\n"


def torch_bytes(state: OpacusState) -> bytes:
    """The state as a file that torch.load(PATH, weights_only=True) reads; the same state gives the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in (("data.pkl", pickle.dumps(_plain(state), protocol=2)), ("byteorder", b"little"), ("version", b"3\n")):
            archive.writestr(zipfile.ZipInfo(f"opacus/{name}"), data)
    return buffer.getvalue()


def _plain(state: OpacusState) -> dict[str, Any]:
    history = [(phase.noise_multiplier, phase.sample_rate, phase.steps) for phase in state.phases]
    return {"history": history, "mechanism": state.mechanism, "dpcli": state.carried}
