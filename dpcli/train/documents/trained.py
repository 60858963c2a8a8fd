"""What a trained model says, and what it is worth, as documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcli.base.rounding import up
from dpcli.document.document import Document, Sheet, Table, visible
from dpcli.sessions.documents.dry_run import shown
from dpcli.train.documents.run_statement import words

if TYPE_CHECKING:
    from dpcli.train.run.description import Description
    from dpcli.train.trained.answers import Predictions
    from dpcli.train.trained.evaluation import ModelEvaluation

SHOWN = 20  # rows in a table; csv and json have all of them
FREE = "predictions cost no epsilon: they are computed from the private model alone"
NOISELESS = (
    "computed from these data without noise: the epsilon of the run does not cover it, and it is not for publication unless the data are "
    "public"
)
DECLARED = "the training file declares these data public, which nobody has checked; no noise was added"
SEEDED = "NOT PRIVATE (seeded noise, or laid open to an audit): the run guarantees nothing"


def predictions(description: Description, answers: Predictions) -> Document:
    """Everything that `dpcli predict` says."""
    columns, count = answers.columns[: answers.brief], len(answers.rows)
    rows = tuple(tuple(map(_cell, row[: answers.brief])) for row in answers.rows[:SHOWN])
    more = (f"{count - SHOWN:,} more rows: -f csv and -f json have all of them",) if count > SHOWN else ()
    numeric = frozenset(at for at in range(len(columns)) if answers.rows and not isinstance(answers.rows[0][at], str))
    said = f"{count:,} answers of {shown(description.folder)}, {guaranteed(description)}"
    records = tuple(dict(zip(answers.columns, row, strict=True)) for row in answers.rows)
    data = {"schema": "dpcli/predict/v1", "run": description.run, "result": result(description), "answers": records, "exit_code": 0}
    return Document(
        said,
        data,
        "pass" if description.guarantee["private"] else "warn",
        (Table("answers", columns, rows, numeric, more),),
        (FREE,) if description.guarantee["private"] else (SEEDED,),
        records=records,
        sheet=Sheet(answers.columns, answers.rows),
    )


def _cell(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else visible(str(value))


def evaluated(found: ModelEvaluation) -> Document:
    """Everything that `dpcli evaluate` says."""
    description = found.description
    said = f"{words(found.metrics)} on {visible(found.source)}: {shown(description.folder)}, {guaranteed(description)}"
    warned = DECLARED if found.declared else NOISELESS
    data = {
        "schema": "dpcli/evaluate/v1",
        "run": description.run,
        "metrics": dict(found.metrics),
        "data": found.source,
        "declared_public": found.declared,
        "result": result(description),
        "exit_code": 0,
    }
    total = repr(next(iter(found.metrics.values()), None))
    verdict = "pass" if found.declared and description.guarantee["private"] else "warn"
    return Document(said, data, verdict, notes=(warned,), details=(warned,), total=total)  # type: ignore[arg-type]


def guaranteed(description: Description) -> str:
    """The guarantee of a run, with everything that belongs to it."""
    stated = description.guarantee
    if stated["epsilon"] is None:
        return SEEDED
    return (
        f"epsilon <= {up(stated['epsilon'])} at delta = {stated['delta']!r} (per {visible(stated['unit'])}, {stated['adjacency']})"
    )


def result(description: Description) -> dict[str, Any]:
    """The same for a machine."""
    return {"epsilon_upper": description.guarantee["epsilon"], "delta": description.guarantee["delta"]}
