"""The command `dpcli prompt`: make a prompt from private demonstrations by noisy votes."""

from __future__ import annotations

from typing import Any

import click

from dpcli.predict.commands.session_command import run_session, session_options


@click.command(short_help="Make a prompt of private demonstrations, by noisy votes (PromptPATE).")
@session_options("Go on with the session in the folder: texts that were answered are not asked about again.")
def command(file: str, moved: bool, **options: Any) -> int:
    """Label public texts by the noisy votes of teachers, each a prompt with private demonstrations of its own, as [prompt] in FILE says,
    and make a prompt of those labels.

    Exit code 1 where the budget or the ledger says no, 2 where the file asks for what cannot be done, 4 where the count of queries or the
    ledger cannot be relied on.

    Answers are counted in --ledger; without one, in the session's folder, in queries.db. A copy of it is refused where that can be seen:
    another file, or another machine. A disk or a virtual machine that is put back as a whole cannot be told from the first; a count in
    PostgreSQL (the key count) is none of them.
    """
    from dpcli.predict.documents.prompt import outcome, planned
    from dpcli.predict.prompt.prompt_plan import plan_of

    def work(plan: Any, books: Any, resume: bool, report: Any) -> Any:
        from dpcli.predict.prompt.prompt_session import vote_and_teach

        return vote_and_teach(plan, books, resume, moved, report)

    return run_session(plan_of(file), planned, work, outcome, **options)
