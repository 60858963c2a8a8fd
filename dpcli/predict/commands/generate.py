"""The command `dpcli generate`: write private texts, token by token."""

from __future__ import annotations

from typing import Any

import click

from dpcli.predict.commands.session_command import run_session, session_options


@click.command(short_help="Write private texts, token by token.")
@session_options("Go on with the session in the folder: write more of its texts.")
@click.option("--texts", type=click.IntRange(min=1), help="How many to write now; all that are left without it.")
def command(file: str, moved: bool, texts: int | None, **options: Any) -> int:
    """Write texts from private ones by a language model, as [generate] in FILE says: each token is drawn from clipped, averaged logits.

    All tokens that may be written are paid for beforehand; where the entry has a threshold, all that may be private. Exit code 1 where the
    budget or the ledger says no or no text is left, 2 where the file asks for what cannot be done, 4 where the count of texts or the ledger
    cannot be relied on.

    Texts, and the private tokens of each batch, are counted in --ledger; without one, in the session's folder, in queries.db and
    private-0.db. A copy of these is refused where that can be seen: another file, or another machine. A disk or a virtual machine that is
    put back as a whole cannot be told from the first; a count in PostgreSQL (the key count) is none of them.
    """
    from dpcli.predict.decode.generate_plan import plan_of
    from dpcli.predict.documents.generate import outcome, planned

    def work(plan: Any, books: Any, resume: bool, report: Any) -> Any:
        from dpcli.predict.decode.generation import write_texts

        return write_texts(plan, books, resume, moved, texts, report)

    return run_session(plan_of(file), planned, work, outcome, **options)
