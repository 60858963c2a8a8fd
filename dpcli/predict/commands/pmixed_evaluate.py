"""dpcli pmixed evaluate."""

from __future__ import annotations

import click

from dpcli.audit.commands.trials import progress
from dpcli.base.errors import InputError
from dpcli.base.extras import require
from dpcli.cli.options import emit, output_options

VALUES = {
    "epsilon": "1,2,4,8,16",
    "steps": "256,1024,4096,16384",
    "shards": "10,20,40,80",
    "rate": "0.01,0.03,0.1,0.3,1",
}


@click.command(short_help="Perplexity beside the public model and other ways of privacy.")
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
def command(
    file: str, over: str | None, values: str | None, tokens: int, pictures: tuple[str, ...], format_: str, outputs: tuple[str, ...]
) -> int:
    """Print perplexities on the test text of [pmixed], which is declared public, with bootstrap intervals: of the public model, of the
    ensemble (clip, mix, and the published protocol), of one model under differential privacy at the same epsilon, and without any.

    No token is counted, as nothing is drawn. The figures are computed from the private texts without noise: they are not for publication.
    The models of a fit are used where there is one; else they are made, and thrown away.
    """
    from dpcli.cli.picture import destination, show
    from dpcli.predict.documents.pmixed_evaluation import evaluated
    from dpcli.predict.pmixed.answer import members_of
    from dpcli.predict.pmixed.evaluate import evaluate
    from dpcli.predict.pmixed.plan import plan_of

    if (pictures or values) and over is None:
        raise InputError(f"{'--picture' if pictures else '--values'}: expected --over, which says what is varied, found none")
    if "png" in [destination(path, None)[0] for path in pictures]:
        require("matplotlib")  # before the work, which would be lost with the other pictures
    points = _values(values or VALUES[over]) if over is not None else ()
    plan = plan_of(file)
    with progress("records") as report:
        found = evaluate(plan, members_of(plan), over, points, tokens, report=report)
    document = evaluated(found)
    if pictures:
        if not document.pictures:
            raise InputError("--picture: expected two values of --over or more, found fewer")
        show(document.pictures[0], None, pictures)
    return emit(document, format_, outputs)


def _values(text: str) -> tuple[float, ...]:
    try:
        found = tuple(sorted({float(part) for part in text.split(",")}))
    except ValueError:
        raise InputError(f"--values: expected numbers with commas between, found {text!r}") from None
    if not all(0.0 < value < float("inf") for value in found):
        raise InputError(f"--values: expected numbers > 0, found {text!r}")
    return found
