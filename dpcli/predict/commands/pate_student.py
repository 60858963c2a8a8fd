"""dpcli pate student."""

from __future__ import annotations

import click

from dpcli.cli.options import emit, output_options, working


@click.command(short_help="Learn from the labels, and measure on public data.")
@click.argument("file")
@output_options("text")
def command(file: str, format_: str, outputs: tuple[str, ...]) -> int:
    """Teach the student of FILE the labels that were released and, unless it says otherwise, its own on the other queries.

    It reads public inputs and released labels alone, so that it costs nothing and may be done again as often as one likes.
    """
    from dpcli.predict.documents.pate import taught
    from dpcli.predict.pate.plan import plan_of
    from dpcli.predict.pate.student import teach

    with working():
        found = teach(plan_of(file))
    return emit(taught(found), format_, outputs)
