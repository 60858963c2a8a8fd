"""dpcli pmixed predict."""

from __future__ import annotations

import sys
from typing import NoReturn

import click

from dpcli.base.errors import InputError
from dpcli.cli.options import emit, output_options
from dpcli.cli.printing import complain


def _whole(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """A way of drawing that the guarantee does not cover: refused with the reason."""
    if value not in (None, False):
        _refuse(parameter.opts[0])


def _refuse(flag: str) -> NoReturn:
    from dpcli.file.pipeline.misplaced import WHOLE

    raise InputError(f"{flag} cannot be used here: {WHOLE}")


def _standard_input() -> str:
    """Without the line end that closes it."""
    try:
        return sys.stdin.buffer.read().decode().removesuffix("\n")
    except UnicodeDecodeError:
        raise InputError("standard input: expected a prompt in UTF-8, found another encoding") from None


@click.command(short_help="A prompt in, text out; each token is counted.")
@click.argument("file")
@click.option("--prompt", metavar="TEXT", help="What the text goes on from; standard input where absent.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Most tokens of the answer [default: the file's].")
@click.option("--moved", is_flag=True, help="The folder was moved here, and its first place is gone.")
@click.option("--top-k", type=str, hidden=True, expose_value=False, callback=_whole)
@click.option("--top-p", type=str, hidden=True, expose_value=False, callback=_whole)
@click.option("--greedy", is_flag=True, hidden=True, expose_value=False, callback=_whole)
@click.option("--ledger", metavar="LEDGER", help="The ledger that was charged at the fit, in which the tokens are counted.")
@click.option("--dataset", metavar="NAME", help="The dataset of --ledger, where that holds several.")
@output_options("text", "records")
def command(
    file: str,
    prompt: str | None,
    max_tokens: int | None,
    moved: bool,
    ledger: str | None,
    dataset: str | None,
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """Print text that goes on from a prompt, by the models that dpcli pmixed fit left.

    Each token is taken from those that were paid for, durably, before it is drawn. Where they are spent, what has come out is printed, with
    exit code 1. Random numbers come from the operating system alone.
    """
    from dpcli.predict.documents.pmixed import NOT_DP, answer, spent
    from dpcli.predict.pmixed.answer import answered, ensemble
    from dpcli.predict.pmixed.fit import queries_of
    from dpcli.predict.pmixed.plan import plan_of
    from dpcli.sessions.charged import require_same_books
    from dpcli.sessions.commands.predicting import opened_or_none

    plan = plan_of(file)
    text = _standard_input() if prompt is None else prompt
    models = ensemble(plan)
    session = models.fit.session
    with opened_or_none(ledger, dataset) as books:
        require_same_books(plan.folder, session.charged, books, "fit")
        queries = queries_of(plan, session, books, moved)
        found = answered(models, queries, text, max_tokens or plan.settings.max_tokens)
    if plan.account is None:
        complain(NOT_DP)
    code = emit(answer(plan, found), format_, outputs)
    if format_ == "text" and found.refused is None and not click.get_current_context().obj.quiet:
        complain(spent(found))
    return code
