"""An accountant's history as the tables and the text of a pipeline file."""

from __future__ import annotations

from typing import Any

from dpcli.exchange.carried import tables_carried
from dpcli.exchange.opacus.exporting import state_of
from dpcli.exchange.opacus.history import OpacusState
from dpcli.exchange.stated import Asserted, file_of
from dpcli.toml.shown import escaped

ASSUMED = (
    "Opacus counts every step as Poisson sampling and keeps no word of how batches were drawn: poisson_sampling=True of make_private is "
    "Poisson, False is a shuffled order (import with --sampling shuffle)"
)
COMMENTS = {
    "adjacency": "the one that Opacus's accountants count with",
    "noise_multiplier": "over max_grad_norm",
    "sampling": "ASSUMED: see above",
}


def tables_of_state(state: OpacusState, asserted: Asserted, sampling: str) -> dict[str, Any]:
    """The tables of the file that says the same; where dpcli export wrote the state, those that it carries.

    Raises InputError where these say something else than the history.
    """
    if state.carried is not None:
        return tables_carried(state.carried, asserted, lambda pipeline: state_of(pipeline, state.mechanism).phases, state.phases)
    several = len(state.phases) > 1
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


def _lines(text: str) -> tuple[str, ...]:
    import textwrap

    return tuple(textwrap.wrap(text, 100))
