"""An accountant's history as the tables and the text of a pipeline file."""

from __future__ import annotations

from typing import Any

from dpcli.base.errors import InputError
from dpcli.exchange.carried import tables_carried
from dpcli.exchange.opacus.exporting import state_of
from dpcli.exchange.opacus.history import OpacusState, Phase
from dpcli.exchange.stages import merged_stages, staged_entry, wrapped
from dpcli.exchange.stated import Asserted, file_of
from dpcli.file.toml.shown import escaped

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


def tables_of_state(state: OpacusState, asserted: Asserted, sampling: str | None) -> dict[str, Any]:
    """The tables of the file that says the same; where dpcli export wrote the state, those that it carries.

    Args:
        sampling: the scheme by which batches were drawn; None where nobody has said, and Poisson is assumed, as Opacus does.

    Raises:
        InputError: these tables say something else than the history, or batches are said to be shuffled, which they exclude. Of shuffled
            batches where a phase begins within a pass, as a record may then be in one more batch of it than its steps tell.
    """
    if state.carried is not None:
        if sampling not in (None, "poisson"):
            raise InputError(
                f"expected --sampling poisson, or none: dpcli export wrote how batches were drawn beside the history, found {sampling}"
            )
        return tables_carried(state.carried, asserted, lambda pipeline: state_of(pipeline, state.mechanism).phases, state.phases)
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
    """The text of the file, read again and found good. place: what messages call it. Raises InvalidFile where the reader refuses it."""
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
    """Whether the file's guarantee is the one that Opacus counts: of one record, under its adjacency, on Poisson samples."""
    return _opacus_adjacency(asserted) and asserted.max_contributions in (None, 1) and sampling != "shuffle"


def _opacus_adjacency(asserted: Asserted) -> bool:
    return asserted.adjacency in (None, ADJACENCY)


def is_assumed(state: OpacusState, sampling: str | None) -> bool:
    """Whether nobody has said how batches were drawn."""
    return sampling is None and state.carried is None


def _whole_passes(phase: Phase) -> bool:
    batches = round(1.0 / phase.sample_rate) if phase.sample_rate > 0.0 else 0
    return batches > 0 and phase.sample_rate == 1.0 / batches and phase.steps % batches == 0


def _lines(text: str) -> tuple[str, ...]:
    import textwrap

    return tuple(textwrap.wrap(text, 100))
