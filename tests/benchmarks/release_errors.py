"""Errors of releases beside OpenDP's: the same question about the same table, at the same epsilon, many times.

    python -m tests.benchmarks.release_errors [--repetitions 200] [--write]

OpenDP needs the version of polars that it was built for (1.36.1 for OpenDP 0.16): pip install --target FOLDER polars==1.36.1, and
PYTHONPATH=FOLDER. It takes about a second for each of its answers.
The true answers are computed once; dpcli's noise is that of the shipped plan of each query, whose epsilon is the one stated. OpenDP answers
through its Polars context, with the bounds and keys of the file. Both see examples/visits.csv with the first visit of each patient. --write
replaces the section of .github/docs/release-comparison.md.
"""

from __future__ import annotations

import argparse
import csv
import random
import statistics
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import opendp.prelude as dp
import polars as pl

from dpcli.release.aggregate import Total
from tests.benchmarks.isolation import ROOT
from tests.benchmarks.release_speed import PAGE, with_section
from tests.release.tables.files import priced

EPSILON, DELTA = 0.1, 1e-7  # at epsilon 1 most errors of a count are 0 or 1
STATES = ["CA", "NY", "TX", "WA"]
AGES, SHARE = (0, 115), 0.5
HEADING = "## Error beside OpenDP"
Rows = list[dict[str, Any]]

QUERIES: dict[str, dict[str, Any]] = {
    "count": {"measure": "count"},
    "count by 4 declared states": {"measure": "count", "by": ["state"]},
    "count by reasons that nobody lists": {"measure": "count", "by": ["reason"], "keys": "threshold", "delta": DELTA},
    "sum of ages": {"measure": "sum", "column": "age"},
    "mean age": {"measure": "mean", "column": "age"},
    "median age (rank)": {"measure": "quantile", "column": "age"},
}


def table() -> Rows:
    """Return the first visit of each patient, so that every row is a unit of its own."""
    with open(ROOT / "examples" / "visits.csv", encoding="utf-8", newline="") as file:
        visits = {row["patient"]: row for row in reversed(list(csv.DictReader(file)))}
    return [{"state": row["state"], "reason": row["reason"], "age": int(row["age"])} for row in visits.values() if row["age"]]


def true_answers(name: str, rows: Rows) -> dict[Any, float]:
    """Return the exact answer, by key."""
    query, ages = QUERIES[name], [row["age"] for row in rows]
    if "by" in query:
        return {key: sum(row[query["by"][0]] == key for row in rows) for key in {row[query["by"][0]] for row in rows}}
    return {
        (): {"count": len(rows), "sum": sum(ages), "mean": statistics.mean(ages), "quantile": SHARE * len(ages)}[query["measure"]]
    }


def rank_error(value: float, ages: Sequence[int]) -> float:
    """Return by how many rows a value misses the middle: 0 where the middle is among the rows that equal it."""
    below, up_to = sum(age < value for age in ages), sum(age <= value for age in ages)
    return max(below - SHARE * len(ages), SHARE * len(ages) - up_to, 0.0)


def dpcli_errors(name: str, rows: Rows, repetitions: int) -> list[float]:
    """Return the errors of dpcli's answers, by the shipped plan and measure."""
    columns = {
        "state": {"type": "text", "domain": STATES},
        "reason": {"type": "text"},
        "age": {"type": "integer", "min": AGES[0], "max": AGES[1]},
    }
    document = {
        "format": 1,
        "privacy": {"adjacency": "add-remove", "delta": 1e-6, "unit": "example"},
        "budget": {"epsilon": 50.0},
        "source": {"path": "rows.csv", "columns": columns},
        "query": [{"name": "q", "epsilon": EPSILON, **QUERIES[name]}],
    }
    (one,) = priced(document)
    totals = _totals(name, rows)
    true, ages, errors = true_answers(name, rows), [row["age"] for row in rows], []
    for _ in range(repetitions):
        answer = one.query.answer(one.setting, totals)
        for row in answer.rows:
            if QUERIES[name]["measure"] == "quantile":
                errors.append(rank_error(float(row.value), ages))  # type: ignore[arg-type]
            else:
                errors.append(abs(float(row.value) - true[row.key[0] if row.key else ()]))  # type: ignore[arg-type]
    return errors


def _totals(name: str, rows: Rows) -> dict[Any, Total]:
    """Return what the engine's statement yields for these rows: one total for each key."""
    query, ages = QUERIES[name], [row["age"] for row in rows]
    if query["measure"] == "quantile":
        return {(age,): Total(ages.count(age), ages.count(age), ()) for age in set(ages)}
    if query["measure"] in ("sum", "mean"):
        return {(): Total(len(ages), len(ages), (sum(ages),))}
    counts = true_answers(name, rows)
    return {(key,) if key != () else (): Total(int(count), int(count), ()) for key, count in counts.items()}


def opendp_errors(name: str, rows: Rows, repetitions: int) -> list[float]:
    """Return the errors of OpenDP's answers."""
    query, frame, true = QUERIES[name], pl.LazyFrame(rows), true_answers(name, rows)
    ages, age, bound, errors = [row["age"] for row in rows], pl.col("age").fill_null(0), 1_400, []
    margins = [dp.polars.Margin(by=[], max_length=bound, max_groups=1)]
    margins += [dp.polars.Margin(by=by, max_length=bound, max_groups=10) for by in (["state"], ["reason"])]
    loss = dp.loss_of(epsilon=EPSILON, delta=DELTA if "delta" in query else 0.0)
    for _ in range(repetitions):
        context = dp.Context.compositor(
            data=frame, privacy_unit=dp.unit_of(contributions=1), privacy_loss=loss, split_evenly_over=1, margins=margins
        )
        ask = context.query()
        if query["measure"] == "quantile":
            value = ask.select(age.dp.quantile(SHARE, list(range(AGES[0], AGES[1] + 1)))).release().collect().item()
            errors.append(rank_error(value, ages))
        elif "by" in query:
            key = query["by"][0]
            counted = ask.group_by(key).agg(dp.len(signed=True))
            if key == "state":
                counted = counted.with_keys(pl.LazyFrame({"state": STATES}))
            errors += [abs(row["len"] - true[row[key]]) for row in counted.release().collect().to_dicts()]
        else:
            one = {"count": dp.len(signed=True), "sum": age.dp.sum(AGES), "mean": age.dp.mean(AGES)}[query["measure"]]
            errors.append(abs(ask.select(one).release().collect().item() - true[()]))
    return errors


def interval(own: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    """Return the middle 95 % of the ratios of medians of samples drawn again."""
    draw = random.Random(1)
    ratios = sorted(
        statistics.median(draw.choices(own, k=len(own))) / max(statistics.median(draw.choices(other, k=len(other))), 1e-9)
        for _ in range(500)
    )
    return ratios[12], ratios[487]


def section(repetitions: int) -> str:
    """Return the section of the page."""
    rows = table()
    lines = [
        HEADING,
        "",
        f"Median absolute error of {repetitions} repetitions at epsilon {EPSILON:g}, of {len(rows):,} rows, one for each patient, by",
        "`python -m tests.benchmarks.release_errors`. The interval of the ratio is that of 95 of 100 samples drawn again. Where it",
        "holds 1, these repetitions show no difference.",
        "",
        "| question | dpcli | OpenDP | ratio |",
        "| --- | --- | --- | --- |",
    ]
    for name in QUERIES:
        own = dpcli_errors(name, rows, repetitions)
        try:
            other = opendp_errors(name, rows, repetitions)
        except Exception as error:  # what a library raises is its answer
            sys.stderr.write(f"{name}: {error}\n")
            lines.append(f"| {name} | {statistics.median(own):.3g} | not answered | |")
            continue
        low, high = interval(own, other)
        medians = statistics.median(own), statistics.median(other)
        ratio = (
            f"{medians[0] / medians[1]:.2f} ({low:.2f} to {high:.2f})"
            if medians[1]
            else "both 0"
            if not medians[0]
            else "OpenDP's is 0"
        )
        lines.append(f"| {name} | {medians[0]:.3g} | {medians[1]:.3g} | {ratio} |")
    return "\n".join(lines) + "\n"


def main(words: Sequence[str]) -> None:
    """Print the section, or put it into the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--write", action="store_true", help="put the section into the page")
    options = parser.parse_args(words)
    warnings.simplefilter("ignore")
    dp.enable_features("contrib")
    text = section(options.repetitions)
    sys.stdout.write(text)
    if options.write:
        PAGE.write_text(with_section(PAGE.read_text("utf-8"), HEADING, text), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
