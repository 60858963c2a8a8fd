"""The command group `dpcli pmixed`: predict tokens from language models of private shards, mixed with a public one."""

from __future__ import annotations

import sys
from contextlib import nullcontext

import click

from dpcli.base.errors import InputError
from dpcli.base.extras import require
from dpcli.cli.groups import LazyGroup
from dpcli.cli.options import emit, output_options
from dpcli.cli.printing import complain, progress
from dpcli.sessions.commands.predicting import charged_ledger, charged_to, on_window, opened_or_none

SUBCOMMANDS: dict[str, tuple[str, str]] = {
    "fit": ("dpcli.predict.commands.pmixed:fit", "Fine-tune a model on each shard, and pay for all tokens."),
    "predict": ("dpcli.predict.commands.pmixed:predict", "A prompt in, text out; each token is counted."),
    "evaluate": ("dpcli.predict.commands.pmixed:evaluate", "Perplexity beside the public model and other ways of privacy."),
    "account": ("dpcli.predict.commands.pmixed:account", "What a file costs; or solve for its radius or tokens."),
}
VALUES = {
    "epsilon": "1,2,4,8,16",
    "steps": "256,1024,4096,16384",
    "shards": "10,20,40,80",
    "rate": "0.01,0.03,0.1,0.3,1",
}


@click.group(cls=LazyGroup, table=SUBCOMMANDS, short_help="Text from language models on private shards, mixed with a public one.")
def command() -> None:
    """Answer prompts from an ensemble of language models, each fine-tuned without noise on a shard of private texts (PMixED).

    Each token is drawn from the average of a random subset of the models, each first brought within a radius of a public model; a mechanism
    of type pmixed in FILE states shards, rate, radius and tokens (steps), and [pmixed] says which models and data.

    Exit code 1: the budget, the ledger or the count of tokens says no. 2: input error. 4: ledger or count missing, locked or damaged.
    """


@click.command(short_help=SUBCOMMANDS["fit"][1])
@click.argument("file")
@click.option("--resume", is_flag=True, help="Go on with a fit that did not end.")
@charged_ledger("Charge this ledger with all tokens before the first model.")
@output_options("text")
def fit(
    file: str,
    resume: bool,
    ledger: str | None,
    dataset: str | None,
    window: tuple[str, ...],
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """Fine-tune the models of [pmixed] in FILE without noise, one on each shard of the private texts, and begin to count their tokens.

    The models are as private as the texts: only dpcli pmixed predict may release anything of them. Exit code 1 where the file's budget or
    the ledger says no, 130 where it was interrupted: --resume goes on with the next model.
    """
    from dpcli.predict.documents.pmixed import fitted
    from dpcli.predict.pmixed.ensemble_fit import fit
    from dpcli.predict.pmixed.pmixed_plan import plan_of

    plan = plan_of(file)
    unpriced = ledger is None and plan.account is None  # what is no guarantee has no cost that adds up
    with nullcontext() if unpriced else charged_to(ledger, dataset) as books, progress("models") as report:
        try:
            outcome = fit(on_window(plan, books, window), books, resume, report)
        except KeyboardInterrupt:
            click.echo(f"dpcli: the models so far are in {plan.folder}; --resume goes on from there", err=True)
            raise
    return emit(fitted(outcome), format_, outputs)


def _refuse(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """Refuse a way of drawing that the guarantee does not cover, with the reason."""
    if value not in (None, False):
        from dpcli.file.pipeline.misplaced import NONE_IN_PMIXED

        raise InputError(f"{parameter.opts[0]} cannot be used here: {NONE_IN_PMIXED}")


@click.command(short_help=SUBCOMMANDS["predict"][1])
@click.argument("file")
@click.option("--prompt", metavar="TEXT", help="What the text goes on from; standard input where absent.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Most tokens of the answer [default: the file's].")
@click.option("--moved", is_flag=True, help="The folder was moved here, and its first place is gone.")
@click.option("--top-k", type=str, hidden=True, expose_value=False, callback=_refuse)
@click.option("--top-p", type=str, hidden=True, expose_value=False, callback=_refuse)
@click.option("--greedy", is_flag=True, hidden=True, expose_value=False, callback=_refuse)
@click.option("--ledger", metavar="LEDGER", help="The ledger that was charged at the fit, in which the tokens are counted.")
@click.option("--dataset", metavar="NAME", help="The dataset of --ledger, where that holds several.")
@output_options("text", "records")
def predict(
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
    from dpcli.predict.pmixed.ensemble_fit import queries_of
    from dpcli.predict.pmixed.model_ensemble import answer_prompt, ensemble
    from dpcli.predict.pmixed.pmixed_plan import plan_of
    from dpcli.sessions.charged import require_same_books

    plan = plan_of(file)
    text = _standard_input() if prompt is None else prompt
    models = ensemble(plan)
    session = models.fit.session
    with opened_or_none(ledger, dataset) as books:
        require_same_books(plan.folder, session.charged, books, "fit")
        result = answer_prompt(models, queries_of(plan, session, books, moved), text, max_tokens or plan.pmixed.max_tokens)
    if plan.account is None:
        complain(NOT_DP)
    code = emit(answer(plan, result), format_, outputs)
    if format_ == "text" and result.refused is None and not click.get_current_context().obj.quiet:
        complain(spent(result))
    return code


def _standard_input() -> str:
    """Return standard input without the line end that closes it."""
    try:
        return sys.stdin.buffer.read().decode().removesuffix("\n")
    except UnicodeDecodeError:
        raise InputError("standard input: expected a prompt in UTF-8") from None


@click.command(short_help=SUBCOMMANDS["evaluate"][1])
@click.argument("file")
@click.option("--over", type=click.Choice(tuple(VALUES)), help="Also vary this, the radius solved for anew at each value.")
@click.option("--values", metavar="LIST", help="The values of --over, with commas between.")
@click.option("--tokens", type=click.IntRange(min=2), default=2_000, show_default=True, help="Most tokens of the test text.")
@click.option(
    "--picture",
    "pictures",
    multiple=True,
    metavar="[FORMAT=]PATH",
    help="Draw --over to PATH (.svg, .png, .csv, .vl.json); repeatable.",
)
@output_options("table")
def evaluate(
    file: str, over: str | None, values: str | None, tokens: int, pictures: tuple[str, ...], format_: str, outputs: tuple[str, ...]
) -> int:
    """Print perplexities on the test text of [pmixed], which is declared public, with bootstrap intervals: of the public model, of the
    ensemble (clip, mix, and the published protocol), of one model under differential privacy at the same epsilon, and without any.

    No token is counted, as nothing is drawn. The figures are computed from the private texts without noise: they are not for publication.
    The models of a fit are used where there is one; else they are made, and thrown away.
    """
    from dpcli.cli.picture import destination, show
    from dpcli.predict.documents.pmixed import evaluated
    from dpcli.predict.pmixed.ensemble_evaluation import evaluate
    from dpcli.predict.pmixed.model_ensemble import members_of
    from dpcli.predict.pmixed.pmixed_plan import plan_of

    if (pictures or values) and over is None:
        raise InputError(f"{'--picture' if pictures else '--values'}: needs --over, which says what is varied")
    if "png" in [destination(path, None)[0] for path in pictures]:
        require("matplotlib")  # before the work, which would be lost with the other pictures
    points = _values(values or VALUES[over]) if over is not None else ()
    plan = plan_of(file)
    with progress("records") as report:
        evaluation = evaluate(plan, members_of(plan), over, points, tokens, report=report)
    document = evaluated(evaluation)
    if pictures:
        if not document.pictures:
            raise InputError(f"--picture: needs two values of --over or more, found {len(points)}")
        show(document.pictures[0], None, pictures)
    return emit(document, format_, outputs)


def _values(text: str) -> tuple[float, ...]:
    try:
        values = tuple(sorted({float(part) for part in text.split(",")}))
    except ValueError:
        raise InputError(f"--values: expected numbers with commas between, found {text!r}") from None
    if not all(0.0 < value < float("inf") for value in values):
        raise InputError(f"--values: expected numbers > 0, found {text!r}")
    return values


@click.command(short_help=SUBCOMMANDS["account"][1])
@click.argument("file")
@click.option(
    "--solve", type=click.Choice(["radius", "steps"]), help="Solve for the radius, or for the tokens, that meet the budget."
)
@click.option("--target-epsilon", type=float, help="The epsilon to meet; the file's budget where absent.")
@click.option("--delta", type=float, help="At this delta instead of the file's.")
@output_options("table", "total")
def account(
    file: str, solve: str | None, target_epsilon: float | None, delta: float | None, format_: str, outputs: tuple[str, ...]
) -> int:
    """Print what the tokens of FILE cost by Renyi divergences and by privacy-loss distributions, where a shard is replaced and where one is
    removed, side by side; or the largest radius or the most tokens that a target allows, to seven digits, on the private side.

    Exit code 1 where the budget is overspent, or the delta too large for the dataset.

    With mode = "paper" it prints what the published protocol claims, which is not a DP guarantee.
    """
    from dpcli.lint.delta import judged_deltas
    from dpcli.lint.documents.diagnostics import with_diagnostics
    from dpcli.predict.documents.pmixed import accounted
    from dpcli.predict.pmixed.pmixed_plan import plan_of
    from dpcli.predict.pmixed.token_costs import costs

    plan = plan_of(file)
    priced = costs(plan, solve, target_epsilon, delta)
    stated = {"delta" if delta is None else "--delta": priced.delta}
    diagnostics = judged_deltas(stated, plan.pipeline.privacy.dataset_size, file)
    return emit(with_diagnostics(accounted(priced), diagnostics), format_, outputs)
