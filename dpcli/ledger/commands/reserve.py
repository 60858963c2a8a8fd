"""dpcli budget reserve."""

from __future__ import annotations

import click

from dpcli.cli.options import emit
from dpcli.ledger.commands.options import charging, opened, with_delta_told


@click.command(short_help="Charge a long run before it starts.")
@charging(click.option("--expires", metavar="TIME", help="ISO time (UTC) or days (14d) after which it can no longer be voided."))
def command(
    ledger: str,
    file: str,
    key: str,
    dataset: str | None,
    delta: float | None,
    why: str,
    window: tuple[str, ...],
    anchor: str | None,
    expires: str | None,
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """Charge one run of the pipeline FILE to LEDGER in full, before it starts.

    Then `start` it before the first noise, and `commit` it at its end. It can be voided only before it was started. A reservation that
    nobody comes back to stays charged: past --expires it cannot even be voided. Reserved
    again under its key before it was started, it is the same reservation with its first --expires, and standard error says so.
    """
    from dpcli.file.pipeline.read import load
    from dpcli.ledger.documents.ledger_answers import receipt
    from dpcli.ledger.expiry import expiry

    pipeline = load(file)
    with opened(ledger, dataset, anchor) as found:
        until = expiry(expires, found.now())
        answer = receipt(found, lambda: found.reserve(pipeline, key, delta, why, until, window))
        return emit(with_delta_told(answer, found, pipeline, file, delta), format_, outputs)
