"""The command `dpcli predict`, which prints labels or text from a trained model."""

from __future__ import annotations

import click

from dpcli.base.errors import InputError
from dpcli.cli.document_files import write
from dpcli.cli.options import RealRange, emit, output_options


@click.command(short_help="Print labels or text from a training run's model.")
@click.argument("run")
@click.argument("data", required=False)
@click.option("--prompt", "prompts", multiple=True, metavar="TEXT", help="Give this text to the language model; repeatable.")
@click.option(
    "--tokens", type=click.IntRange(min=1), default=64, show_default=True, help="Largest number of tokens of generated text."
)
@click.option(
    "--temperature",
    type=RealRange(min=0.0),
    default=1.0,
    show_default=True,
    help="Sampling temperature; 0 picks the most likely token.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    help="Seed of generated text; the same seed gives the same text. By default, the text is random.",
)
@click.option("--parquet", metavar="PATH", help="Also write all rows to PATH as parquet.")
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
    """Print the answers of the model in RUN, a folder that dpcli train wrote. An answer is a label with its probability, or a text.

    DATA names the records: digits, a .npz file with an array "inputs", a .csv or .parquet file with the columns of the training data in
    their order, or module:function. For a language model, DATA names the texts: a .txt, .csv, .jsonl or .parquet file, or module:function.
    Labels in DATA are ignored. Predictions cost no epsilon, however many there are.
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
