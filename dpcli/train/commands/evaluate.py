"""The command `dpcli evaluate`: measure the metric of a trained model."""

from __future__ import annotations

import click

from dpcli.cli.options import emit, output_options


@click.command(short_help="The metric of the model of a training run.")
@click.argument("run")
@click.argument("data", required=False)
@output_options("text", "total")
def command(run: str, data: str | None, format_: str, outputs: tuple[str, ...]) -> int:
    """Print the metric of the model in the folder RUN, which dpcli train left: accuracy, perplexity, or your own.

    DATA are labelled records, as in dpcli predict; without them, those that the training file declares public. The metric is computed
    without noise: the epsilon of the run does not cover it, and it is not for publication unless the data are public.
    """
    from dpcli.train.documents.trained import evaluated
    from dpcli.train.trained.loading import evaluate

    return emit(evaluated(evaluate(run, data)), format_, outputs)
