"""dpcli import opacus."""

from __future__ import annotations

from typing import Any

import click

from dpcli.exchange.commands.importing_options import asserted_options, leave_made, naming


@click.command(short_help="The history of an Opacus accountant, from a checkpoint.")
@click.argument("checkpoint")
@click.option(
    "--sampling",
    type=click.Choice(["poisson", "shuffle"]),
    help="How batches were drawn: poisson_sampling of make_private  [default: poisson, and the file says that it is assumed].",
)
@asserted_options
def command(checkpoint: str, sampling: str | None, output: str | None, **given: Any) -> None:
    """Make a pipeline file of the accountant's history in CHECKPOINT: a file of PrivacyEngine.save_checkpoint, of torch.save of the
    accountant or its state_dict, alone or among other things, or the state_dict as JSON ("-" for standard input).

    Nothing in CHECKPOINT is run, and torch is not needed: pickles are read as plain values, and one that names anything else than
    tensors and plain values is refused.

    The history has noise multipliers, sampling rates and steps, which become one entry, with lists where they change. It does not say how
    batches were drawn (Opacus's number holds for Poisson sampling alone), at which delta, or whose data they are.

    Of Poisson samples and one record, dpcli account finds a little less than Opacus: its PRV accountant adds eps_error, 0.01 where nobody
    set it, and its RDP accountant finds what dpcli account -a rdp does, or a little more.
    """
    from dpcli.exchange.opacus.checkpoint import read_checkpoint
    from dpcli.exchange.opacus.history import state_in
    from dpcli.exchange.opacus.importing import ASSUMED, file_of_state, is_assumed

    with naming(checkpoint):
        state = state_in(read_checkpoint(checkpoint))
    note = ASSUMED if is_assumed(state, sampling) else ""
    leave_made(output, checkpoint, given, lambda asserted, place: file_of_state(state, asserted, sampling, place), note)
