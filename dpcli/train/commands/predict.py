"""The command `dpcli predict`: ask a trained model for labels or text."""

from __future__ import annotations

import click

from dpcli.base.errors import InputError
from dpcli.cli.options import RealRange, emit, output_options, write


@click.command(short_help="Ask the model of a training run: labels, or text.")
@click.argument("run")
@click.argument("data", required=False)
@click.option("--prompt", "prompts", multiple=True, metavar="TEXT", help="A text for a language model; repeatable.")
@click.option("--tokens", type=click.IntRange(min=1), default=64, show_default=True, help="Most tokens of a written text.")
@click.option(
    "--temperature",
    type=RealRange(min=0.0),
    default=1.0,
    show_default=True,
    help="Sampling temperature; 0 picks the most likely token.",
)
@click.option("--seed", type=click.IntRange(min=0), help="Write the same text again.")
@click.option("--parquet", metavar="PATH", help="Also write every row to PATH, as parquet.")
@output_options("table", "records")
def command(
    run: str,
    data: str | None,
    prompts: tuple[str, ...],
    tokens: int,
    temperature: float,
    seed: int | None,
    parquet: str | None,
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """Print what the model in the folder RUN, which dpcli train left, says of DATA: a label and its probability for each record, or the
    text that goes on from each prompt.

    DATA: digits, a .npz file with the array inputs, a .csv or .parquet file with the columns of the training data in their order, texts
    (.txt, .csv, .jsonl, .parquet), or module:function. Labels in it are not looked at. The model may be asked any number of times: that
    costs no epsilon.
    """
    from dpcli.train.documents.trained import predictions
    from dpcli.train.trained.loading import load_model
    from dpcli.train.trained.trained_model import ModelInput

    if data is None and not prompts:
        raise InputError("DATA: expected records, or a --prompt, found neither")
    model = load_model(run)
    answers = model.answers(ModelInput(data, prompts, tokens, temperature, seed))
    if parquet is not None:
        from dpcli.train.trained.trained_model import parquet_of

        write(parquet, parquet_of(answers))
    return emit(predictions(model.description, answers), format_, outputs)
