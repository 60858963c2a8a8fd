"""Conversion of the history of an Opacus accountant to a pipeline file, and of a pipeline to such a history.

The *state* of an accountant has its *history*, a list of *phases*: steps with one noise multiplier and one sampling rate. `dpcli import
opacus` calls `file_of_state`, which makes one entry (a [[mechanism]] table) of all phases. `dpcli export opacus` calls `state_of`, and
writes the state with `json_text` or `torch_bytes`. An exported rate and number of steps are rounded up, so that the history does not claim
more privacy. Opacus assumes Poisson sampling and does not record how batches were drawn, so the user states it, or the file says that it
was assumed.
"""

from __future__ import annotations

import io
import json
import pickle
import textwrap
import zipfile
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from dpcli.base.errors import InputError
from dpcli.exchange.foreign import EVERY_STEP, Asserted, carried_tables, file_of, rate_of
from dpcli.exchange.opacus.accountant import OpacusState, Phase
from dpcli.exchange.schedule_csv import merged_stages, staged_entry, wrapped
from dpcli.file.pipeline.canonical import tables_of
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.parts import sample_readers
from dpcli.file.toml.shown import escaped, first_names, quoted
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.mechanisms.sampling.schemes import Poisson, Unsampled

OPACUS_ADJACENCY = "add-remove"  # the adjacency that all accountants of Opacus assume
# Note on a file for which the user did not state how batches were drawn.
ASSUMED = (
    "Opacus accounts for every step as Poisson sampling and does not record how batches were drawn. With poisson_sampling=True of "
    "make_private they are Poisson samples; with False they are slices of a shuffled order. State --sampling poisson or shuffle"
)
# Note for the accountant gdp, which uses a central limit theorem.
APPROXIMATE = "The epsilon of Opacus is an approximation that may be too small (dpcli account -a all)."
HEADING_WIDTH = 100  # largest number of characters in a line of these notes; layout alone
# Comments in a written pipeline file, by key.
COMMENTS = {"adjacency": "the adjacency of Opacus's accountants", "noise_multiplier": "relative to max_grad_norm"}
COMMENTS_IF_ASSUMED = {"sampling": "ASSUMED: see above"}


def state_of(pipeline: Pipeline, mechanism: str) -> OpacusState:
    """Return the state of an Opacus accountant with the mechanisms of this pipeline, except those that read no private data.

    `mechanism` is the name of the accountant: prv, rdp or gdp. Raises InputError if no mechanism reads private data, or Opacus cannot
    express the pipeline: it has only Gaussian noise on Poisson samples or on all records, relative to the contribution of one record, under
    add-remove and without adaptive composition.
    """
    if pipeline.privacy.adjacency.value != OPACUS_ADJACENCY:
        raise InputError(
            f"Opacus protects records that are added or removed: expected {OPACUS_ADJACENCY}, found {pipeline.privacy.adjacency.value}"
        )
    if (pipeline.privacy.max_contributions or 1) > 1:
        raise InputError("Opacus protects one record: expected max_contributions = 1, or no such key")
    if pipeline.privacy.adaptive:
        raise InputError("Opacus composes mechanisms that were fixed beforehand: expected adaptive = false, found true")
    phases = tuple(_phase(entry, pipeline) for entry in pipeline.mechanisms if not entry.spec.free)
    if not phases:
        raise InputError("no mechanism reads private data")
    return OpacusState(mechanism, phases, tables_of(pipeline))


def _phase(entry: Entry, pipeline: Pipeline) -> Phase:
    """Return the phase for an entry. Its rate and its number of steps are rounded up. Raises InputError if Opacus cannot express it."""
    problem = next(_problems(entry, pipeline), None)
    size = pipeline.privacy.dataset_size
    rate, rate_of_epochs = 1.0, None
    if problem is None and isinstance(entry.sampling, Poisson):
        # If a file states two rates, the larger one is charged, and the smaller one gives more steps for each epoch.
        rate, rate_of_epochs = rate_of(entry.sampling, size), entry.sampling.lower_rate(size)
        problem = "its rate is 0" if rate == 0.0 else None
    if problem is not None:
        raise InputError(f"mechanism {quoted(entry.name)} cannot be a history of Opacus: {problem}")
    assert isinstance(entry.spec, GaussianSpec) and entry.spec.noise_multiplier is not None
    return Phase(entry.spec.noise_multiplier, rate, entry.runs(size).steps_at(rate_of_epochs))


def _problems(entry: Entry, pipeline: Pipeline) -> Iterator[str]:
    """Yield a description of each property of the entry that an Opacus history cannot express."""
    if not isinstance(entry.spec, GaussianSpec):
        yield f"its type is {entry.type}, but Opacus has only gaussian"
    elif entry.spec.noise_multiplier is None:
        yield "it states sigma with sensitivity, but Opacus has only noise_multiplier"
    if not isinstance(entry.sampling, Poisson | Unsampled | None):
        yield f"its sampling is {entry.sampling.scheme}, but Opacus has only poisson"
    elif isinstance(entry.sampling, Poisson) and entry.sampling.max_batch_size is not None:
        yield "it has max_batch_size, which Opacus cannot express"
    if entry.partition is not None:
        yield "it has a partition, which Opacus cannot express"
    charged = [other for other in sample_readers(entry, pipeline.mechanisms) if not other.spec.free]
    others = [quoted(other.name) for other in charged if other is not entry]
    if others:
        yield f"it shares its sample with {first_names(others)}, but in Opacus each has a separate sample"


def json_text(state: OpacusState) -> str:
    """Return the state as the JSON of an accountant's state_dict. `load_state_dict` of the accountant takes its object."""
    return json.dumps(_plain(state), indent=2) + "\n"


def torch_bytes(state: OpacusState) -> bytes:
    """Return the state as a file that torch.load(PATH, weights_only=True) reads. Equal states give equal bytes.

    The zip has the members that torch.save writes for values without tensors: the pickle, by protocol 2, and two facts of the format.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        files = {"data.pkl": pickle.dumps(_plain(state), protocol=2), "byteorder": b"little", "version": b"3\n"}
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(f"opacus/{name}"), data)  # a ZipInfo has a constant date
    return buffer.getvalue()


def _plain(state: OpacusState) -> dict[str, Any]:
    """Return the state_dict of an Opacus accountant, with the tables of the pipeline under one more key. Opacus ignores the key."""
    history = [(phase.noise_multiplier, phase.sample_rate, phase.steps) for phase in state.phases]
    return {"history": history, "mechanism": state.mechanism, "dpcli": state.carried}


def tables_of_state(state: OpacusState, asserted: Asserted, sampling: str | None) -> dict[str, Any]:
    """Return the tables of the pipeline file. If dpcli export wrote the state, they are the tables that it added.

    The keys of [privacy] that the user states are added in both cases. `sampling` is how batches were drawn, poisson or shuffle; None to
    assume Poisson sampling.

    Raises InputError if the added tables contradict the history, `asserted` or `sampling`, or there are too many phases. It is raised too
    if batches were shuffled and a phase before the last ends in the middle of a pass, because a record may then be in one more batch of the
    next phase than the number of its steps suggests.
    """
    if state.carried is not None:
        if sampling not in (None, "poisson"):
            raise InputError(f"expected --sampling poisson or none, as dpcli export stored the scheme, found {sampling}")
        return carried_tables(state.carried, asserted, lambda pipeline: state_of(pipeline, state.mechanism).phases, state.phases)
    if sampling == "shuffle" and not all(map(_whole_passes, state.phases[:-1])):
        raise InputError(
            "expected phases of whole passes, except for the last; found one that ends in the middle of a pass. With shuffled batches, a "
            "record may then be in two batches of the next phase: write the file by hand, with one more pass after each such phase"
        )
    stages = (
        {"noise_multiplier": phase.noise_multiplier, "steps": phase.steps, "rate": phase.sample_rate} for phase in state.phases
    )
    entry = staged_entry("dp-sgd", merged_stages(stages), sampling or "poisson")
    privacy = {"adjacency": OPACUS_ADJACENCY, **asserted.table, **EVERY_STEP}
    return {"format": 1, "privacy": privacy, "mechanism": [entry]}


def file_of_state(state: OpacusState, asserted: Asserted, sampling: str | None, place: str) -> str:
    """Return the text of the pipeline file, with comments on what the history does not state.

    The parameters are those of `tables_of_state`, and `place` names the record in messages.
    """
    heading = [f"From an Opacus checkpoint (accountant: {escaped(state.mechanism)})."]
    comments: dict[str, str] = {}
    if state.carried is None:
        comments |= COMMENTS
        if asserted.adjacency not in (None, OPACUS_ADJACENCY):
            del comments["adjacency"]  # the comment would be false
    if is_assumed(state, sampling):
        heading += textwrap.wrap(ASSUMED, HEADING_WIDTH)
        comments |= COMMENTS_IF_ASSUMED
    if state.carried is None and state.mechanism == "gdp":
        heading += textwrap.wrap(APPROXIMATE, HEADING_WIDTH)
    return file_of(tables_of_state(state, asserted, sampling), tuple(heading), comments, place, wrapped)


def is_assumed(state: OpacusState, sampling: str | None) -> bool:
    """Return whether Poisson sampling is assumed, because neither the user nor dpcli export stated how batches were drawn."""
    return sampling is None and state.carried is None


def _whole_passes(phase: Phase) -> bool:
    """Return whether the rate is 1 / n for a whole number n of batches in a pass, and the phase consists of complete passes."""
    batches = round(1 / Fraction(phase.sample_rate))  # as a float, 1 / rate may be infinite
    return phase.sample_rate == 1 / batches and phase.steps % batches == 0
