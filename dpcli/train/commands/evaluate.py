"""The command `dpcli evaluate`, which measures the metric of a trained model."""

from __future__ import annotations

import click

from dpcli.cli.options import emit, output_options


@click.command(short_help="Measure the metric of a training run's model.")
@click.argument("run")
@click.argument("data", required=False)
@output_options("text", "total")
def command(run: str, data: str | None, format_: str, outputs: tuple[str, ...]) -> int:
    """Print the metric of the model in RUN, a folder that dpcli train wrote. The metric is accuracy, perplexity, or your own function.

    DATA names labelled records, as in dpcli predict. Without DATA, the metric is measured on the data that the training file declares
    public. The metric is computed without noise, so the epsilon of the run does not cover it. Do not publish it unless the data are public.
    """
    from dpcli.train.documents.trained import evaluated
    from dpcli.train.trained.loading import evaluate

    return emit(evaluated(evaluate(run, data)), format_, outputs)
