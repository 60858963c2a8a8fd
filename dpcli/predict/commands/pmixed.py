"""The command group `dpcli pmixed`: predict tokens from language models fitted on private shards, mixed with a public model.

`fit` makes the models. It charges a ledger, if one is named, for all tokens. `predict` draws tokens from the models, and counts each before
it is drawn. `evaluate` compares perplexities for the operator, and `account` prices a file. `predict` refuses options that change how a
token is drawn (`_refuse`): the guarantee covers what the file says. `output_options` adds -f and -o, and its arguments say what the
documents contain; `emit` prints a document and returns its exit code.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext

import click

from dpcli.base.errors import InputError
from dpcli.base.extras import require
from dpcli.cli.groups import LazyGroup
from dpcli.cli.options import emit, output_options
from dpcli.cli.printing import complain, progress
from dpcli.sessions.commands.ledger_options import charging_options, opened_or_none, opened_or_warned, restrict_run

SUBCOMMANDS: dict[str, tuple[str, str]] = {
    "fit": ("dpcli.predict.commands.pmixed:fit", "Fine-tune a model on each shard, and charge for all tokens."),
    "predict": ("dpcli.predict.commands.pmixed:predict", "Continue a prompt; each token is counted."),
    "evaluate": ("dpcli.predict.commands.pmixed:evaluate", "Compare perplexities with the public model and other private methods."),
    "account": ("dpcli.predict.commands.pmixed:account", "Print the cost of a file, or solve for its radius or tokens."),
}
DEFAULTS = {  # default of --values for each choice of --over
    "epsilon": "1,2,4,8,16",
    "steps": "256,1024,4096,16384",
    "shards": "10,20,40,80",
    "rate": "0.01,0.03,0.1,0.3,1",
}


@click.group(cls=LazyGroup, table=SUBCOMMANDS, short_help="Text from models of private shards, mixed with a public model.")
def command() -> None:
    """Answer prompts from an ensemble of language models, each fine-tuned without noise on a shard of private texts (PMixED).

    For each token, a random subset of the models is drawn. The distribution of each chosen model is moved to within a radius of the public
    model, and the token is drawn from their average. A mechanism of type pmixed in FILE states the shards, rate, radius and tokens (steps).
    The [pmixed] table names the models and data.

    Exit codes: 1 if the budget, the ledger or the count of tokens refuses, 2 for an input error, 4 if the ledger or the count is missing,
    locked or damaged.
    """


@click.command(short_help=SUBCOMMANDS["fit"][1])
@click.argument("file")
@click.option("--resume", is_flag=True, help="Continue a fit that was interrupted.")
@charging_options("Charge this ledger for all tokens before the first model is fitted.")
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
    """Fine-tune the models of [pmixed] in FILE without noise, one on each shard of the private texts, and start the count of tokens.

    The models are as private as the texts. Only dpcli pmixed predict may release anything computed from them. Exit codes: 1 if the file's
    budget or the ledger refuses, 130 if the fit was interrupted. --resume continues with the next model.
    """
    from dpcli.predict.documents.pmixed import fit_document
    from dpcli.predict.pmixed.ensemble_fit import fit as fit_ensemble
    from dpcli.predict.pmixed.pmixed_plan import plan_of

    plan = plan_of(file)
    unpriced = ledger is None and plan.account is None  # a plan in the mode "paper" has no guarantee, and so no cost to charge
    with nullcontext() if unpriced else opened_or_warned(ledger, dataset) as opened_ledger, progress("models") as report:
        try:
            plan = restrict_run(plan, opened_ledger, window)  # to the part of the dataset that FILE or --window names
            outcome = fit_ensemble(plan, opened_ledger, resume, report)
        except KeyboardInterrupt:
            click.echo(f"dpcli: the models fitted so far are in {plan.folder}; --resume continues from there", err=True)
            raise
    return emit(fit_document(outcome), format_, outputs)


def _refuse(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """Raise InputError for an option that changes how tokens are drawn, which the guarantee would not cover."""
    if value not in (None, False):
        from dpcli.file.pipeline.misplaced import NONE_IN_PMIXED

        raise InputError(f"{parameter.opts[0]} cannot be used here: {NONE_IN_PMIXED}")


@click.command(short_help=SUBCOMMANDS["predict"][1])
@click.argument("file")
@click.option("--prompt", metavar="TEXT", help="Text to continue [default: standard input].")
@click.option(
    "--max-tokens", type=click.IntRange(min=1), help="Largest number of tokens of the answer [default: max_tokens of FILE]."
)
@click.option("--moved", is_flag=True, help="Confirm that the folder was moved here and that no copy of it is left elsewhere.")
@click.option("--top-k", type=str, hidden=True, expose_value=False, callback=_refuse)
@click.option("--top-p", type=str, hidden=True, expose_value=False, callback=_refuse)
@click.option("--greedy", is_flag=True, hidden=True, expose_value=False, callback=_refuse)
@click.option("--ledger", metavar="LEDGER", help="The ledger that was charged by the fit, and that counts the tokens.")
@click.option("--dataset", metavar="NAME", help="Dataset of --ledger, if it has several.")
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
    """Continue a prompt by the models that dpcli pmixed fit made.

    The fit paid for a number of tokens. Each token is subtracted durably from that number before it is drawn. If no token is left, the text
    so far is printed, with exit code 1. Random numbers come from the operating system alone.
    """
    from dpcli.predict.documents.pmixed import predict_document, tokens_left
    from dpcli.predict.pmixed.ensemble_fit import token_counter
    from dpcli.predict.pmixed.model_ensemble import answer_prompt, ensemble
    from dpcli.predict.pmixed.pmixed_plan import NO_GUARANTEE, plan_of
    from dpcli.sessions.charged import require_same_ledger

    plan = plan_of(file)
    text = _standard_input() if prompt is None else prompt
    models = ensemble(plan)
    session = models.fit.session
    with opened_or_none(ledger, dataset) as opened_ledger:
        require_same_ledger(plan.folder, session.charged, opened_ledger, "fit")
        result = answer_prompt(
            models, token_counter(plan, session, opened_ledger, moved), text, max_tokens or plan.pmixed.max_tokens
        )
    if plan.account is None:
        complain(NO_GUARANTEE)
    code = emit(predict_document(plan, result), format_, outputs)
    if format_ == "text" and result.refusal is None and not click.get_current_context().obj.quiet:
        complain(tokens_left(result))
    return code


def _standard_input() -> str:
    """Return the text of standard input without its last line end."""
    try:
        return sys.stdin.buffer.read().decode().removesuffix("\n")
    except UnicodeDecodeError:
        raise InputError("standard input: expected a prompt in UTF-8") from None


@click.command(short_help=SUBCOMMANDS["evaluate"][1])
@click.argument("file")
@click.option(
    "--over", type=click.Choice(tuple(DEFAULTS)), help="Also vary this parameter, and solve for the radius at each of its values."
)
@click.option("--values", metavar="LIST", help="Values of --over, separated by commas.")
@click.option(
    "--tokens", type=click.IntRange(min=2), default=2_000, show_default=True, help="Largest number of tokens of the test text."
)
@click.option(
    "--picture",
    "pictures",
    multiple=True,
    metavar="[FORMAT=]PATH",
    help="Draw the results of --over to PATH (.svg, .png, .csv, .vl.json); repeatable.",
)
@output_options("table")
def evaluate(
    file: str, over: str | None, values: str | None, tokens: int, pictures: tuple[str, ...], format_: str, outputs: tuple[str, ...]
) -> int:
    """Print perplexities on the test text of [pmixed], which is declared public, with bootstrap intervals.

    The methods compared are the public model, the ensemble (clip, mix, and the published protocol), one model trained with differential
    privacy at the same epsilon, and one trained without privacy.

    No token is counted, as none is drawn. The figures are computed from the private texts without noise: do not publish them. The models of
    an existing fit are used. Without a fit, models are fitted for this command and deleted afterwards.
    """
    from dpcli.cli.picture import destination, show
    from dpcli.predict.documents.pmixed_evaluation import evaluate_document
    from dpcli.predict.pmixed.ensemble_evaluation import evaluate
    from dpcli.predict.pmixed.model_ensemble import ensemble_if_fitted
    from dpcli.predict.pmixed.pmixed_plan import plan_of

    if (pictures or values) and over is None:
        raise InputError(f"{'--picture' if pictures else '--values'}: needs --over, the parameter to vary")
    if "png" in [destination(path, None).format for path in pictures]:
        require("matplotlib")  # fails before the evaluation, whose results would otherwise be lost
    points = _values(values or DEFAULTS[over]) if over is not None else ()
    plan = plan_of(file)
    with progress("records") as report:
        evaluation = evaluate(plan, ensemble_if_fitted(plan), over, points, tokens, report=report)
    document = evaluate_document(evaluation)
    if pictures:
        if not document.pictures:
            actual = "an infinite perplexity" if len(points) > 1 else f"{len(points)} value"
            raise InputError(f"--picture: needs two values of --over or more, and finite perplexities, found {actual}")
        show(document.pictures[0], format_=None, outputs=pictures)
    return emit(document, format_, outputs)


def _values(text: str) -> tuple[float, ...]:
    """Return the different values of --values in ascending order: "4,1,2" -> (1.0, 2.0, 4.0)."""
    try:
        values = tuple(sorted({float(part) for part in text.split(",")}))
    except ValueError:
        raise InputError(f"--values: expected numbers separated by commas, found {text!r}") from None
    if not all(0.0 < value < float("inf") for value in values):
        raise InputError(f"--values: expected numbers > 0, found {text!r}")
    return values


@click.command(short_help=SUBCOMMANDS["account"][1])
@click.argument("file")
@click.option(
    "--solve",
    type=click.Choice(["radius", "steps"]),
    help="Solve for the largest radius, or for the most tokens, that meets the budget.",
)
@click.option("--target-epsilon", type=float, help="Target epsilon of --solve [default: the budget of FILE].")
@click.option("--delta", type=float, help="Use this delta [default: the delta of FILE].")
@output_options("table", "total")
def account(
    file: str, solve: str | None, target_epsilon: float | None, delta: float | None, format_: str, outputs: tuple[str, ...]
) -> int:
    """Print the cost of the tokens of FILE, by Renyi divergences and by privacy-loss distributions, for a replaced and for a removed shard.

    With --solve, print the largest radius or the most tokens that meets a target, rounded to seven digits on the safe side.

    Exit code 1 if the budget is overspent, or if delta is too large for the dataset.

    With mode = "paper", print the claim of the published protocol, which is not a DP guarantee.
    """
    from dpcli.lint.delta import judged_deltas
    from dpcli.lint.documents.diagnostics import with_diagnostics
    from dpcli.predict.documents.pmixed import account_document
    from dpcli.predict.pmixed.pmixed_plan import plan_of
    from dpcli.predict.pmixed.token_costs import costs

    plan = plan_of(file)
    priced = costs(plan, solve, target_epsilon, delta)
    stated = {"delta" if delta is None else "--delta": priced.delta}
    # Lint findings about the delta, which may be too large for the dataset.
    diagnostics = judged_deltas(stated, plan.pipeline.privacy.dataset_size, file)
    return emit(with_diagnostics(account_document(priced), diagnostics), format_, outputs)
