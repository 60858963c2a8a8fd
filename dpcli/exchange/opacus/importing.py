"""An accountant's history as the tables and the text of a pipeline file."""

from __future__ import annotations

from typing import Any

from dpcli.errors import InputError
from dpcli.exchange.carried import tables_carried
from dpcli.exchange.opacus.exporting import state_of
from dpcli.exchange.opacus.history import OpacusState, Phase
from dpcli.exchange.stated import Asserted, file_of
from dpcli.toml.shown import escaped

ASSUMED = (
    "Opacus counts every step as Poisson sampling and does not record how batches were drawn: poisson_sampling=True of make_private is "
    "Poisson, False is a shuffled order (import with --sampling shuffle)"
)
COMMENTS = {
    "adjacency": "the one that Opacus's accountants count with",
    "noise_multiplier": "over max_grad_norm",
    "sampling": "ASSUMED: see above",
}


def tables_of_state(state: OpacusState, asserted: Asserted, sampling: str) -> dict[str, Any]:
    """The tables of the file that says the same; where dpcli export wrote the state, those that it carries.

    Raises InputError where these say something else than the history; and of shuffled batches where a phase begins within a pass, as a
    record may then be in one more batch of it than its steps tell.
    """
    if state.carried is not None:
        return tables_carried(state.carried, asserted, lambda pipeline: state_of(pipeline, state.mechanism).phases, state.phases)
    several = len(state.phases) > 1
    if sampling == "shuffle" and not all(map(_whole_passes, state.phases[:-1])):
        raise InputError(
            "expected phases of whole passes, but for the last, where batches are of a shuffled order: found one that ends within a pass, "
            "and the next may hold a record of it twice; write the file by hand, with that many more passes"
        )
    entries = [
        {
            "name": f"dp-sgd-{place}" if several else "dp-sgd",
            "type": "gaussian",
            "noise_multiplier": phase.noise_multiplier,
            "steps": phase.steps,
            "sampling": {"scheme": sampling, "rate": phase.sample_rate},
        }
        for place, phase in enumerate(state.phases, 1)
    ]
    privacy = {"adjacency": "add-remove", **asserted.table, "releases": "all-checkpoints"}
    return {"format": 1, "privacy": privacy, "mechanism": entries}


def file_of_state(state: OpacusState, asserted: Asserted, sampling: str, place: str) -> str:
    """The text of the file, read again and found good. place: what messages call it. Raises InvalidFile where the reader refuses it."""
    heading = (f"From an Opacus checkpoint (accountant: {escaped(state.mechanism)}).", *(() if state.carried else _lines(ASSUMED)))
    return file_of(tables_of_state(state, asserted, sampling), heading, {} if state.carried else COMMENTS, place)


def _whole_passes(phase: Phase) -> bool:
    batches = round(1.0 / phase.sample_rate) if phase.sample_rate > 0.0 else 0
    return batches > 0 and phase.sample_rate == 1.0 / batches and phase.steps % batches == 0


def _lines(text: str) -> tuple[str, ...]:
    import textwrap

    return tuple(textwrap.wrap(text, 100))
